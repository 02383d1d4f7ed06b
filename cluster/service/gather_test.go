package service

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What comes while a write is under way is one write, and each caller hears
// what became of its own.
func TestGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gathered[int]
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
