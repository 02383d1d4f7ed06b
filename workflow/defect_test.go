package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The tests of this file prove that the engine does not have the defects of its predecessor.

func TestDefect3BudgetBelongsToTheStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		flow := workflow.Flow{Name: "F"}
		for i := range 20 {
			failed := false
			flow.Steps = append(flow.Steps, r.step("S"+string(rune('a'+i)), func(*workflow.Task) outcome.Outcome {
				if !failed {
					failed = true
					return outcome.Fail(shaky.Errorf("once"))
				}
				return outcome.Done()
			}))
			flow.Steps[i].Retry.Attempts = 2
		}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		time.Sleep(time.Minute)
		r.rests(run.ID, runtype.Succeeded)
	})
}

func TestDefect5ControlPlaneTroubleIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		began := time.Now()
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{r.step("S", func(*workflow.Task) outcome.Outcome {
			if time.Since(began) < 2*time.Hour {
				return outcome.Fail(free.Errorf("away"))
			}
			return outcome.Done()
		})}}
		flow.Steps[0].Retry = workflow.Retry{Attempts: 1}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		got := r.load(run.ID)
		want(t, got.Phase, runtype.Running)
		want(t, got.Step("S").Failures, 0)
		want(t, got.State.Warning, "Stalled")
		time.Sleep(time.Hour)
		r.rests(run.ID, runtype.Succeeded)
		if n := len(r.done()); n > 200 {
			t.Fatalf("%d attempts in two hours: the delay does not grow", n)
		}
	})
}

func TestDefect6NamesAreUnique(t *testing.T) {
	nop := func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }
	_, err := workflow.New(runstore.NewMemory(), []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "A", Do: nop}, {Name: "A", Do: nop}, {Name: "9x", Do: nop}, {Name: "E"}}}}, workflow.Options{})
	for _, part := range []string{"F: A: two steps have this name", `"9x" does not match`, "exactly one of"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v lacks %q", err, part)
		}
	}
}

func TestDefect7ARemovedFlowDoesNotEndItsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "W", Wait: &workflow.WaitFor{Signal: "go"}}, r.step("A", nil)}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		r.rests(run.ID, runtype.Waiting)
		want(t, r.engine.Load(nil), error(nil))
		want(t, r.engine.Send(t.Context(), run.ID, runtype.Signal{Name: "go"}), error(nil))
		got := r.rests(run.ID, runtype.Paused)
		want(t, got.Fault.Code, workflow.FlowMissing.Code)

		// An added step does not fail the run either: the run finishes with its stored definition.
		more := workflow.Flow{Name: "F", Steps: append([]workflow.Step{r.step("New", nil)}, flow.Steps...)}
		want(t, r.engine.Load([]workflow.Flow{more}), error(nil))
		want(t, r.engine.Resume(t.Context(), run.ID, "", "", workflow.Actor{}), error(nil))
		r.rests(run.ID, runtype.Succeeded)
		want(t, r.done(), []string{"A"})
		r.stop()
	})
}

func TestVersionsPauseAndMigrate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		wait := workflow.Step{Name: "W", Wait: &workflow.WaitFor{Signal: "go"}}
		v1 := workflow.Flow{Name: "F", Version: 1, Steps: []workflow.Step{r.step("A", nil), r.step("B", nil), wait, r.step("Z", nil)}}
		want(t, r.engine.Load([]workflow.Flow{v1}), error(nil))
		run := r.start("F", ``)
		r.rests(run.ID, runtype.Waiting)

		v2 := workflow.Flow{Name: "F", Version: 2, OnChange: workflow.ChangePause, Steps: []workflow.Step{r.step("A2", nil), r.step("N", nil), r.step("B", nil), wait, r.step("Y", nil)}}
		want(t, r.engine.Load([]workflow.Flow{v2}), error(nil))
		want(t, r.engine.Send(t.Context(), run.ID, runtype.Signal{Name: "go"}), error(nil))
		got := r.rests(run.ID, runtype.Paused)
		want(t, got.Fault.Code, workflow.FlowChanged.Code)

		hash, err := workflow.Hash(v1)
		want(t, err, error(nil))
		v2.OnChange = workflow.ChangeMigrate
		v2.Migrations = []workflow.Migration{{From: hash, Rename: map[string]string{"A": "A2"}}}
		want(t, r.engine.Load([]workflow.Flow{v2}), error(nil))
		want(t, r.engine.Resume(t.Context(), run.ID, "", "", workflow.Actor{}), error(nil))
		got = r.rests(run.ID, runtype.Paused) // N is new before the position, and no migration mentions it
		want(t, got.Fault.Code, workflow.FlowChanged.Code)

		v2.Migrations[0].Insert = map[string]string{"N": "done"}
		want(t, r.engine.Load([]workflow.Flow{v2}), error(nil))
		want(t, r.engine.Resume(t.Context(), run.ID, "", "", workflow.Actor{}), error(nil))
		got = r.rests(run.ID, runtype.Succeeded)
		want(t, r.done(), []string{"A", "B", "Y"})
		want(t, got.Version, 2)
	})
}

