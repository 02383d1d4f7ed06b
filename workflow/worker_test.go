package workflow_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// slowRenewStore is a store whose Renew does not return while the process is stopped.
type slowRenewStore struct {
	*runstore.Memory
	stopped atomic.Bool
}

func (f *slowRenewStore) Renew(ctx context.Context, worker string, lease time.Duration) error {
	for f.stopped.Load() {
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(time.Second)
	}
	return f.Memory.Renew(ctx, worker, lease)
}

// TestPromise4TwoWorkers: a worker that was suspended for longer than its lease loses its run. The
// contexts of its steps end before the lease does, it saves nothing afterwards, and the epoch only
// increases.
//
// It covers defect 9.
func TestPromise4TwoWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := runstore.NewMemory()
		store := &slowRenewStore{Memory: memory}
		var running, most atomic.Int32
		var mu sync.Mutex
		var epochs []int64
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "S", Timeout: time.Hour, Do: func(ctx context.Context, task *workflow.Task) outcome.Outcome {
			mu.Lock()
			epochs = append(epochs, task.Epoch())
			mu.Unlock()
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer running.Add(-1)
			select {
			case <-ctx.Done():
				return outcome.Fail(context.Cause(ctx))
			case <-time.After(time.Minute):
				return outcome.Done()
			}
		}}}}
		serve := func(store runstore.Store, name string) (*workflow.Engine, func()) {
			e, err := workflow.New(store, []workflow.Flow{flow}, workflow.Options{Worker: name, Logger: quiet()})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() { _ = e.Serve(ctx); close(done) }()
			synctest.Wait()
			return e, func() { cancel(); <-done }
		}
		a, stopA := serve(store, "a")
		defer stopA()
		run, err := a.Start(t.Context(), workflow.Request{Flow: "F", Subject: subject})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		store.stopped.Store(true)
		_, stopB := serve(memory, "b")
		defer stopB()
		time.Sleep(20 * time.Second)
		store.stopped.Store(false)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		got, _, err := memory.Load(t.Context(), run.ID)
		want(t, err, error(nil))
		want(t, got.Phase, runtype.Succeeded)
		want(t, most.Load(), int32(1))
		want(t, len(epochs) == 2 && epochs[0] < epochs[1], true)
		want(t, got.Step("S").Failures, 0)
	})
}

// TestAbandonedStep: a step that ignores its cancelled context keeps its run: a resume is refused
// until the step returns.
//
// It covers defect 8.
func TestAbandonedStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		release := make(chan struct{})
		first := true
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "S", Timeout: time.Minute, Grace: 5 * time.Second, Do: func(context.Context, *workflow.Task) outcome.Outcome {
			r.did("S")
			if first {
				first = false
				<-release
				return outcome.Fail(shaky.Errorf("late"))
			}
			return outcome.Done()
		}}}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		time.Sleep(64 * time.Second)
		r.rests(run.ID, runtype.Running)
		time.Sleep(2 * time.Second)
		got := r.rests(run.ID, runtype.Paused)
		want(t, got.Fault.Code, workflow.StepStillRunning.Code)
		want(t, got.Owner != "", true)
		err := r.engine.Resume(t.Context(), run.ID, "", "", workflow.Actor{})
		want(t, code(err), "STEP_STILL_RUNNING")
		close(release)
		got = r.rests(run.ID, runtype.Paused)
		want(t, got.Fault.Code, workflow.Timeout.Code)
		want(t, got.Owner, "")
		want(t, r.engine.Resume(t.Context(), run.ID, "", "", workflow.Actor{}), error(nil))
		r.rests(run.ID, runtype.Succeeded)
		want(t, r.done(), []string{"S", "S"})
	})
}

func TestTimeoutAndHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		hang := func(ctx context.Context, _ *workflow.Task) outcome.Outcome {
			<-ctx.Done()
			return outcome.Fail(ctx.Err())
		}
		beats := func(ctx context.Context, task *workflow.Task) outcome.Outcome {
			for i := range int64(30) {
				task.Progress(i, 30, "copying")
				time.Sleep(time.Second)
			}
			return outcome.Done()
		}
		one := workflow.Retry{Attempts: 1}
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{
			{Name: "Beats", Heartbeat: 5 * time.Second, Do: beats, Retry: one},
			{Name: "Slow", Timeout: time.Minute, Do: hang, Retry: one, Skippable: true},
			{Name: "Silent", Heartbeat: 5 * time.Second, Do: hang, Retry: one},
		}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if p := r.load(run.ID).Step("Beats").Progress; p == nil || p.Done < 10 || p.Total != 30 {
			t.Fatalf("progress %+v", p)
		}
		time.Sleep(80 * time.Second)
		got := r.rests(run.ID, runtype.Paused)
		want(t, got.Fault.Code, workflow.Timeout.Code)
		want(t, r.engine.Skip(t.Context(), run.ID, "Slow", nil, false, workflow.Actor{}), error(nil))
		time.Sleep(6 * time.Second)
		got = r.rests(run.ID, runtype.Paused)
		want(t, got.Fault.Code, workflow.HeartbeatLost.Code)
	})
}

// TestFinding9KillerIsIsolated: one death proves nothing. After it, each step that was open runs
// while no other one of them runs. If the process dies again, the run that had the turn is paused:
// after two deaths in total. Other runs continue all the time, and no death counts for them.
func TestFinding9KillerIsIsolated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := runstore.NewMemory()
		var kill func()
		var suspects atomic.Int32
		var opened []time.Time // attempts of the killer
		var neighbours []int   // number of other steps that had ended at each death
		var ended atomic.Int32
		innocent := workflow.Flow{Name: "Innocent", Steps: []workflow.Step{{Name: "I", Do: func(ctx context.Context, task *workflow.Task) outcome.Outcome {
			if task.Attempt() > 1 {
				suspects.Add(1)
				defer suspects.Add(-1)
			}
			select {
			case <-ctx.Done():
				return outcome.Fail(context.Cause(ctx))
			case <-time.After(100 * time.Millisecond):
				ended.Add(1)
				return outcome.Done()
			}
		}}}}
		for range 40 {
			innocent.Steps = append(innocent.Steps, workflow.Step{Name: fmt.Sprint("I", len(innocent.Steps)), Do: innocent.Steps[0].Do})
		}
		deaths := 0
		killer := workflow.Flow{Name: "Killer", Steps: []workflow.Step{{Name: "K", Do: func(ctx context.Context, _ *workflow.Task) outcome.Outcome {
			deaths++
			opened = append(opened, time.Now())
			neighbours = append(neighbours, int(ended.Load()))
			if suspects.Load() > 0 {
				t.Error("another suspect is open beside the killer")
			}
			kill()
			<-ctx.Done()
			return outcome.Fail(context.Cause(ctx))
		}}}}
		life := func(worker string) {
			store := newCrashingStore(memory, 0, false)
			died := make(chan struct{})
			kill = func() {
				store.mu.Lock()
				if !store.dead {
					store.dead = true
					close(died)
				}
				store.mu.Unlock()
			}
			e, err := workflow.New(store, []workflow.Flow{innocent, killer}, workflow.Options{Worker: worker, Drain: time.Second, Logger: quiet()})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() { _ = e.Serve(ctx); close(done) }()
			synctest.Wait()
			if worker == "w1" {
				for i, flow := range []string{"Innocent", "Killer"} {
					if _, err := e.Start(ctx, workflow.Request{Flow: flow, Subject: flow, RequestID: string(rune('a' + i))}); err != nil {
						t.Fatal(err)
					}
				}
			} else if worker == "w2" { // a step that is not a suspect
				if _, err := e.Start(ctx, workflow.Request{Flow: "Innocent", Subject: worker}); err != nil {
					t.Fatal(err)
				}
			}
			select {
			case <-died:
			case <-time.After(5 * time.Minute):
			}
			cancel()
			<-done
		}
		for _, worker := range []string{"w1", "w2", "w3"} {
			life(worker)
		}
		k, _, err := memory.Load(t.Context(), workflow.RunID("Killer", "Killer", "b"))
		want(t, err, error(nil))
		want(t, k.Phase, runtype.Paused)
		want(t, k.Fault.Code, workflow.Crashed.Code)
		want(t, deaths, 2)
		if gap := opened[1].Sub(opened[0]); gap < 250*time.Millisecond {
			t.Errorf("the second attempt came %s after the first", gap)
		}
		if neighbours[1] == neighbours[0] {
			t.Errorf("steps that had ended at each death: %v: the neighbours stood still", neighbours)
		}
		i, _, err := memory.Load(t.Context(), workflow.RunID("Innocent", "Innocent", "a"))
		want(t, err, error(nil))
		want(t, i.Phase, runtype.Succeeded)
		for rec := range i.Steps() {
			want(t, rec.Failures, 0)
		}
	})
}

