package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

var errAway = errors.New("the store is away")

// flaky is a store whose calls fail by name, before or after they take effect.
type flaky struct {
	*runstore.Memory
	mu    sync.Mutex
	fails map[string]int // number of calls that still fail, by name
	after bool           // the calls take effect all the same
	deaf  bool           // no wake-up ever arrives
}

func (f *flaky) set(name string, times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails == nil {
		f.fails = map[string]int{}
	}
	f.fails[name] = times
}

func (f *flaky) call(name string, do func() error) error {
	f.mu.Lock()
	bad := f.fails[name] > 0
	if bad {
		f.fails[name]--
	}
	f.mu.Unlock()
	if bad && f.after {
		_ = do()
	}
	if bad {
		return errAway
	}
	return do()
}

func (f *flaky) Create(ctx context.Context, r *runtype.Run, events []runtype.Event) (out *runtype.Run, err error) {
	err = f.call("create", func() (err error) { out, err = f.Memory.Create(ctx, r, events); return err })
	return out, err
}

func (f *flaky) Load(ctx context.Context, id string) (r *runtype.Run, signals []runtype.Signal, err error) {
	err = f.call("load", func() (err error) { r, signals, err = f.Memory.Load(ctx, id); return err })
	return r, signals, err
}

func (f *flaky) Save(ctx context.Context, s *runstore.Save) error {
	revision := s.Run.Revision
	err := f.call("save", func() error { return f.Memory.Save(ctx, s) })
	if errors.Is(err, errAway) {
		s.Run.Revision = revision // the answer is lost
	}
	return err
}

func (f *flaky) Claim(ctx context.Context, c runstore.Claim) (out runstore.Claimed, err error) {
	err = f.call("claim", func() (err error) { out, err = f.Memory.Claim(ctx, c); return err })
	return out, err
}

func (f *flaky) ClaimRun(ctx context.Context, worker, id string, lease time.Duration) (l runstore.Loaded, err error) {
	err = f.call("take", func() (err error) { l, err = f.Memory.ClaimRun(ctx, worker, id, lease); return err })
	return l, err
}

func (f *flaky) ReleaseRun(ctx context.Context, worker string, r *runtype.Run, next time.Time) error {
	return f.call("rest", func() error { return f.Memory.ReleaseRun(ctx, worker, r, next) })
}

func (f *flaky) Renew(ctx context.Context, worker string, lease time.Duration) error {
	return f.call("renew", func() error { return f.Memory.Renew(ctx, worker, lease) })
}

func (f *flaky) Definition(ctx context.Context, hash string) (d runstore.Definition, err error) {
	err = f.call("definition", func() (err error) { d, err = f.Memory.Definition(ctx, hash); return err })
	return d, err
}

func (f *flaky) Wake() <-chan string {
	if f.deaf {
		return nil
	}
	return f.Memory.Wake()
}

// worker serves a store until stop is called.
func worker(t *testing.T, store runstore.Store, flows []workflow.Flow, options workflow.Options) (*workflow.Engine, func()) {
	t.Helper()
	options.Logger = quiet()
	e, err := workflow.New(store, flows, options)
	want(t, err, error(nil))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { _ = e.Serve(ctx); close(done) }()
	synctest.Wait()
	return e, sync.OnceFunc(func() { cancel(); <-done })
}

func phase(t *testing.T, store *runstore.Memory, id string) runtype.Phase {
	t.Helper()
	synctest.Wait()
	r, _, err := store.Load(t.Context(), id)
	want(t, err, error(nil))
	return r.Phase
}