func TestDefect8CancelMarkDoesNotStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		copies, most := 0, 0
		first := true
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "S", Do: func(ctx context.Context, _ *workflow.Task) outcome.Outcome {
			copies++
			most = max(most, copies)
			defer func() { copies-- }()
			if first {
				first = false
				<-ctx.Done()
				time.Sleep(time.Second)
				return outcome.Fail(context.Cause(ctx))
			}
			return outcome.Done()
		}}}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		synctest.Wait()
		want(t, r.engine.Cancel(t.Context(), run.ID, runtype.Hold, false, workflow.Actor{Name: "eve"}), error(nil))
		time.Sleep(2 * time.Second)
		got := r.rests(run.ID, runtype.Paused)
		want(t, got.Fault.Code, workflow.CancelledByPerson.Code)
		want(t, got.Step("S").Failures, 0)
		want(t, r.engine.Resume(t.Context(), run.ID, "", "", workflow.Actor{}), error(nil))
		got = r.rests(run.ID, runtype.Succeeded)
		want(t, most, 1)
		want(t, got.State.Stop == nil, true)
	})
}

func TestDefect14ProgressFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "Ext", Heartbeat: time.Minute, Retry: workflow.Retry{Attempts: 1}, Do: func(_ context.Context, task *workflow.Task) outcome.Outcome {
			if _, ok := task.Signal("done"); ok {
				return outcome.Done()
			}
			return outcome.Wait(0, "External", "an outside worker is at it")
		}}}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		for i := range int64(5) {
			time.Sleep(50 * time.Second)
			want(t, r.engine.Report(t.Context(), run.ID, "Ext", runtype.Progress{Done: i, Total: 5}), error(nil))
		}
		got := r.rests(run.ID, runtype.Waiting)
		want(t, got.Step("Ext").Progress.Done, int64(4))
		want(t, r.engine.Send(t.Context(), run.ID, runtype.Signal{Name: "done"}), error(nil))
		r.rests(run.ID, runtype.Succeeded)

		again := r.start("F", ``)
		time.Sleep(61 * time.Second)
		got = r.rests(again.ID, runtype.Paused)
		want(t, got.Fault.Code, workflow.HeartbeatLost.Code)
	})
}

func TestDefect16AHookChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := make(chan string, 100)
		r := newHarness(t, nil, workflow.Options{Hooks: []workflow.Hook{
			{Name: "bad", OnEvent: func(workflow.RunInfo, runtype.Event) { panic("hook") }},
			{Name: "good", OnEvent: func(_ workflow.RunInfo, e runtype.Event) { heard <- string(e.Kind) }},
		}})
		defer r.stop()
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{r.step("A", nil)}}}), error(nil))
		run := r.start("F", ``)
		r.rests(run.ID, runtype.Succeeded)
		want(t, r.done(), []string{"A"})
		var kinds []string
		for range 5 {
			kinds = append(kinds, <-heard)
		}
		want(t, kinds, []string{"RunCreated", "RunStarted", "StepStarted", "StepDone", "RunSucceeded"})
	})
}

