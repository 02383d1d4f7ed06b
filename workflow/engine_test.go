package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const subject = "demo/default/c1"

var (
	broken = fault.Declare(fault.Kind{Code: "TEST_BROKEN", Class: fault.Blocked, Title: "broken", Remedy: "Mend it."})
	shaky  = fault.Declare(fault.Kind{Code: "TEST_SHAKY", Class: fault.Transient, Title: "shaky", Remedy: "Wait."})
	free   = fault.Declare(fault.Kind{Code: "TEST_FREE", Class: fault.Transient, Uncharged: true, Title: "free", Remedy: "Wait."})
)

// harness is an engine that serves a memory store within a synctest bubble.
type harness struct {
	t      *testing.T
	store  *runstore.Memory
	engine *workflow.Engine
	stop   func()

	mu  sync.Mutex
	log []string
}

func newHarness(t *testing.T, flows []workflow.Flow, options workflow.Options) *harness {
	t.Helper()
	r := &harness{t: t, store: runstore.NewMemory()}
	r.serve(flows, options)
	return r
}

// serve starts an engine on the store of the harness, as a restart of the process would.
func (r *harness) serve(flows []workflow.Flow, options workflow.Options) {
	r.t.Helper()
	options.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	engine, err := workflow.New(r.store, flows, options)
	if err != nil {
		r.t.Fatal(err)
	}
	r.engine = engine
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- engine.Serve(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("serve: %v", err)
		}
		r.stop = func() {}
	}
	synctest.Wait()
}

func (r *harness) did(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

func (r *harness) done() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.log)
}

func (r *harness) start(flow string, input string) *runtype.Run {
	r.t.Helper()
	run, err := r.engine.Start(r.t.Context(), workflow.Request{Flow: flow, Subject: subject, Input: json.RawMessage(input)})
	if err != nil {
		r.t.Fatal(err)
	}
	return run
}

func (r *harness) load(id string) *runtype.Run {
	r.t.Helper()
	run, _, err := r.store.Load(context.Background(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return run
}

// rests waits until nothing happens without a timer, and checks the phase.
func (r *harness) rests(id string, phase runtype.Phase) *runtype.Run {
	r.t.Helper()
	synctest.Wait()
	run := r.load(id)
	if run.Phase != phase {
		r.t.Fatalf("phase %s, want %s; fault %+v; did %v", run.Phase, phase, run.Fault, r.done())
	}
	return run
}

func (r *harness) history(id string) []string {
	events, err := r.store.History(context.Background(), id, 0, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	var lines []string
	for i, e := range events {
		if e.Seq != int64(i)+1 {
			r.t.Fatalf("event %d has number %d", i, e.Seq)
		}
		line := string(e.Kind)
		if e.Step != "" {
			line += " " + e.Step
		}
		if e.Code != "" {
			line += " " + string(e.Code)
		}
		lines = append(lines, line)
	}
	return lines
}

// step returns a step that records its name and returns the outcome of do.
func (r *harness) step(name string, do func(t *workflow.Task) outcome.Outcome) workflow.Step {
	return workflow.Step{Name: name, Do: func(_ context.Context, t *workflow.Task) outcome.Outcome {
		r.did("%s", t.Step())
		if do == nil {
			return outcome.Done()
		}
		return do(t)
	}}
}

func (r *harness) undoable(name string) workflow.Step {
	s := r.step(name, nil)
	s.Undo = func(_ context.Context, t *workflow.Task) outcome.Outcome {
		r.did("undo %s", t.Step())
		if !strings.HasSuffix(t.Key(), "/undo") {
			return outcome.Fail(errors.New("key " + t.Key()))
		}
		return outcome.Done()
	}
	return s
}

func want[T any](t *testing.T, got, want T) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Fatalf("got  %s\nwant %s", g, w)
	}
}

func TestRunOfThreeSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		a := r.step("A", func(t *workflow.Task) outcome.Outcome {
			return outcome.Fail(t.Set(map[string]any{"n": 9007199254740993}))
		})
		b := r.step("B", func(t *workflow.Task) outcome.Outcome {
			var out map[string]any
			if err := t.Output("A", &out); err != nil {
				return outcome.Fail(err)
			}
			if out["n"] != int64(9007199254740993) {
				return outcome.Fail(broken.Errorf("%T %v", out["n"], out["n"]))
			}
			return outcome.Done()
		})
		want(t, r.engine.Load([]workflow.Flow{{Name: "Three", Steps: []workflow.Step{a, b, r.step("C", nil)}}}), error(nil))
		run := r.start("Three", `{}`)
		got := r.rests(run.ID, runtype.Succeeded)
		want(t, r.done(), []string{"A", "B", "C"})
		want(t, got.Revision, int64(5)) // create, open, three closes: n + 2
		want(t, r.history(run.ID), []string{
			"RunCreated", "RunStarted", "StepStarted A", "StepDone A", "StepStarted B", "StepDone B", "StepStarted C", "StepDone C", "RunSucceeded",
		})
	})
}