// TestEveryCallOfTheStoreMayFail: calls fail once or many times, with or without effect. Every run
// ends, and no failure counts for a step.
func TestEveryCallOfTheStoreMayFail(t *testing.T) {
	for _, name := range []string{"create", "load", "save", "claim", "take", "rest", "renew"} {
		for _, after := range []bool{false, true} {
			for _, times := range []int{1, 3} {
				synctest.Test(t, func(t *testing.T) {
					store := &flaky{Memory: runstore.NewMemory(), after: after}
					looks := 0
					flow := workflow.Flow{Name: "F", Steps: []workflow.Step{
						{Name: "A", Retry: workflow.Retry{Attempts: 1}, Do: func(context.Context, *workflow.Task) outcome.Outcome {
							time.Sleep(7 * time.Second)
							return outcome.Done()
						}},
						{Name: "Poll", Retry: workflow.Retry{Attempts: 1}, Do: func(context.Context, *workflow.Task) outcome.Outcome {
							if looks++; looks < 5 {
								return outcome.Wait(10*time.Second, "NotYet", "not yet")
							}
							return outcome.Done()
						}},
						{Name: "W", Wait: &workflow.WaitFor{Signal: "go"}},
					}}
					e, stop := worker(t, store, []workflow.Flow{flow}, workflow.Options{})
					defer stop()
					var id string
					for at := range 24 { // errors at any time
						if name != "create" || at == 0 {
							store.set(name, times)
						}
						if id == "" {
							run, err := e.Start(t.Context(), workflow.Request{Flow: "F", Subject: subject, RequestID: "1"})
							if err == nil {
								id = run.ID
							}
						}
						time.Sleep(7 * time.Second)
						if at == 10 {
							store.set(name, 0)
							want(t, e.Send(t.Context(), id, runtype.Signal{Name: "other"}), error(nil))
						}
						if at == 20 {
							store.set(name, 0)
							want(t, e.Send(t.Context(), id, runtype.Signal{Name: "go"}), error(nil))
						}
					}
					time.Sleep(time.Minute)
					if p := phase(t, store.Memory, id); p != runtype.Succeeded {
						t.Fatalf("%s fails %d times, after=%v: the run is %s", name, times, after, p)
					}
				})
			}
		}
	}
}

// TestLeaseLostAndSameWorkerGoesOn: when a store returns that was away for longer than the lease,
// the only worker gets all runs again, open attempts and waits alike.
func TestLeaseLostAndSameWorkerGoesOn(t *testing.T) {
	for _, away := range []int{3, 10} {
		synctest.Test(t, func(t *testing.T) {
			store := &flaky{Memory: runstore.NewMemory()}
			var open, most atomic.Int32
			looks := 0
			flows := []workflow.Flow{
				{Name: "Works", Steps: []workflow.Step{{Name: "S", Do: func(ctx context.Context, _ *workflow.Task) outcome.Outcome {
					most.Store(max(most.Load(), open.Add(1)))
					defer open.Add(-1)
					select {
					case <-ctx.Done():
						time.Sleep(5 * time.Second) // it takes a while to end
						return outcome.Fail(context.Cause(ctx))
					case <-time.After(time.Minute):
						return outcome.Done()
					}
				}}}},
				{Name: "Polls", Steps: []workflow.Step{{Name: "P", Do: func(context.Context, *workflow.Task) outcome.Outcome {
					if looks++; looks < 10 {
						return outcome.Wait(20*time.Second, "NotYet", "not yet")
					}
					return outcome.Done()
				}}}},
			}
			e, stop := worker(t, store, flows, workflow.Options{})
			defer stop()
			var ids []string
			for _, flow := range flows {
				run, err := e.Start(t.Context(), workflow.Request{Flow: flow.Name, Subject: flow.Name})
				want(t, err, error(nil))
				ids = append(ids, run.ID)
			}
			time.Sleep(2 * time.Second)
			store.set("renew", away)
			time.Sleep(10 * time.Minute)
			want(t, phase(t, store.Memory, ids[0]), runtype.Succeeded)
			want(t, phase(t, store.Memory, ids[1]), runtype.Succeeded)
			want(t, most.Load(), int32(1))
		})
	}
}

// TestFinding9SuspectsTakeTurns: if a suspect waits for another one and is cancelled, the third one
// continues. A run without suspects never waits for them.
func TestFinding9SuspectsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{IsolationTime: time.Hour})
		defer r.stop()
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{r.obedient("S", 10*time.Minute)}}}), error(nil))
		ids := r.lost("F", "S", 3, time.Minute, time.Minute)
		attempts := func() (n [3]int) {
			for i, id := range ids {
				n[i] = r.load(id).Step("S").Attempt
			}
			return n
		}
		time.Sleep(5 * time.Minute)
		want(t, attempts(), [3]int{2, 1, 1})
		other := r.start("F", ``)
		want(t, r.engine.Cancel(t.Context(), ids[1], runtype.Drop, false, workflow.Actor{}), error(nil))
		r.rests(ids[1], runtype.Cancelled)
		time.Sleep(10*time.Minute + time.Second)
		r.rests(other.ID, runtype.Succeeded)
		r.rests(ids[0], runtype.Succeeded)
		want(t, r.load(ids[2]).Step("S").Attempt, 2)
		time.Sleep(20 * time.Minute)
		r.rests(ids[2], runtype.Succeeded)
	})
}