func TestDefect17OutputsReachAllLaterSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		set := r.step("A", func(task *workflow.Task) outcome.Outcome {
			return outcome.Fail(task.Set(map[string]any{"n": int64(1) << 60, "b": []byte("x"), "t": time.Unix(0, 0).UTC()}))
		})
		read := r.step("C", func(task *workflow.Task) outcome.Outcome {
			var a map[string]any
			if err := task.Output("A", &a); err != nil {
				return outcome.Fail(err)
			}
			a["n"] = 0 // a copy: the change is not visible elsewhere
			var b map[string]any
			_ = task.Output("A", &b)
			if b["n"] != int64(1)<<60 || b["b"] != "eA==" || b["t"] != "1970-01-01T00:00:00Z" {
				return outcome.Fail(broken.Errorf("%v", b))
			}
			return outcome.Done()
		})
		big := r.step("Big", func(task *workflow.Task) outcome.Outcome { return outcome.Fail(task.Set(strings.Repeat("x", 70_000))) })
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{set, r.step("B", nil), read, big}}}), error(nil))
		run := r.start("F", ``)
		got := r.rests(run.ID, runtype.Paused)
		want(t, got.Fault.Code, runtype.OutputTooLarge.Code)
	})
}

// failingStore is a store whose saves fail for a while, before or after they happen.
type failingStore struct {
	*runstore.Memory
	until time.Time
	after bool
	fails int
}

func (f *failingStore) Save(ctx context.Context, s *runstore.Save) error {
	if time.Now().Before(f.until) {
		f.fails++
		if f.after {
			if err := f.Memory.Save(ctx, s); err != nil {
				return err
			}
			s.Run.Revision-- // the answer is lost
		}
		return runstore.StoreFull.Errorf("no space")
	}
	return f.Memory.Save(ctx, s)
}

// TestDefect21AFailedSaveIsNotCharged: a failed save does not count as a failure of the step, even
// if the write happened.
//
// It covers promise 12.
func TestDefect21AFailedSaveIsNotCharged(t *testing.T) {
	for _, after := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := &failingStore{Memory: runstore.NewMemory(), after: after}
			var attempts []int
			flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "S", Retry: workflow.Retry{Attempts: 1}, Do: func(_ context.Context, task *workflow.Task) outcome.Outcome {
				attempts = append(attempts, task.Attempt())
				store.until = time.Now().Add(time.Minute)
				return outcome.Done()
			}}, {Name: "T", Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }}}}
			e, err := workflow.New(store, []workflow.Flow{flow}, workflow.Options{Logger: quiet()})
			want(t, err, error(nil))
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { _ = e.Serve(ctx); close(done) }()
			run, err := e.Start(ctx, workflow.Request{Flow: "F", Subject: subject})
			want(t, err, error(nil))
			time.Sleep(30 * time.Second)
			synctest.Wait()
			if !after {
				want(t, errors.Is(e.Health(), runstore.StoreFull), true)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			got, _, err := store.Load(ctx, run.ID)
			want(t, err, error(nil))
			want(t, got.Phase, runtype.Succeeded)
			want(t, attempts, []int{1})
			want(t, e.Health(), error(nil))
			cancel()
			<-done
		})
	}
}

func TestPromise1SameRequestIsOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{r.step("A", nil)}}}), error(nil))
		req := workflow.Request{Flow: "F", Subject: subject, RequestID: "r1", Input: json.RawMessage(`{"a":1}`)}
		a, err := r.engine.Start(t.Context(), req)
		want(t, err, error(nil))
		synctest.Wait()
		b, err := r.engine.Start(t.Context(), req)
		want(t, err, error(nil))
		want(t, a.ID, b.ID)
		want(t, len(a.ID), 26)
		req.Input = json.RawMessage(`{"a":2}`)
		_, err = r.engine.Start(t.Context(), req)
		want(t, code(err), "INPUT_INVALID")
		synctest.Wait()
		want(t, r.done(), []string{"A"})
	})
}

func TestResumeFromANamedStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		bad := true
		var keys []string
		b := r.step("B", func(task *workflow.Task) outcome.Outcome { keys = append(keys, task.Key()[27:]); return outcome.Done() })
		c := r.step("C", func(*workflow.Task) outcome.Outcome {
			if bad {
				return outcome.Fail(broken.Errorf("no"))
			}
			return outcome.Done()
		})
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{r.step("A", nil), b, c, r.step("D", nil)}}}), error(nil))
		run := r.start("F", ``)
		r.rests(run.ID, runtype.Paused)
		bad = false
		want(t, code(r.engine.Resume(t.Context(), run.ID, "D", "", workflow.Actor{})), "REQUEST_REFUSED")
		want(t, r.engine.Resume(t.Context(), run.ID, "B", "", workflow.Actor{}), error(nil))
		r.rests(run.ID, runtype.Succeeded)
		want(t, r.done(), []string{"A", "B", "C", "B", "C", "D"})
		want(t, keys, []string{"B/0", "B/1"})
	})
}

func TestDeadlineCountsWithoutPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		flow := workflow.Flow{Name: "F", Deadline: time.Hour, OnDeadline: workflow.ThenUndo, Steps: []workflow.Step{r.undoable("A"), {Name: "W", Wait: &workflow.WaitFor{Signal: "never"}}}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		time.Sleep(30 * time.Minute)
		want(t, r.engine.Pause(t.Context(), run.ID, workflow.Actor{Name: "eve"}), error(nil))
		got := r.rests(run.ID, runtype.Paused)
		want(t, got.Fault.Code, workflow.PausedByPerson.Code)
		time.Sleep(24 * time.Hour)
		want(t, r.engine.Resume(t.Context(), run.ID, "", "", workflow.Actor{}), error(nil))
		time.Sleep(29 * time.Minute)
		r.rests(run.ID, runtype.Waiting)
		time.Sleep(2 * time.Minute)
		r.rests(run.ID, runtype.Cancelled)
		want(t, r.done(), []string{"A", "undo A"})
	})
}

// The deadline of a wait does not include the time in which the run is paused and nothing polls.
func TestAPollIsPatientAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		var since atomic.Int64
		look := workflow.Step{Name: "Look", Wait: &workflow.WaitFor{Deadline: 10 * time.Minute}, Do: func(_ context.Context, task *workflow.Task) outcome.Outcome {
			if w := task.Waited(); w != nil {
				since.Store(int64(time.Since(w.Since)))
			}
			return outcome.Wait(time.Second, "Looking", "it is not there")
		}}
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{look}}}), error(nil))
		run := r.start("F", ``)
		time.Sleep(4 * time.Minute)
		want(t, r.engine.Pause(t.Context(), run.ID, workflow.Actor{Name: "eve"}), error(nil))
		r.rests(run.ID, runtype.Paused)
		time.Sleep(24 * time.Hour)
		want(t, r.engine.Resume(t.Context(), run.ID, "", "", workflow.Actor{}), error(nil))
		time.Sleep(5 * time.Minute)
		r.rests(run.ID, runtype.Waiting)
		want(t, time.Duration(since.Load()).Round(time.Minute), 9*time.Minute)
		time.Sleep(2 * time.Minute)
		want(t, r.rests(run.ID, runtype.Paused).Fault.Code, workflow.WaitExpired.Code)
	})
}

func TestUndoFailsAndIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		a := r.undoable("A")
		a.Undo = func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Fail(broken.Errorf("stuck")) }
		end := r.step("End", nil)
		end.NoReturn = true
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{a, {Name: "W", Wait: &workflow.WaitFor{Signal: "go"}}, end, {Name: "W2", Wait: &workflow.WaitFor{Signal: "go"}}}, Finally: []workflow.Step{r.step("Clean", nil)}}}), error(nil))
		run := r.start("F", ``)
		r.rests(run.ID, runtype.Waiting)
		want(t, r.engine.Cancel(t.Context(), run.ID, runtype.Undo, false, workflow.Actor{}), error(nil))
		got := r.rests(run.ID, runtype.Paused)
		want(t, got.Fault.Code, workflow.UndoFailed.Code)
		want(t, r.engine.Resume(t.Context(), run.ID, "", "", workflow.Actor{}), error(nil))
		r.rests(run.ID, runtype.Paused)
		want(t, r.engine.Cancel(t.Context(), run.ID, runtype.Undo, true, workflow.Actor{Name: "eve", Reason: "leave it"}), error(nil))
		r.rests(run.ID, runtype.Cancelled)
		want(t, r.done(), []string{"A", "Clean"})
		events, err := r.store.History(t.Context(), run.ID, 0, 0)
		want(t, err, error(nil))
		want(t, string(events[len(events)-1].Data), `{"left":["A"]}`)

		again := r.start("F", ``)
		synctest.Wait()
		want(t, r.engine.Send(t.Context(), again.ID, runtype.Signal{Name: "go"}), error(nil))
		r.rests(again.ID, runtype.Waiting)
		want(t, code(r.engine.Cancel(t.Context(), again.ID, runtype.Undo, false, workflow.Actor{})), "NO_RETURN")
		want(t, r.engine.Cancel(t.Context(), again.ID, runtype.Drop, false, workflow.Actor{}), error(nil))
		r.rests(again.ID, runtype.Cancelled)
	})
}
