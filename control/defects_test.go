package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// The defects in docs/promises.md that concern this package.

// Defect 20: the lock on an object ignored kind and namespace and was never freed. Here
// objects of the same name do not wait for each other, and the queue keeps nothing of a key
// after its last pass.
func TestDefect20KeysAreWholeNamesAndFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory()
		all := NewShared(store.Feed(""), SharedOptions[Object]{Name: "all", Log: discardLogs()})
		refs := []Ref{{"demo", "one", "c"}, {"demo", "two", "c"}, {"other", "one", "c"}}
		for _, ref := range refs {
			if _, err := store.Apply(t.Context(), Object{Ref: ref}); err != nil {
				t.Fatal(err)
			}
		}
		var at atomic.Int64
		together := make(chan struct{})
		c := Controller{Name: "all", Log: discardLogs(), Triggers: []Trigger{For(all, nil)}, Reconcile: func(context.Context, string) outcome.Outcome {
			if at.Add(1) == int64(len(refs)) {
				close(together)
			}
			<-together // deadlocks, and so fails the test, if one waits for another
			return outcome.Done()
		}}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := Run(ctx, []Runner{all}, []Runner{c}); err != nil {
				t.Error(err)
			}
		})
		<-together
		cancel()
		wg.Wait()
	})
	q := NewQueue(QueueOptions{})
	for i := range 100 {
		key := fmt.Sprint(i)
		q.Add(key)
		q.Get()
		q.Charge(key)
		q.Retry(key)
		q.Done(key)
		q.Add(key)
		q.Get()
		q.Forget(key)
		q.Done(key)
	}
	if n := len(q.dirty) + len(q.processing) + len(q.failures) + len(q.delayed.at) + len(q.delayed.heap) + len(q.waiting); n != 0 {
		t.Fatalf("%d entries are left of keys whose work is done", n)
	}
}

// Defect 30: an event was evaluated twice. Here a predicate gets each event once.
func TestDefect30AnEventIsEvaluatedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory()
		asked, passes := 0, 0
		shared := NewShared(store.Feed("demo"), SharedOptions[Object]{Log: discardLogs()})
		c := Controller{Name: "demo", Log: discardLogs(), Workers: 1, Triggers: []Trigger{For(shared, func(Event[Object]) bool { asked++; return asked%2 == 1 })},
			Reconcile: func(context.Context, string) outcome.Outcome { passes++; return outcome.Done() }}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := Run(ctx, []Runner{shared}, []Runner{c}); err != nil {
				t.Error(err)
			}
		})
		for n := range 6 {
			apply(t, store, "a", n)
			synctest.Wait()
		}
		cancel()
		wg.Wait()
		if asked != 6 || passes != 3 {
			t.Fatalf("the predicate was asked %d times, %d passes; want 6 and 3", asked, passes)
		}
	})
}

// Defect 32: a deleted object was retried for ever.
func TestDefect32AVanishedObjectIsDone(t *testing.T) {
	for name, out := range map[string]outcome.Outcome{
		"fail":      outcome.Fail(errors.New("no")),
		"free fail": outcome.Fail(fault.APIUnavailable.Errorf("away")),
		"wait":      outcome.Wait(time.Second, "NotYet", ""),
		"later":     outcome.Later(time.Second, "NotYet", ""),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := NewMemory()
				apply(t, store, "a", 1)
				var passes atomic.Int64
				_, stop := serve(t, store, Controller{MaxRetries: 1 << 30, Reconcile: func(context.Context, string) outcome.Outcome {
					passes.Add(1)
					return out
				}})
				time.Sleep(time.Minute + 500*time.Millisecond) // between two passes
				before := passes.Load()
				if _, err := store.Delete(t.Context(), demo("a"), 0); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				stop()
				if n := passes.Load() - before; n != 1 || before < 5 {
					t.Fatalf("%d passes before the deletion, %d after; want one more, which finds it gone", before, n)
				}
			})
		})
	}
}