// lost stores runs as a worker that died during their step leaves them. The first is due at first,
// each of the others later by the same time.
func (r *harness) lost(flow, step string, n int, apart, first time.Duration) (ids []string) {
	r.t.Helper()
	for i := range n {
		subject := fmt.Sprint("s", i)
		run, err := r.store.Create(r.t.Context(), &runtype.Run{ID: workflow.RunID(subject, flow, "1"), Flow: flow, Subject: subject, RequestID: "1", NextAt: time.Now().Add(time.Hour)}, nil)
		want(r.t, err, error(nil))
		run.Put(&runtype.StepRecord{Name: step, Phase: runtype.StepRunning, Ord: 1, Attempt: 1, StartedAt: time.Now(), AttemptAt: time.Now()})
		run.StartedAt, run.NextAt = time.Now(), time.Now().Add(first+time.Duration(i)*apart)
		want(r.t, r.store.Save(r.t.Context(), &runstore.Save{Run: run}), error(nil))
		ids = append(ids, run.ID)
	}
	return ids
}

// TestRequestThroughAnotherWorker: a cancel that another worker accepted reaches the open attempt
// without a wake-up.
func TestRequestThroughAnotherWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		r.stop()
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{r.obedient("S", time.Hour)}}
		flow.Steps[0].Timeout = 2 * time.Hour
		memory := runstore.NewMemory()
		e, stop := worker(t, &flaky{Memory: memory, deaf: true}, []workflow.Flow{flow}, workflow.Options{})
		defer stop()
		run, err := e.Start(t.Context(), workflow.Request{Flow: "F", Subject: subject})
		want(t, err, error(nil))
		synctest.Wait()
		face, err := workflow.New(memory, []workflow.Flow{flow}, workflow.Options{Logger: quiet()})
		want(t, err, error(nil))
		want(t, face.Cancel(t.Context(), run.ID, runtype.Drop, false, workflow.Actor{}), error(nil))
		time.Sleep(time.Minute)
		want(t, phase(t, memory, run.ID), runtype.Cancelled)
	})
}

// TestSignalIsTakenOnce: a signal that a step has taken is not taken by the next step, even if the
// mail is read again before the outcome is saved.
func TestSignalIsTakenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := runstore.NewMemory()
		store := &mailingStore{flaky: flaky{Memory: memory, deaf: true}}
		take := func(_ context.Context, task *workflow.Task) outcome.Outcome {
			if _, ok := task.Signal("go"); ok {
				return outcome.Done()
			}
			return outcome.Wait(0, "Signal", "go")
		}
		slow := func(context.Context, *workflow.Task) outcome.Outcome { time.Sleep(time.Second); return outcome.Done() }
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "Slow", Do: slow}, {Name: "A", Do: take}, {Name: "B", Do: take}}}
		e, stop := worker(t, store, []workflow.Flow{flow}, workflow.Options{})
		defer stop()
		run, err := e.Start(t.Context(), workflow.Request{Flow: "F", Subject: subject})
		want(t, err, error(nil))
		synctest.Wait()
		store.id.Store(run.ID)
		want(t, memory.Send(t.Context(), run.ID, runtype.Signal{ID: "1", Name: "go"}), error(nil))
		time.Sleep(5 * time.Minute)
		want(t, phase(t, memory, run.ID), runtype.Waiting)
	})
}

// mailingStore sends another signal just before each save.
type mailingStore struct {
	flaky
	id atomic.Value
	n  int
}

