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

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The tests of this file send requests and failures at moments at which an engine could hang, spin,
// or execute a step twice.

// obedient returns a step that takes the given time and ends at once when its context is cancelled.
func (r *harness) obedient(name string, d time.Duration) workflow.Step {
	return workflow.Step{Name: name, Do: func(ctx context.Context, task *workflow.Task) outcome.Outcome {
		select {
		case <-ctx.Done():
			r.did("%s stopped", task.Step())
			return outcome.Fail(context.Cause(ctx))
		case <-time.After(d):
			r.did("%s", task.Step())
			return outcome.Done()
		}
	}}
}

func items(values ...string) func(workflow.View) ([]json.RawMessage, error) {
	return func(workflow.View) ([]json.RawMessage, error) {
		var list []json.RawMessage
		for _, v := range values {
			list = append(list, json.RawMessage(v))
		}
		return list, nil
	}
}

func TestFinallyBranchFailsWhileCancelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		bad := true
		a := r.step("A", func(*workflow.Task) outcome.Outcome {
			if bad {
				return outcome.Fail(broken.Errorf("no"))
			}
			return outcome.Done()
		})
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "W", Wait: &workflow.WaitFor{Signal: "go"}}},
			Finally: []workflow.Step{{Name: "P", Parallel: 2, Steps: []workflow.Step{a, r.obedient("B", time.Second), r.obedient("C", time.Second)}}}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		synctest.Wait()
		want(t, r.engine.Cancel(t.Context(), run.ID, runtype.Drop, false, workflow.Actor{}), error(nil))
		time.Sleep(time.Minute)
		got := r.rests(run.ID, runtype.Paused)
		want(t, got.Step("P/C") == nil, true) // no new step was opened
		bad = false
		want(t, r.engine.Resume(t.Context(), run.ID, "", "", workflow.Actor{}), error(nil))
		time.Sleep(time.Minute)
		r.rests(run.ID, runtype.Cancelled)
	})
}

func TestDrainWhileHealing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		healed := false
		options := workflow.Options{Healers: map[fault.Code]workflow.Healer{"TEST_BROKEN": {Do: func(ctx context.Context, _ *workflow.Task) outcome.Outcome {
			select {
			case <-ctx.Done():
				return outcome.Fail(context.Cause(ctx))
			case <-time.After(time.Minute):
				healed = true
				return outcome.Done()
			}
		}}}}
		r := newHarness(t, nil, options)
		flows := []workflow.Flow{{Name: "F", Steps: []workflow.Step{r.step("A", func(*workflow.Task) outcome.Outcome {
			if !healed {
				return outcome.Fail(broken.Errorf("no"))
			}
			return outcome.Done()
		})}}}
		want(t, r.engine.Load(flows), error(nil))
		run := r.start("F", ``)
		r.rests(run.ID, runtype.Paused)
		r.stop()
		r.serve(flows, options)
		defer r.stop()
		time.Sleep(2 * time.Minute)
		r.rests(run.ID, runtype.Succeeded)
	})
}

// TestNoSpinWhileABranchEnds: a parallel has failed. Due steps in its other branches do not start,
// and the engine sleeps until the open branch has ended.
func TestNoSpinWhileABranchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "P", Parallel: 4, Steps: []workflow.Step{
			r.step("Fails", func(*workflow.Task) outcome.Outcome {
				time.Sleep(time.Millisecond)
				return outcome.Fail(broken.Errorf("no"))
			}),
			r.step("Retries", func(*workflow.Task) outcome.Outcome { return outcome.Fail(shaky.Errorf("no")) }),
			{Name: "Waits", Wait: &workflow.WaitFor{For: time.Second, Deadline: 2 * time.Second}},
			r.obedient("Works", 10*time.Minute),
		}}}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		time.Sleep(11 * time.Minute)
		got := r.rests(run.ID, runtype.Paused)
		want(t, got.Step("P/Works").Phase, runtype.StepDone)
		want(t, len(r.done()), 3)
	})
}

func TestNoSpinWhenAWaitDropsItsInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		looks := 0
		poll := r.step("Poll", func(task *workflow.Task) outcome.Outcome {
			if looks++; looks > 100 {
				return outcome.Fail(broken.Errorf("spins"))
			}
			if _, ok := task.Signal("go"); ok {
				return outcome.Done()
			}
			if looks < 3 {
				return outcome.Wait(10*time.Second, "NotYet", "not yet")
			}
			return outcome.Wait(0, "NotYet", "not yet")
		})
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "P", Parallel: 2, Steps: []workflow.Step{poll, r.obedient("Works", 14*time.Minute)}}}}}), error(nil))
		run := r.start("F", ``)
		time.Sleep(10 * time.Minute)
		r.rests(run.ID, runtype.Running)
		want(t, looks, 3)
		time.Sleep(10 * time.Minute)
		r.rests(run.ID, runtype.Waiting)
		want(t, r.engine.Send(t.Context(), run.ID, runtype.Signal{Name: "go"}), error(nil))
		r.rests(run.ID, runtype.Succeeded)
	})
}

// TestUndoReopensABracketThatObeys: a cancel does not cancel the open, close and undo that it
// requires itself.
func TestUndoReopensABracketThatObeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		off, on := r.obedient("Off", time.Second), r.obedient("On", time.Second)
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "HA", Open: &off, Close: &on, Steps: []workflow.Step{
			r.undoable("B"), {Name: "W", Wait: &workflow.WaitFor{Signal: "go"}},
		}}}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		time.Sleep(10 * time.Second)
		want(t, r.engine.Pause(t.Context(), run.ID, workflow.Actor{}), error(nil))
		time.Sleep(10 * time.Second)
		r.rests(run.ID, runtype.Paused)
		want(t, r.engine.Cancel(t.Context(), run.ID, runtype.Undo, false, workflow.Actor{}), error(nil))
		time.Sleep(time.Minute)
		r.rests(run.ID, runtype.Cancelled)
		want(t, r.done(), []string{"HA/Off", "HA/B", "HA/On", "HA/Off", "undo HA/B", "HA/On"})
	})
}

func TestFinallyLoopThatObeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		each := r.obedient("Each", time.Second)
		each.ForEach = &workflow.Loop{List: items(`1`, `2`)}
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "W", Wait: &workflow.WaitFor{Signal: "go"}}}, Finally: []workflow.Step{each}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		synctest.Wait()
		want(t, r.engine.Cancel(t.Context(), run.ID, runtype.Drop, false, workflow.Actor{}), error(nil))
		time.Sleep(time.Minute)
		r.rests(run.ID, runtype.Cancelled)
		want(t, r.done(), []string{"Each[0]", "Each[1]"})
	})
}

// TestResumeFromAStepWithin: a named step within a closed bracket, a finished loop or a finished
// group is executed again, together with its structure.
func TestResumeFromAStepWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		bad := true
		fails := r.step("Fails", func(*workflow.Task) outcome.Outcome {
			if bad {
				return outcome.Fail(broken.Errorf("no"))
			}
			return outcome.Done()
		})
		flows := []workflow.Flow{
			{Name: "Within", Steps: []workflow.Step{{Name: "HA", Open: ptr(r.step("Off", nil)), Close: ptr(r.step("On", nil)), Steps: []workflow.Step{r.step("A", nil), r.step("B", nil), fails}}}},
			{Name: "Behind", Steps: []workflow.Step{{Name: "HA", Open: ptr(r.step("Off", nil)), Close: ptr(r.step("On", nil)), Steps: []workflow.Step{r.step("A", nil), r.step("B", nil)}}, fails}},
			{Name: "Loop", Steps: []workflow.Step{{Name: "Each", ForEach: &workflow.Loop{List: items(`1`, `2`)}, Steps: []workflow.Step{r.step("A", nil), r.step("B", nil)}}, fails}},
			{Name: "Group", Steps: []workflow.Step{{Name: "G", When: func(workflow.View) (bool, error) { return true, nil }, Steps: []workflow.Step{r.step("A", nil), r.step("B", nil)}}, fails}},
		}
		want(t, r.engine.Load(flows), error(nil))
		for _, c := range []struct{ flow, from, did string }{
			{"Within", "HA/B", "HA/Off HA/B HA/Fails HA/On"},
			{"Behind", "HA/B", "HA/Off HA/B HA/On Fails"},
			{"Loop", "Each[0]/B", "Each[0]/B Each[1]/A Each[1]/B Fails"},
			{"Group", "G/B", "G/B Fails"},
		} {
			bad = true
			run := r.start(c.flow, ``)
			r.rests(run.ID, runtype.Paused)
			before := len(r.done())
			bad = false
			want(t, r.engine.Resume(t.Context(), run.ID, workflow.From(c.from), "", workflow.Actor{}), error(nil))
			r.rests(run.ID, runtype.Succeeded)
			want(t, strings.Join(r.done()[before:], " "), c.did)
		}
	})
}

func TestWhenThatFailedIsEvaluatedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		bad := true
		a := r.step("A", nil)
		a.When = func(workflow.View) (bool, error) {
			if bad {
				return false, errors.New("no such key")
			}
			return false, nil
		}
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{a}}}), error(nil))
		run := r.start("F", ``)
		got := r.rests(run.ID, runtype.Paused)
		want(t, got.Fault.Code, workflow.ExpressionFailed.Code)
		bad = false
		want(t, r.engine.Resume(t.Context(), run.ID, "", "", workflow.Actor{}), error(nil))
		got = r.rests(run.ID, runtype.Succeeded)
		want(t, got.Step("A").Phase, runtype.StepSkipped)
		want(t, len(r.done()), 0)
	})
}

// TestHoldIsRefusedWhileUndoing: a run whose undo has started cannot continue forward, so it cannot
// be held.
func TestHoldIsRefusedWhileUndoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		a, b := r.undoable("A"), r.undoable("B")
		a.Undo = r.obedient("undo", time.Minute).Do
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{a, b, {Name: "W", Wait: &workflow.WaitFor{Signal: "go"}}}}}), error(nil))
		run := r.start("F", ``)
		synctest.Wait()
		want(t, r.engine.Cancel(t.Context(), run.ID, runtype.Undo, false, workflow.Actor{}), error(nil))
		time.Sleep(time.Second)
		want(t, code(r.engine.Cancel(t.Context(), run.ID, runtype.Hold, false, workflow.Actor{})), "REQUEST_REFUSED")
		time.Sleep(2 * time.Minute)
		r.rests(run.ID, runtype.Cancelled)
	})
}

// TestDropWaitsForTheUndoUnderWay: when a run has ended, none of its attempts is open.
func TestDropWaitsForTheUndoUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		a := r.undoable("A")
		a.Undo = func(context.Context, *workflow.Task) outcome.Outcome {
			time.Sleep(time.Minute)
			r.did("undo A")
			return outcome.Done()
		}
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{a, {Name: "W", Wait: &workflow.WaitFor{Signal: "go"}}}, Finally: []workflow.Step{r.step("Clean", nil)}}}), error(nil))
		run := r.start("F", ``)
		synctest.Wait()
		want(t, r.engine.Cancel(t.Context(), run.ID, runtype.Undo, false, workflow.Actor{}), error(nil))
		time.Sleep(time.Second)
		want(t, r.engine.Cancel(t.Context(), run.ID, runtype.Drop, false, workflow.Actor{}), error(nil))
		time.Sleep(2 * time.Minute)
		r.rests(run.ID, runtype.Cancelled)
		want(t, r.done(), []string{"A", "undo A", "Clean"})
		lines := r.history(run.ID)
		want(t, lines[len(lines)-1], "RunCancelled")
	})
}

func TestQueuedRunIsPausedAndResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "W", Wait: &workflow.WaitFor{Signal: "go"}}}}}), error(nil))
		a, b := r.start("F", ``), r.start("F", ``)
		synctest.Wait()
		want(t, r.engine.Pause(t.Context(), b.ID, workflow.Actor{}), error(nil))
		r.rests(b.ID, runtype.Queued)
		want(t, r.engine.Resume(t.Context(), b.ID, "", "", workflow.Actor{}), error(nil))
		got := r.rests(b.ID, runtype.Queued)
		want(t, got.State.Stop == nil, true)
		want(t, r.engine.Pause(t.Context(), b.ID, workflow.Actor{}), error(nil))
		want(t, r.engine.Send(t.Context(), a.ID, runtype.Signal{Name: "go"}), error(nil))
		r.rests(a.ID, runtype.Succeeded)
		time.Sleep(time.Second) // the run may have left the queue while the request was handled
		r.rests(b.ID, runtype.Paused)
	})
}

// TestSkipDuringAPoll: a skip during a poll of the step is carried out when the poll has ended.
func TestSkipDuringAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		poll := r.step("Poll", func(*workflow.Task) outcome.Outcome {
			time.Sleep(10 * time.Second)
			return outcome.Wait(5*time.Second, "NotYet", "not yet")
		})
		poll.Skippable = true
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{poll, r.step("B", nil)}}}), error(nil))
		run := r.start("F", ``)
		time.Sleep(20 * time.Second)
		want(t, r.engine.Skip(t.Context(), run.ID, "Poll", nil, false, workflow.Actor{Name: "eve"}), error(nil))
		time.Sleep(time.Minute)
		got := r.rests(run.ID, runtype.Succeeded)
		want(t, got.Step("Poll").Actor, "eve")
	})
}

func TestSkippedChildIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		want(t, r.engine.Load([]workflow.Flow{
			{Name: "Child", Steps: []workflow.Step{{Name: "W", Wait: &workflow.WaitFor{Signal: "go"}}}, Finally: []workflow.Step{r.step("Clean", nil)}},
			{Name: "Top", Steps: []workflow.Step{{Name: "Sub", Flow: "Child", Skippable: true}}},
		}), error(nil))
		run := r.start("Top", ``)
		got := r.rests(run.ID, runtype.Waiting)
		child := got.Step("Sub").Wait.Child
		want(t, r.engine.Skip(t.Context(), run.ID, "Sub", nil, false, workflow.Actor{Name: "eve"}), error(nil))
		r.rests(run.ID, runtype.Succeeded)
		r.rests(child, runtype.Cancelled)
		want(t, r.done(), []string{"Clean"})
	})
}

// TestAbandonedCloseIsRetried: a close is retried without limit, even after it ignored its timeout.
func TestAbandonedCloseIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		closes := 0
		on := workflow.Step{Name: "On", Timeout: time.Minute, Grace: time.Second, Do: func(context.Context, *workflow.Task) outcome.Outcome {
			if closes++; closes == 1 {
				time.Sleep(2 * time.Minute)
				return outcome.Fail(shaky.Errorf("late"))
			}
			return outcome.Done()
		}}
		flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "HA", Open: ptr(r.step("Off", nil)), Close: &on, Steps: []workflow.Step{
			r.step("B", func(*workflow.Task) outcome.Outcome { return outcome.Fail(broken.Errorf("no")) }),
		}}}}
		want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
		run := r.start("F", ``)
		time.Sleep(10 * time.Minute)
		got := r.rests(run.ID, runtype.Paused)
		want(t, got.Fault.Code, "TEST_BROKEN")
		want(t, got.Step("HA/On").Phase, runtype.StepDone)
		want(t, closes, 2)
	})
}

func TestHealerThatHangsIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heals atomic.Int32
		r := newHarness(t, nil, workflow.Options{Healers: map[fault.Code]workflow.Healer{
			"TEST_BROKEN": {Do: func(ctx context.Context, _ *workflow.Task) outcome.Outcome {
				heals.Add(1)
				<-ctx.Done()
				return outcome.Fail(context.Cause(ctx))
			}},
			"TEST_SHAKY": {Do: func(context.Context, *workflow.Task) outcome.Outcome {
				return outcome.Wait(0, "Person", "somebody will come")
			}, Limits: workflow.Limits{Within: time.Hour}},
		}})
		defer r.stop()
		shakes := r.step("S", func(*workflow.Task) outcome.Outcome { return outcome.Fail(shaky.Errorf("no")) })
		shakes.Retry.Attempts = 1
		want(t, r.engine.Load([]workflow.Flow{
			{Name: "Hangs", Steps: []workflow.Step{r.step("P", func(*workflow.Task) outcome.Outcome { return outcome.Fail(broken.Errorf("no")) })}},
			{Name: "Waits", Steps: []workflow.Step{shakes}},
		}), error(nil))
		hangs := r.start("Hangs", ``)
		time.Sleep(3 * time.Hour)
		got := r.rests(hangs.ID, runtype.Paused)
		want(t, heals.Load(), int32(3))
		want(t, got.Fault.Healer, "HEALER_EXHAUSTED")
		want(t, r.engine.Cancel(t.Context(), hangs.ID, runtype.Drop, false, workflow.Actor{}), error(nil))
		waits := r.start("Waits", ``)
		time.Sleep(59 * time.Minute)
		want(t, r.rests(waits.ID, runtype.Paused).Fault.Healer, "")
		time.Sleep(2 * time.Minute)
		want(t, r.rests(waits.ID, runtype.Paused).Fault.Healer, "HEALER_EXHAUSTED")
	})
}