// TestRetryAndPause covers defect 4.
func TestRetryAndPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		fails := 3
		a := r.step("A", func(*workflow.Task) outcome.Outcome {
			if fails > 0 {
				fails--
				return outcome.Fail(shaky.Errorf("no"))
			}
			return outcome.Done()
		})
		a.Retry.Jitter = -1
		b := r.step("B", func(*workflow.Task) outcome.Outcome { return outcome.Fail(shaky.Errorf("never")) })
		b.Retry = workflow.Retry{Attempts: 2, Jitter: -1}
		c := r.step("C", nil)
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{a, b, c}}}), error(nil))
		began := time.Now()
		run := r.start("F", ``)
		time.Sleep(time.Hour)
		got := r.rests(run.ID, runtype.Paused)
		want(t, r.done(), []string{"A", "A", "A", "A", "B", "B"})
		want(t, got.Fault.Exhausted, true)
		want(t, got.Fault.Code, "TEST_SHAKY")
		want(t, got.State.PausedAt.Sub(began), (1+2+4+1)*time.Second)
		want(t, r.engine.Resume(t.Context(), run.ID, "", "", workflow.Actor{Name: "eve"}), error(nil))
		time.Sleep(time.Hour)
		r.rests(run.ID, runtype.Paused)
		want(t, len(r.done()), 8) // a resumed step has all its attempts
		want(t, r.engine.Skip(t.Context(), run.ID, "B", nil, false, workflow.Actor{}) != nil, true)
		want(t, r.engine.Skip(t.Context(), run.ID, "B", nil, true, workflow.Actor{Reason: "enough"}), error(nil))
		got = r.rests(run.ID, runtype.Succeeded)
		want(t, got.Step("B").Phase, runtype.StepSkipped)
	})
}

func TestCancelUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		hang := workflow.Step{Name: "Hang", Do: func(ctx context.Context, t *workflow.Task) outcome.Outcome {
			r.did("Hang")
			<-ctx.Done()
			return outcome.Fail(context.Cause(ctx))
		}, Undo: func(context.Context, *workflow.Task) outcome.Outcome { r.did("undo Hang"); return outcome.Done() }}
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{
			r.undoable("A"),
			{Name: "HA", Open: ptr(r.step("Off", nil)), Close: ptr(r.step("On", nil)), Steps: []workflow.Step{r.undoable("B"), hang}},
		}, Finally: []workflow.Step{r.step("Clean", nil)}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		r.rests(run.ID, runtype.Running)
		want(t, r.engine.Cancel(t.Context(), run.ID, runtype.Undo, false, workflow.Actor{Name: "eve"}), error(nil))
		time.Sleep(time.Second)
		r.rests(run.ID, runtype.Cancelled)
		want(t, r.done(), []string{"A", "HA/Off", "HA/B", "Hang", "undo Hang", "undo HA/B", "HA/On", "undo A", "Clean"})
	})
}

func ptr[T any](v T) *T { return &v }

func TestPauseInsideBracketClosesAndReopens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		bad := true
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{
			{Name: "HA", Open: ptr(r.step("Off", nil)), Close: ptr(r.step("On", nil)), Steps: []workflow.Step{r.step("B", func(*workflow.Task) outcome.Outcome {
				if bad {
					return outcome.Fail(broken.Errorf("no"))
				}
				return outcome.Done()
			})}},
		}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		r.rests(run.ID, runtype.Paused)
		want(t, r.done(), []string{"HA/Off", "HA/B", "HA/On"})
		bad = false
		want(t, r.engine.Resume(t.Context(), run.ID, "", "", workflow.Actor{}), error(nil))
		r.rests(run.ID, runtype.Succeeded)
		want(t, r.done(), []string{"HA/Off", "HA/B", "HA/On", "HA/Off", "HA/B", "HA/On"})
	})
}

func TestParallelAndLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		slow := func(d time.Duration) func(*workflow.Task) outcome.Outcome {
			return func(task *workflow.Task) outcome.Outcome {
				time.Sleep(d)
				if v, ok := task.View().Item("ro"); ok {
					r.did("item %s", v)
				}
				return outcome.Done()
			}
		}
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{
			{Name: "Par", Parallel: 2, Steps: []workflow.Step{
				r.step("X", slow(3*time.Second)), r.step("Y", slow(time.Second)), r.step("Z", slow(time.Second)),
			}},
			{Name: "Each", ForEach: &workflow.Loop{As: "ro", Max: 1, List: func(v workflow.View) ([]json.RawMessage, error) {
				var in struct{ L []json.RawMessage }
				err := json.Unmarshal(v.Input(), &in)
				return in.L, err
			}}, Steps: []workflow.Step{r.step("B", slow(0))}},
		}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		began := time.Now()
		run := r.start("F", `{"L":[7,8]}`)
		time.Sleep(time.Minute)
		got := r.rests(run.ID, runtype.Succeeded)
		want(t, got.EndedAt.Sub(began), 3*time.Second)
		did := r.done()
		slices.Sort(did[:2]) // X and Y start together
		want(t, did, []string{"Par/X", "Par/Y", "Par/Z", "Each[0]/B", "item 7", "Each[1]/B", "item 8"})
	})
}

// TestSignalsAndWaits: a wait has limits, timers and wake-ups.
//
// It covers defect 13; promise 8.
func TestSignalsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		looks := 0
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{
			{Name: "Go", Wait: &workflow.WaitFor{Signal: "go", Deadline: time.Hour}},
			{Name: "Nap", Wait: &workflow.WaitFor{For: time.Minute}},
			r.step("Poll", func(*workflow.Task) outcome.Outcome {
				if looks++; looks < 5 {
					return outcome.Wait(10*time.Second, "NotYet", "not yet")
				}
				return outcome.Done()
			}),
			{Name: "Late", Wait: &workflow.WaitFor{Signal: "late", Deadline: time.Hour, OnTimeout: workflow.TimeoutContinue}},
			{Name: "Never", Wait: &workflow.WaitFor{Signal: "never", Deadline: time.Hour}},
		}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		r.rests(run.ID, runtype.Waiting)
		for range 3 {
			want(t, r.engine.Send(t.Context(), run.ID, runtype.Signal{ID: "s1", Name: "go", Payload: json.RawMessage(`{"x":1}`)}), error(nil))
		}
		synctest.Wait()
		want(t, string(r.load(run.ID).Step("Go").Output), `{"x":1}`)
		time.Sleep(61 * time.Second)
		synctest.Wait()
		before := r.load(run.ID)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		want(t, looks, 4)
		want(t, r.load(run.ID).Revision, before.Revision) // a poll that ends in the same wait writes nothing
		time.Sleep(10 * time.Second)
		synctest.Wait()
		want(t, looks, 5)
		time.Sleep(2*time.Hour + time.Minute)
		got := r.rests(run.ID, runtype.Paused)
		want(t, string(got.Step("Late").Output), `{"timedOut":true}`)
		want(t, got.Fault.Code, workflow.WaitExpired.Code)
	})
}

func TestChildRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		bad := true
		child := workflow.Flow{Name: "Child", Steps: []workflow.Step{r.step("C", func(t *workflow.Task) outcome.Outcome {
			if bad {
				return outcome.Fail(broken.Errorf("no"))
			}
			return outcome.Fail(t.Set(5))
		})}}
		top := workflow.Flow{Name: "Top", Steps: []workflow.Step{{Name: "Sub", Flow: "Child"}, r.step("After", nil)}}
		want(t, r.engine.Load([]workflow.Flow{child, top}), error(nil))
		run := r.start("Top", ``)
		got := r.rests(run.ID, runtype.Paused)
		want(t, got.Fault.Code, workflow.ChildPaused.Code)
		want(t, got.Fault.Details["code"], any("TEST_BROKEN"))
		bad = false
		want(t, r.engine.Resume(t.Context(), run.ID, "", "", workflow.Actor{}), error(nil))
		got = r.rests(run.ID, runtype.Succeeded)
		want(t, strings.Contains(string(got.Step("Sub").Output), `"output":5`), true)
		want(t, r.done(), []string{"C", "C", "After"})
	})
}

