package schedule

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// servers starts engines and schedulers over one store until the test ends.
func servers(t *testing.T, n int, objects control.Objects, store *runstore.Memory, do workflow.Func) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range n {
		engine, err := workflow.New(store, []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "Do", Do: do}}}},
			workflow.Options{Worker: fmt.Sprint("w", i), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		s := New(Options{Objects: objects, Engine: engine, Runs: store, Logger: slog.New(slog.DiscardHandler)})
		all.Go(func() { _ = engine.Serve(ctx) })
		all.Go(func() { _ = s.Serve(ctx) })
	}
	t.Cleanup(func() { cancel(); all.Wait() })
}

func apply(t *testing.T, objects control.Objects, name, spec string) control.Object {
	t.Helper()
	o, err := objects.Apply(t.Context(), control.Object{Ref: control.Ref{Kind: Kind, Namespace: "default", Name: name}, Spec: json.RawMessage(spec)})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Two servers over one store: each tick of each schedule has one run.
func TestTwoServersStartEachTickOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects, store := control.NewMemory(), runstore.NewMemory()
		servers(t, 2, objects, store, func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() })
		for i := range 20 {
			apply(t, objects, fmt.Sprint("s", i), `{"flow": "F", "interval": "1h", "spread": "10m"}`)
		}
		time.Sleep(3*time.Hour + 15*time.Minute)
		for i := range 20 {
			runs, _, err := store.List(t.Context(), runstore.Query{Labels: []runstore.LabelTerm{{Key: LabelSchedule, Value: fmt.Sprint("default/s", i)}}})
			if err != nil || len(runs) != 3 {
				t.Fatalf("schedule %d: %d runs, %v", i, len(runs), err)
			}
			for _, r := range runs {
				if r.Phase != runtype.Succeeded {
					t.Errorf("run %s of %s is %s", r.ID, r.Labels[LabelTick], r.Phase)
				}
			}
		}
	})
}

// A run that has not ended is cancelled, or waited for, or lets the ticks be skipped.
func TestOverlap(t *testing.T) {
	for how, want := range map[Overlap]string{
		Skip:    "map[Running:1] started 1 skipped 2",
		Queue:   "map[Queued:2 Running:1] started 3 skipped 0",
		Replace: "map[Cancelled:2 Running:1] started 3 skipped 0",
	} {
		t.Run(string(how), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				objects, store := control.NewMemory(), runstore.NewMemory()
				servers(t, 1, objects, store, func(ctx context.Context, _ *workflow.Task) outcome.Outcome {
					<-ctx.Done()
					return outcome.Fail(ctx.Err())
				})
				o := apply(t, objects, "s", fmt.Sprintf(`{"flow": "F", "interval": "1m", "overlap": %q}`, how))
				time.Sleep(3*time.Minute + 30*time.Second)
				runs, _, err := store.List(t.Context(), runstore.Query{})
				if err != nil {
					t.Fatal(err)
				}
				phases := map[runtype.Phase]int{}
				for _, r := range runs {
					phases[r.Phase]++
				}
				o, err = objects.Get(t.Context(), o.Ref)
				if err != nil {
					t.Fatal(err)
				}
				s, err := StatusOf(o)
				if got := fmt.Sprintf("%v started %d skipped %d", phases, s.Started, s.Skipped); got != want || err != nil {
					t.Errorf("%s, not %s, %v", got, want, err)
				}
			})
		})
	}
}

// A flow that is not there, and a spec that nothing can be done with, are told with their faults.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects, store := control.NewMemory(), runstore.NewMemory()
		servers(t, 1, objects, store, func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() })
		apply(t, objects, "lost", `{"flow": "Lost", "interval": "1m"}`)
		apply(t, objects, "wrong", `{"flow": "F", "cron": "never"}`)
		time.Sleep(90 * time.Second)
		for name, want := range map[string]string{"lost": `Active [Refused FLOW_UNKNOWN: no flow "Lost" is loaded]`, "wrong": "Invalid SCHEDULE_INVALID []"} {
			o, err := objects.Get(t.Context(), control.Ref{Kind: Kind, Namespace: "default", Name: name})
			if err != nil {
				t.Fatal(err)
			}
			s, _ := StatusOf(o)
			got := s.State
			if s.Fault != nil {
				got += " " + string(s.Fault.Code)
			}
			var recent []string
			for _, r := range s.Recent {
				recent = append(recent, r.Reason+" "+r.Message)
			}
			if got += fmt.Sprint(" ", recent); got != want {
				t.Errorf("%s: %s, not %s", name, got, want)
			}
		}
		// It is looked at again once it is changed.
		apply(t, objects, "wrong", `{"flow": "F", "interval": "1m"}`)
		time.Sleep(time.Minute)
		if runs, _, err := store.List(t.Context(), runstore.Query{}); err != nil || len(runs) != 1 {
			t.Errorf("%d runs, %v", len(runs), err)
		}
	})
}

// A clock that is set is noticed, and what it leaps over is not started twice.
func TestClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var skew time.Duration
		set := func(d time.Duration) { mu.Lock(); skew = d; mu.Unlock() }
		clock := newAlarmClock(func() time.Time { mu.Lock(); defer mu.Unlock(); return time.Now().Add(skew) })
		ctx, cancel := context.WithCancel(t.Context())
		var rung []string
		var all sync.WaitGroup
		all.Go(func() { clock.run(ctx, func(key string) { mu.Lock(); rung = append(rung, key); mu.Unlock() }) })
		begin := time.Now()
		clock.set("hour", begin.Add(time.Hour))
		clock.set("day", begin.Add(24*time.Hour))
		clock.set("gone", begin.Add(time.Minute))
		clock.set("gone", time.Time{})
		time.Sleep(30 * time.Minute)
		set(time.Hour) // ahead
		time.Sleep(longestSleep)
		set(-time.Hour) // and back
		time.Sleep(24 * time.Hour)
		mu.Lock()
		if got := fmt.Sprint(rung); got != "[hour]" {
			t.Errorf("%s", got)
		}
		mu.Unlock()
		time.Sleep(time.Hour)
		cancel()
		all.Wait()
		if got := fmt.Sprint(rung); got != "[hour day]" {
			t.Errorf("%s", got)
		}
	})
}
