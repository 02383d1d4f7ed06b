package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"pgregory.net/rapid"
)

func demo(name string) Ref { return Ref{"demo", "default", name} }

func apply(t interface{ Fatal(...any) }, s Objects, name string, n int) Object {
	o, err := s.Apply(context.Background(), Object{Ref: demo(name), Spec: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// serve runs a controller over a memory store; stop ends both.
func serve(t *testing.T, store *Memory, c Controller) (shared *Shared[Object], stop func()) {
	shared = NewShared(store.Feed("demo"), SharedOptions[Object]{Name: "demo", Log: discardLogs()})
	c.Name, c.Log = "demo", discardLogs()
	c.Triggers = append(c.Triggers, For(shared, DesiredChanged))
	if c.Report == nil {
		c.Report = ReportFault(store, shared.Cache())
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := Run(ctx, []Runner{shared}, []Runner{c}); err != nil {
			t.Error(err)
		}
	})
	return shared, func() { cancel(); wg.Wait() }
}

func status(t *testing.T, store Objects, name string) string {
	t.Helper()
	o, err := store.Get(t.Context(), demo(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(o.Status)
}

func TestExhaustedFaultIsOnTheObjectUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, m := NewMemory(), &counts{}
		var mu sync.Mutex
		passes, mended := 0, false
		apply(t, store, "a", 1)
		if _, err := Modify(t.Context(), store, demo("a"), func(o *Object) error { o.Status = json.RawMessage(`{"ready":3}`); return nil }); err != nil {
			t.Fatal(err)
		}
		_, stop := serve(t, store, Controller{Metrics: m, Reconcile: func(context.Context, string) outcome.Outcome {
			time.Sleep(2 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			if passes++; mended {
				return outcome.Done()
			}
			return outcome.Fail(errors.New("no image"))
		}})
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		// the resyncs at 10 h and 20 h have retried it twice
		if passes != 3*16 {
			t.Fatalf("%d passes; want the first and 15 retries, three times", passes)
		}
		var s struct {
			Ready int
			Fault FaultRecord
		}
		if err := json.Unmarshal([]byte(status(t, store, "a")), &s); err != nil {
			t.Fatal(err)
		}
		f := s.Fault
		if s.Ready != 3 || f.Code != "RETRIES_EXHAUSTED" || f.Cause != "UNKNOWN" || f.Remedy == "" || f.Title == "" || f.ObservedGeneration != 1 || f.At.IsZero() ||
			!strings.Contains(f.Message, "16 times in a row") || !strings.Contains(f.Message, "no image") {
			t.Fatalf("status: %s", status(t, store, "a"))
		}
		if len(m.retries) != 48 || !slices.Equal(m.exhausted, []string{"UNKNOWN", "UNKNOWN", "UNKNOWN"}) {
			t.Fatalf("metrics: %d retries, exhausted %v", len(m.retries), m.exhausted)
		}
		if len(m.work) != 48 || m.work[0] != "2s Unknown" {
			t.Fatalf("metrics: work %q", m.work)
		}
		mu.Lock()
		mended = true
		mu.Unlock()
		apply(t, store, "a", 2) // the next event retries it
		time.Sleep(3 * time.Second)
		if got := status(t, store, "a"); got != `{"ready":3}` {
			t.Fatalf("status after success: %s", got)
		}
		stop()
		if passes != 49 {
			t.Fatalf("%d passes; the writes of the fault must not wake", passes)
		}
	})
}

func TestAFaultOfAnEarlierProcessIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory()
		apply(t, store, "a", 1)
		if _, err := Modify(t.Context(), store, demo("a"), func(o *Object) error {
			return setFault(o, RetriesExhausted.Errorf("x"), time.Now())
		}); err != nil {
			t.Fatal(err)
		}
		_, stop := serve(t, store, Controller{Reconcile: func(context.Context, string) outcome.Outcome { return outcome.Wait(0, "Idle", "") }})
		synctest.Wait()
		stop()
		if got := status(t, store, "a"); got != "" {
			t.Fatalf("status: %s", got)
		}
	})
}

func TestAFaultThatCannotBeWrittenIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory()
		apply(t, store, "a", 1)
		reports, passes := 0, 0
		_, stop := serve(t, store, Controller{MaxRetries: 2,
			Reconcile: func(context.Context, string) outcome.Outcome { passes++; return outcome.Fail(errors.New("no")) },
			Report: func(_ context.Context, _ string, err error) error {
				if fault.Of(err) != RetriesExhausted {
					t.Errorf("reported %v", err)
				}
				if reports++; reports == 1 {
					panic("a report that panics")
				}
				if reports == 2 {
					return errors.New("store away")
				}
				return nil
			}})
		time.Sleep(time.Hour)
		stop()
		if reports != 3 || passes != 5 {
			t.Fatalf("%d reports, %d passes; want 3 passes, then one more per lost report", reports, passes)
		}
	})
}

