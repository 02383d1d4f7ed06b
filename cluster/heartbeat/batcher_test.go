package heartbeat

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Items with the same key are written together, items with different keys
// separately. A key without callers is removed.
func TestBatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g batchers[int]
		var mu sync.Mutex
		writes := map[string]int{}
		var all sync.WaitGroup
		for i := range 12 {
			key := string(rune('a' + i%3))
			all.Go(func() {
				time.Sleep(time.Duration(i/3) * time.Millisecond)
				if err := g.do(t.Context(), key, i, func(_ context.Context, items []int) error {
					time.Sleep(time.Second)
					mu.Lock()
					defer mu.Unlock()
					writes[key]++
					for _, item := range items {
						if string(rune('a'+item%3)) != key {
							t.Errorf("%d was written with %s", item, key)
						}
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, key := range []string{"a", "b", "c"} {
			if writes[key] != 2 {
				t.Errorf("%s: %d writes, want the first alone and the others together", key, writes[key])
			}
		}
		if len(g.byKey) != 0 {
			t.Errorf("%d keys are kept", len(g.byKey))
		}
	})
}

// Items that arrive during a write form one batch, and each caller receives the
// error of its own batch.
func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g batcher[int]
		var writes [][]int
		full := errors.New("full")
		write := func(_ context.Context, items []int) error {
			time.Sleep(time.Second)
			slices.Sort(items)
			writes = append(writes, items)
			if len(writes) == 2 {
				return full
			}
			return nil
		}
		errs := make([]error, 10)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() {
				if i > 0 {
					time.Sleep(500 * time.Millisecond)
				}
				errs[i] = g.do(t.Context(), i, write)
			})
		}
		all.Wait()
		if len(writes) != 2 || !slices.Equal(writes[0], []int{0}) || len(writes[1]) != 9 {
			t.Errorf("written: %v, want the first alone and the others together", writes)
		}
		for i, err := range errs {
			if (i > 0) != errors.Is(err, full) {
				t.Errorf("%d hears %v", i, err)
			}
		}
		if err := g.do(t.Context(), 10, write); err != nil || len(writes) != 3 {
			t.Errorf("afterwards: %v, %v", writes, err)
		}
	})
}