// TestFinding9TurnsAreShort: many long steps were open when their worker was killed. They run again
// after the time of all their turns together, and none of them is paused.
func TestFinding9TurnsAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{r.obedient("S", time.Hour)}}}), error(nil))
		ids := r.lost("F", "S", 50, 0, time.Minute)
		begun := func() (n int) {
			for _, id := range ids {
				if r.load(id).Step("S").Attempt == 2 {
					n++
				}
			}
			return n
		}
		time.Sleep(time.Minute + 750*time.Millisecond)
		if n := begun(); n < 2 || n > 5 {
			t.Errorf("%d suspects are open after two turns", n)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		want(t, begun(), 50)
		for _, id := range ids {
			want(t, r.load(id).Phase, runtype.Running)
		}
	})
}

// TestFinding9HealerThatKills: each death counts for a healer that kills its process, and its
// limits end it.
func TestFinding9HealerThatKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := runstore.NewMemory()
		heals := 0
		var store *crashingStore
		options := workflow.Options{Logger: quiet(), Healers: map[fault.Code]workflow.Healer{"TEST_BROKEN": {Do: func(ctx context.Context, _ *workflow.Task) outcome.Outcome {
			heals++
			store.mu.Lock()
			store.dead = true
			close(store.died)
			store.mu.Unlock()
			<-ctx.Done()
			return outcome.Fail(context.Cause(ctx))
		}}}}
		flows := []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "A", Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Fail(broken.Errorf("no")) }}}}}
		var id string
		for life := range 5 {
			store = newCrashingStore(memory, 0, false)
			options.Worker = fmt.Sprint("w", life)
			e, stop := worker(t, store, flows, options)
			if life == 0 {
				run, err := e.Start(t.Context(), workflow.Request{Flow: "F", Subject: subject})
				want(t, err, error(nil))
				id = run.ID
			}
			select {
			case <-store.died:
			case <-time.After(time.Hour):
			}
			stop()
		}
		run, _, err := memory.Load(t.Context(), id)
		want(t, err, error(nil))
		want(t, run.Phase, runtype.Paused)
		want(t, run.Fault.Healer, "HEALER_EXHAUSTED")
		want(t, heals, 3)
	})
}

// TestSlotsLimitAttempts: a worker has at most Attempts open attempts, a flow at most its Limit, a
// tenant at most PerLabel.
//
// It covers defect 19.
func TestSlotsLimitAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{Attempts: 5, PerLabel: workflow.LabelLimit{Label: "tenant", Max: 2}})
		defer r.stop()
		var now, most, tenant, mostTenant atomic.Int32
		peak := func(n, most *atomic.Int32) func() {
			if v := n.Add(1); v > most.Load() {
				most.Store(v)
			}
			return func() { n.Add(-1) }
		}
		do := func(_ context.Context, task *workflow.Task) outcome.Outcome {
			defer peak(&now, &most)()
			if task.View().Run().Labels["tenant"] != "" {
				defer peak(&tenant, &mostTenant)()
			}
			time.Sleep(time.Second)
			return outcome.Done()
		}
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "A", Do: do}, {Name: "P", Parallel: 4, Steps: []workflow.Step{{Name: "B", Do: do}, {Name: "C", Do: do}, {Name: "D", Do: do}}}}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		for i := range 20 {
			req := workflow.Request{Flow: "F", Subject: subject + string(rune('a'+i))}
			if i%2 == 0 {
				req.Labels = map[string]string{"tenant": "acme"}
			}
			if _, err := r.engine.Start(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		left, _, err := r.store.List(t.Context(), runstore.Query{Active: true})
		want(t, err, error(nil))
		want(t, len(left), 0)
		want(t, most.Load(), int32(5))
		want(t, mostTenant.Load(), int32(2))
	})
}