func (m *mailingStore) Save(ctx context.Context, s *runstore.Save) error {
	if id, ok := m.id.Load().(string); ok && m.n < 20 {
		m.n++
		_ = m.Memory.Send(ctx, id, runtype.Signal{ID: "other" + string(rune('a'+m.n)), Name: "other"})
	}
	return m.Memory.Save(ctx, s)
}

// TestDefinitionCannotBeRead: an error of the store does not pause a run as FLOW_MISSING.
func TestDefinitionCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		r.stop()
		store := &flaky{Memory: runstore.NewMemory()}
		old := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "W", Wait: &workflow.WaitFor{Signal: "go"}}, r.step("A", nil)}}
		more := workflow.Flow{Name: "F", Steps: append(slices.Clone(old.Steps), r.step("B", nil))}
		e, stop := worker(t, store, []workflow.Flow{old}, workflow.Options{})
		defer stop()
		run, err := e.Start(t.Context(), workflow.Request{Flow: "F", Subject: subject})
		want(t, err, error(nil))
		synctest.Wait()
		want(t, e.Load([]workflow.Flow{more}), error(nil))
		store.set("definition", 2)
		want(t, store.Send(t.Context(), run.ID, runtype.Signal{Name: "go"}), error(nil))
		time.Sleep(time.Minute)
		want(t, phase(t, store.Memory, run.ID), runtype.Succeeded)
		want(t, r.done(), []string{"A"})
	})
}

// TestAdvanceKeepsItsLease: no other worker takes over a step that takes longer than the lease
// while Advance executes it.
func TestAdvanceKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		r.stop()
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{r.obedient("S", time.Minute)}}
		memory := runstore.NewMemory()
		a, err := workflow.New(memory, []workflow.Flow{flow}, workflow.Options{Logger: quiet()})
		want(t, err, error(nil))
		run, err := a.Start(t.Context(), workflow.Request{Flow: "F", Subject: subject})
		want(t, err, error(nil))
		done := make(chan outcome.Outcome)
		go func() { done <- a.Advance(t.Context(), run.ID) }()
		time.Sleep(time.Second)
		_, stop := worker(t, memory, []workflow.Flow{flow}, workflow.Options{})
		defer stop()
		want(t, (<-done).IsDone(), true)
		time.Sleep(5 * time.Minute)
		want(t, r.done(), []string{"S"})
	})
}

// TestDrainWhileTheStoreIsDown: the drain ends, and the next worker repeats the step.
func TestDrainWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		r.stop()
		store := &flaky{Memory: runstore.NewMemory()}
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{r.obedient("S", time.Minute)}}
		e, stop := worker(t, store, []workflow.Flow{flow}, workflow.Options{})
		run, err := e.Start(t.Context(), workflow.Request{Flow: "F", Subject: subject})
		want(t, err, error(nil))
		time.Sleep(time.Second)
		for _, name := range []string{"save", "load", "claim", "renew", "take", "rest"} {
			store.set(name, 1000)
		}
		stop()
		_, stop = worker(t, store.Memory, []workflow.Flow{flow}, workflow.Options{})
		defer stop()
		time.Sleep(5 * time.Minute)
		want(t, phase(t, store.Memory, run.ID), runtype.Succeeded)
	})
}

// TestPollWaitsForASlot: a poll without a free slot happens when a slot is free.
func TestPollWaitsForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{Attempts: 1})
		defer r.stop()
		ext := r.step("Ext", func(task *workflow.Task) outcome.Outcome {
			if _, ok := task.Signal("done"); ok {
				return outcome.Done()
			}
			return outcome.Wait(0, "External", "an outside worker is at it")
		})
		works := r.step("Works", func(task *workflow.Task) outcome.Outcome {
			time.Sleep(30 * time.Second)
			task.Progress(1, 2, "half") // a save that reads the number of signals
			time.Sleep(30 * time.Second)
			return outcome.Done()
		})
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "P", Parallel: 2, Steps: []workflow.Step{ext, works}}}}}), error(nil))
		run := r.start("F", ``)
		time.Sleep(time.Second)
		want(t, r.engine.Send(t.Context(), run.ID, runtype.Signal{Name: "done"}), error(nil))
		time.Sleep(2 * time.Minute)
		r.rests(run.ID, runtype.Succeeded)
	})
}