// Promise 12: failures of the control plane are never charged.
func TestPromise12FreeFailuresGoOnWithoutLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory()
		apply(t, store, "a", 1)
		var at []time.Time
		_, stop := serve(t, store, Controller{Reconcile: func(context.Context, string) outcome.Outcome {
			at = append(at, time.Now())
			return outcome.Fail(fmt.Errorf("get: %w", fault.APIUnavailable.Errorf("down")))
		}})
		time.Sleep(9 * time.Hour)
		stop()
		if len(at) < 100 || status(t, store, "a") != "" {
			t.Fatalf("promise 12: %d passes, status %s; want retries without end and no fault", len(at), status(t, store, "a"))
		}
		if last := at[len(at)-1].Sub(at[len(at)-2]); last != 5*time.Minute {
			t.Fatalf("the last delay is %s, want 5m", last)
		}
	})
}

func TestNoWorkBeforeSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var seen []string
		src := &script{lists: []func() ([]Item[int], string, error){
			func() ([]Item[int], string, error) { time.Sleep(time.Minute); return nil, "", errors.New("away") },
			func() ([]Item[int], string, error) {
				time.Sleep(time.Minute)
				return []Item[int]{{"a", "1", 1}, {"b", "1", 2}}, "1", nil
			},
		}}
		shared := NewShared(src, SharedOptions[int]{Log: discardLogs()})
		early := Signals(func(ctx context.Context, add func(string)) { add("a"); <-ctx.Done() })
		ctx, cancel := context.WithCancel(t.Context())
		c := Controller{Name: "n", Log: discardLogs(), Workers: 1, Triggers: []Trigger{early, For(shared, nil)}, Reconcile: func(_ context.Context, key string) outcome.Outcome {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprint(key, shared.Cache().Len()))
			return outcome.Done()
		}}
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := Run(ctx, []Runner{shared}, []Runner{c}); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(90 * time.Second)
		synctest.Wait()
		mu.Lock()
		if len(seen) != 0 {
			t.Fatalf("worked before the first list: %v", seen)
		}
		mu.Unlock()
		time.Sleep(90 * time.Second)
		cancel()
		wg.Wait()
		slices.Sort(seen)
		if seen = slices.Compact(seen); !slices.Equal(seen, []string{"a2", "b2"}) {
			t.Fatalf("passes (key, cached items): %v", seen)
		}
	})
	synctest.Test(t, func(t *testing.T) { // stopped before the first list: nothing hangs, no pass runs
		src := &script{lists: []func() ([]Item[int], string, error){func() ([]Item[int], string, error) { return nil, "", errors.New("away") }}}
		shared := NewShared(src, SharedOptions[int]{Log: discardLogs()})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		c := Controller{Name: "n", Triggers: []Trigger{For(shared, nil)}, Reconcile: func(context.Context, string) outcome.Outcome { t.Error("worked"); return outcome.Done() }}
		if err := Run(ctx, []Runner{shared}, []Runner{c}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestOtherSourcesWakeTheirOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory()
		var mu sync.Mutex
		passes := map[string]int{}
		pods := NewShared(store.Feed("pod"), SharedOptions[Object]{Name: "pods", Log: discardLogs()})
		owner := func(o Object) []string {
			if o.Owner == nil {
				return nil
			}
			return []string{o.Owner.Ref.String()}
		}
		apply(t, store, "a", 1)
		apply(t, store, "b", 1)
		shared := NewShared(store.Feed("demo"), SharedOptions[Object]{Name: "demo", Log: discardLogs()})
		c := Controller{Name: "demo", Log: discardLogs(), Triggers: []Trigger{For(shared, DesiredChanged), On(pods, nil, owner), On(pods, func(Event[Object]) bool { panic("a predicate that panics") }, owner)},
			Reconcile: func(_ context.Context, key string) outcome.Outcome {
				mu.Lock()
				defer mu.Unlock()
				passes[key]++
				return outcome.Done()
			}}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := Run(ctx, []Runner{shared, pods}, []Runner{c}); err != nil {
				t.Error(err)
			}
		})
		expect := func(what string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if passes["demo/default/a"] == 0 || passes["demo/default/b"] == 0 {
				t.Fatalf("%s: passes %v, want both woken", what, passes)
			}
			clear(passes)
		}
		expect("start")
		pod := Object{Ref: Ref{"pod", "default", "p"}, Owner: &Owner{Ref: demo("a")}}
		if _, err := store.Apply(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mu.Lock()
		clear(passes)
		mu.Unlock()
		pod.Owner = &Owner{Ref: demo("b")}
		if _, err := store.Apply(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		expect("a pod that changed hands")
		cancel()
		wg.Wait()
	})
}