// TestUndoOfAChildFails: the parent shows what blocks the end of a child, and a resume of the
// parent resumes the child.
func TestUndoOfAChildFails(t *testing.T) {
	for _, mode := range []runtype.Mode{runtype.Undo, runtype.Drop} {
		synctest.Test(t, func(t *testing.T) {
			r := newHarness(t, nil, workflow.Options{})
			defer r.stop()
			bad := true
			c := r.undoable("C")
			clean := r.step("Clean", nil)
			fails := func(_ context.Context, task *workflow.Task) outcome.Outcome {
				if bad {
					return outcome.Fail(broken.Errorf("stuck"))
				}
				r.did("ended %s", task.Step())
				return outcome.Done()
			}
			if mode == runtype.Undo {
				c.Undo = fails
			} else {
				clean.Do = fails
			}
			want(t, r.engine.Load([]workflow.Flow{
				{Name: "Child", Steps: []workflow.Step{c, {Name: "W", Wait: &workflow.WaitFor{Signal: "go"}}}, Finally: []workflow.Step{clean}},
				{Name: "Top", Steps: []workflow.Step{r.undoable("A"), {Name: "Sub", Flow: "Child"}}},
			}), error(nil))
			run := r.start("Top", ``)
			r.rests(run.ID, runtype.Waiting)
			want(t, r.engine.Cancel(t.Context(), run.ID, mode, false, workflow.Actor{}), error(nil))
			time.Sleep(time.Minute)
			r.rests(run.ID, runtype.Paused)
			bad = false
			want(t, r.engine.Resume(t.Context(), run.ID, "", "", workflow.Actor{}), error(nil))
			time.Sleep(time.Minute)
			r.rests(run.ID, runtype.Cancelled)
		})
	}
}

func TestDeadlinePausesTheChildToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		want(t, r.engine.Load([]workflow.Flow{
			{Name: "Child", Steps: []workflow.Step{{Name: "W", Wait: &workflow.WaitFor{For: 2 * time.Hour}}, r.step("C", nil)}},
			{Name: "Top", Deadline: time.Hour, Steps: []workflow.Step{{Name: "Sub", Flow: "Child"}}},
		}), error(nil))
		run := r.start("Top", ``)
		time.Sleep(3 * time.Hour)
		got := r.rests(run.ID, runtype.Paused)
		want(t, got.Fault.Code, workflow.DeadlineEnded.Code)
		want(t, len(r.done()), 0)
		want(t, r.engine.Resume(t.Context(), run.ID, "", "", workflow.Actor{}), error(nil))
		r.rests(run.ID, runtype.Succeeded)
	})
}

// TestOneChildGoesOn: a resumed child resumes its parent, but not its siblings.
func TestOneChildGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		bad := true
		child := func(name string) workflow.Flow {
			return workflow.Flow{Name: name, Steps: []workflow.Step{r.step(name, func(*workflow.Task) outcome.Outcome {
				if bad {
					return outcome.Fail(broken.Errorf("no"))
				}
				return outcome.Done()
			})}}
		}
		want(t, r.engine.Load([]workflow.Flow{child("X"), child("Y"), {Name: "Top", Steps: []workflow.Step{{Name: "P", Parallel: 2, Steps: []workflow.Step{{Name: "x", Flow: "X"}, {Name: "y", Flow: "Y"}}}}}}), error(nil))
		run := r.start("Top", ``)
		got := r.rests(run.ID, runtype.Paused)
		x := got.Fault.Details["child"].(string)
		bad = false
		want(t, r.engine.Resume(t.Context(), x, "", "", workflow.Actor{}), error(nil))
		time.Sleep(time.Minute)
		r.rests(x, runtype.Succeeded)
		got = r.rests(run.ID, runtype.Paused)
		want(t, r.engine.Resume(t.Context(), got.Fault.Details["child"].(string), "", "", workflow.Actor{}), error(nil))
		time.Sleep(time.Minute)
		r.rests(run.ID, runtype.Succeeded)
		want(t, len(r.done()), 4)
	})
}

func TestUndoOfAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, nil, workflow.Options{})
		defer r.stop()
		w := workflow.Step{Name: "W", Wait: &workflow.WaitFor{Signal: "go"}, Undo: func(context.Context, *workflow.Task) outcome.Outcome { r.did("undo W"); return outcome.Done() }}
		want(t, r.engine.Load([]workflow.Flow{{Name: "F", Steps: []workflow.Step{w}}}), error(nil))
		run := r.start("F", ``)
		synctest.Wait()
		want(t, r.engine.Cancel(t.Context(), run.ID, runtype.Undo, false, workflow.Actor{}), error(nil))
		r.rests(run.ID, runtype.Cancelled)
		want(t, r.done(), []string{"undo W"})
	})
}