// TestPromise5PanicIsAFailure: a panic fails its step and affects no other run.
//
// It covers defect 2.
func TestPromise5PanicIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		first := true
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{r.step("P", func(*workflow.Task) outcome.Outcome {
			if first {
				first = false
				panic("oh")
			}
			return outcome.Done()
		})}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		time.Sleep(time.Minute)
		r.rests(run.ID, runtype.Succeeded)
		want(t, r.history(run.ID)[3], "StepRetrying P PANIC")
	})
}

// TestHealer: healers run by fault code.
//
// It covers defect 15.
func TestHealer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		healed := false
		r := newHarness(t, nil, workflow.Options{Healers: map[fault.Code]workflow.Healer{
			"TEST_BROKEN": {Do: func(context.Context, *workflow.Task) outcome.Outcome { healed = true; return outcome.Done() }},
		}})
		defer r.stop()
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{r.step("P", func(*workflow.Task) outcome.Outcome {
			if !healed {
				return outcome.Fail(broken.Errorf("no"))
			}
			return outcome.Done()
		})}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		r.rests(run.ID, runtype.Succeeded)
		want(t, r.history(run.ID), []string{"RunCreated", "RunStarted", "StepStarted P", "StepFailed P TEST_BROKEN", "RunPaused P TEST_BROKEN", "HealingBegun P TEST_BROKEN", "HealingEnded TEST_BROKEN", "RunResumed", "StepStarted P", "StepDone P", "RunSucceeded"})
	})
}

// Load replaces flows and healers together, or nothing.
func TestHealersAreLoadedWithFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		healed := false
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		work := workflow.Flow{Name: "F", Steps: []workflow.Step{r.step("P", func(*workflow.Task) outcome.Outcome {
			if !healed {
				return outcome.Fail(broken.Errorf("no"))
			}
			return outcome.Done()
		})}}
		cure := workflow.Flow{Name: "Cure", Steps: []workflow.Step{r.step("C", func(*workflow.Task) outcome.Outcome { healed = true; return outcome.Done() })}}
		want(t, r.engine.Load([]workflow.Flow{work}), error(nil))
		first := r.start("F", ``)
		r.rests(first.ID, runtype.Paused)
		want(t, r.engine.Cancel(t.Context(), first.ID, runtype.Drop, false, workflow.Actor{}), error(nil))
		r.rests(first.ID, runtype.Cancelled)
		healers := map[fault.Code]workflow.Healer{broken.Code: {Flow: "Cure"}}
		if err := r.engine.LoadAll([]workflow.Flow{work}, healers); err == nil || len(r.engine.Healers()) != 0 {
			t.Errorf("a healer without its flow: %v, %v", err, r.engine.Healers())
		}
		want(t, r.engine.LoadAll([]workflow.Flow{work, cure}, healers), error(nil))
		r.rests(r.start("F", ``).ID, runtype.Succeeded)
		if err := r.engine.Load([]workflow.Flow{work}); err == nil {
			t.Error("the flow of a healer was taken away")
		}
	})
}

func TestQueuePerSubject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "W", Wait: &workflow.WaitFor{Signal: "go"}}}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		a, b, c := r.start("F", ``), r.start("F", ``), r.start("F", ``)
		r.rests(a.ID, runtype.Waiting)
		r.rests(b.ID, runtype.Queued)
		want(t, r.engine.Cancel(t.Context(), b.ID, runtype.Drop, false, workflow.Actor{}), error(nil))
		r.rests(b.ID, runtype.Cancelled)
		r.rests(c.ID, runtype.Queued)
		want(t, r.engine.Send(t.Context(), a.ID, runtype.Signal{Name: "go"}), error(nil))
		r.rests(a.ID, runtype.Succeeded)
		r.rests(c.ID, runtype.Waiting)
	})
}

func TestDrainAndRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		block := true
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "S", Do: func(ctx context.Context, _ *workflow.Task) outcome.Outcome {
			r.did("S")
			if block {
				<-ctx.Done()
				return outcome.Fail(ctx.Err())
			}
			return outcome.Done()
		}}, r.step("B", nil)}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		synctest.Wait()
		r.stop()
		got := r.load(run.ID)
		want(t, got.Step("S").Phase, runtype.StepRetrying)
		want(t, got.Step("S").Failures, 0)
		block = false
		r.serve([]workflow.Flow{flow}, workflow.Options{})
		defer r.stop()
		r.rests(run.ID, runtype.Succeeded)
		want(t, r.done(), []string{"S", "S", "B"})
	})
}

func code(err error) string {
	if err == nil {
		return ""
	}
	return string(fault.Of(err).Code)
}