func TestShutdownDrainsUpToItsLimit(t *testing.T) {
	for _, c := range []struct {
		name     string
		pass     time.Duration
		obeys    bool
		took     time.Duration
		finished int
	}{
		{"quick passes: all that is ready is worked on", time.Second, true, 5 * time.Second, 5},
		{"slow passes: the limit cancels them", 10 * time.Second, true, 25 * time.Second, 2},
		{"a pass that ignores its context is waited for", time.Minute, false, time.Minute, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := NewMemory()
				for i := range 5 {
					apply(t, store, fmt.Sprint("o", i), 1)
				}
				finished, cancelled := 0, 0
				begun := make(chan struct{}, 10)
				m := &counts{}
				_, stop := serve(t, store, Controller{Workers: 1, Metrics: m, Reconcile: func(ctx context.Context, key string) outcome.Outcome {
					begun <- struct{}{}
					done := ctx.Done()
					if !c.obeys {
						done = nil
					}
					select {
					case <-time.After(c.pass):
						finished++
						return outcome.Later(time.Second, "More", "to do")
					case <-done:
						cancelled++
						if context.Cause(ctx) != ErrStopped {
							t.Errorf("cause %v", context.Cause(ctx))
						}
						return outcome.Fail(ctx.Err())
					}
				}})
				<-begun
				synctest.Wait() // all five keys are queued
				start := time.Now()
				stop()
				if len(m.retries) != 0 {
					t.Errorf("what the shutdown cancelled was charged: %v", m.retries)
				}
				if took := time.Since(start); took != c.took || finished != c.finished {
					t.Fatalf("stopped after %s with %d finished and %d cancelled passes; want %s and %d finished", took, finished, cancelled, c.took, c.finished)
				}
			})
		})
	}
}

func TestRunEndsWithTheFirstError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := NewShared(NewMemory().Feed(""), SharedOptions[Object]{Log: discardLogs()})
		err := Run(t.Context(), []Runner{shared}, []Runner{Controller{Name: "without reconcile"}})
		if err == nil || !strings.Contains(err.Error(), "Reconcile") {
			t.Fatalf("run: %v", err)
		}
	})
}

func TestASuccessThatCannotBeReportedIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory()
		apply(t, store, "a", 1)
		passes := 0
		_, stop := serve(t, store, Controller{
			Reconcile: func(context.Context, string) outcome.Outcome { passes++; return outcome.Done() },
			Report: func(context.Context, string, error) error {
				if passes < 3 {
					return errors.New("store away")
				}
				return nil
			}})
		time.Sleep(time.Hour)
		stop()
		if passes != 3 {
			t.Fatalf("%d passes, want 3", passes)
		}
	})
}

// For any writes and failures: at the end each object was reconciled with its newest spec,
// and removed objects are not reconciled any more.
func TestConvergence(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		luck := rapid.SliceOfN(rapid.IntRange(0, 5), 20, 20).Draw(r, "luck")
		writes := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) write {
			return write{rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "name"), rapid.IntRange(0, 5).Draw(r, "delete") == 0, rapid.IntRange(0, 8).Draw(r, "pause")}
		}), 1, 30).Draw(r, "writes")
		var verdict string
		synctest.Test(t, func(t *testing.T) { verdict = converge(t, luck, writes) })
		if verdict != "" {
			r.Fatal(verdict)
		}
	})
}

type write struct {
	name   string
	delete bool
	pause  int // ms
}

// converge returns what is wrong at the end; "" if nothing is.
func converge(t *testing.T, luck []int, writes []write) string {
	store, start := NewMemory(), time.Now()
	var mu sync.Mutex
	inside, passes := map[string]bool{}, 0
	_, stop := serve(t, store, Controller{Workers: 3, MaxRetries: 1000, Reconcile: func(ctx context.Context, key string) outcome.Outcome {
		mu.Lock()
		if inside[key] {
			t.Errorf("%s is worked on twice at once", key)
		}
		inside[key] = true
		passes++
		chance := luck[passes%len(luck)]
		enough := time.Since(start) > time.Second
		mu.Unlock()
		defer func() { mu.Lock(); defer mu.Unlock(); inside[key] = false }()
		time.Sleep(time.Duration(chance) * time.Millisecond)
		ref, err := ParseRef(key)
		if err != nil {
			return outcome.Fail(err)
		}
		o, err := store.Get(ctx, ref)
		switch {
		case err != nil:
			return outcome.Fail(err)
		case enough: // no more failures
		case chance == 1:
			return outcome.Fail(errors.New("bad luck"))
		case chance == 2:
			panic("worse luck")
		case chance == 3:
			return outcome.Wait(10*time.Millisecond, "NotYet", "")
		case chance == 4:
			return outcome.Fail(fault.APIUnavailable.Errorf("away"))
		}
		o.Status = o.Spec
		_, err = store.Update(ctx, o)
		return outcome.Fail(err)
	}})
	for n, w := range writes {
		if w.delete {
			if _, err := store.Delete(t.Context(), demo(w.name), 0); err != nil && fault.Of(err) != NotFound {
				t.Error(err)
			}
		} else {
			apply(t, store, w.name, n)
		}
		time.Sleep(time.Duration(w.pause) * time.Millisecond)
	}
	time.Sleep(time.Hour)
	synctest.Wait()
	mu.Lock()
	before := passes
	mu.Unlock()
	time.Sleep(time.Hour)
	stop()
	page, err := store.List(t.Context(), Query{})
	if err != nil {
		return err.Error()
	}
	for _, o := range page.Items {
		if string(o.Status) != string(o.Spec) {
			return fmt.Sprintf("%s: status %s, spec %s", o.Ref, o.Status, o.Spec)
		}
	}
	if passes != before {
		return fmt.Sprintf("%d passes in a settled world", passes-before)
	}
	return ""
}
