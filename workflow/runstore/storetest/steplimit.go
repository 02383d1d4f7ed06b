package storetest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/workflow/runstore"
)

// change replaces the documents of keys and returns those that it replaced, as texts.
func (x suite) change(s runstore.StepLimiter, keys []string, documents ...string) (old []string) {
	x.Helper()
	err := s.ChangeStepLimits(x.Context(), keys, func(now time.Time, stored [][]byte) ([][]byte, error) {
		if d := time.Since(now); d > time.Minute || d < -time.Minute {
			x.Errorf("the time of the store is %s", now)
		}
		old = nil
		list := make([][]byte, len(keys))
		for i, document := range documents {
			if old = append(old, string(stored[i])); document != "" {
				list[i] = []byte(document)
			}
		}
		return list, nil
	})
	if err != nil {
		x.Fatal(err)
	}
	return old
}

func (x suite) stepLimits(s runstore.StepLimiter, after string, limit int) (texts []string) {
	x.Helper()
	list, err := s.StepLimits(x.Context(), after, limit)
	if err != nil {
		x.Fatal(err)
	}
	texts = []string{}
	for _, k := range list {
		texts = append(texts, k.Key+"="+string(k.Document))
	}
	return texts
}

func testStepLimits(t *testing.T, h Harness) {
	t.Run("all documents or none", func(t *testing.T) {
		x := open(t, h)
		s := optional[runstore.StepLimiter](x)
		odd := "tenant/${x}/ä ü/" + strings.Repeat("[0 ", 60)
		x.wantEqual("before", x.change(s, []string{"a", odd}, "1", "2"), []string{"", ""})
		x.wantEqual("stored", x.change(s, []string{"a", "b", odd}, "3", "4", "2"), []string{"1", "", "2"})
		x.wantEqual("list", x.stepLimits(s, "", 0), []string{"a=3", "b=4", odd + "=2"})
		x.wantEqual("page", x.stepLimits(s, "a", 1), []string{"b=4"})
		failed := errors.New("no")
		err := s.ChangeStepLimits(t.Context(), []string{"a"}, func(_ time.Time, stored [][]byte) ([][]byte, error) {
			return [][]byte{[]byte("lost")}, failed
		})
		x.wantError("an error of the change", err, failed)
		x.wantEqual("removed", x.change(s, []string{"a", "b"}, "", "4"), []string{"3", "4"})
		x.wantEqual("list", x.stepLimits(s, "", 0), []string{"b=4", odd + "=2"})
		x.wantEqual("a removed one is new again", x.change(s, []string{"a"}, "5"), []string{""})
		x.wantEqual("nothing to remove", x.change(s, []string{"nobody"}, ""), []string{""})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.ChangeStepLimits(ctx, []string{"a"}, func(time.Time, [][]byte) ([][]byte, error) { return [][]byte{nil}, nil }); err == nil {
			t.Error("a change with an ended context was made")
		}
	})
	t.Run("a change in between", func(t *testing.T) {
		x := open(t, h)
		s := optional[runstore.StepLimiter](x)
		if _, memory := s.(*runstore.Memory); memory {
			t.Skip("changes of the memory wait for each other")
		}
		for _, c := range []struct{ first, between string }{{"", "1"}, {"1", "2"}, {"2", ""}} {
			x.change(s, []string{"k", "other"}, c.first, "x")
			calls := 0
			var seen string
			err := s.ChangeStepLimits(t.Context(), []string{"k", "other"}, func(_ time.Time, stored [][]byte) ([][]byte, error) {
				if calls++; calls == 1 {
					x.wantEqual("first", string(stored[0]), c.first)
					x.change(s, []string{"k"}, c.between)
				}
				seen = string(stored[0])
				return [][]byte{append(stored[0], '!'), []byte(strconv.Itoa(calls))}, nil
			})
			if err != nil || calls < 2 || seen != c.between {
				t.Errorf("%q, then %q: %d calls, the last one saw %q, %v", c.first, c.between, calls, seen, err)
			}
			x.wantEqual("stored", x.stepLimits(s, "", 0), []string{"k=" + c.between + "!", "other=2"})
		}
	})
	t.Run("side by side", func(t *testing.T) {
		x := open(t, h)
		s := optional[runstore.StepLimiter](x)
		const workers = 4
		times := 25
		if h.Slow {
			times = 5
		}
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				for i := range times {
					keys := []string{"a", "b"}
					if (w+i)%3 == 0 {
						keys = []string{"b", "c"}
					}
					err := s.ChangeStepLimits(t.Context(), keys, func(_ time.Time, stored [][]byte) ([][]byte, error) {
						list := make([][]byte, len(keys))
						for i := range keys {
							n, _ := strconv.Atoi(string(stored[i]))
							list[i] = []byte(strconv.Itoa(n + 1))
						}
						return list, nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		x.wantEqual("count of the key in all changes", x.change(s, []string{"b"}, "x"), []string{strconv.Itoa(workers * times)})
	})
	t.Run("after a crash", func(t *testing.T) {
		x := reopenable(t, h)
		x.change(optional[runstore.StepLimiter](x), []string{"a", "b"}, "1", "2")
		x.Store = h.Reopen(t, x.Store)
		s := optional[runstore.StepLimiter](x)
		x.wantEqual("list", x.stepLimits(s, "", 0), []string{"a=1", "b=2"})
		x.wantEqual("changed again", x.change(s, []string{"b"}, "3"), []string{"2"})
	})
}
