package workflow_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// TestFinding14APauseOfAStoppedRunIsKept: a person pauses or holds a run that a fault has already
// paused. It stays paused, whatever would otherwise have resumed it, and keeps its fault.
func TestFinding14APauseOfAStoppedRunIsKept(t *testing.T) {
	actor := workflow.Actor{Name: "eve", Reason: "lunch"}
	for name, stop := range map[string]func(*workflow.Engine, string) error{
		"pause": func(e *workflow.Engine, id string) error { return e.Pause(t.Context(), id, actor) },
		"hold": func(e *workflow.Engine, id string) error {
			return e.Cancel(t.Context(), id, runtype.Hold, false, actor)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fails := true
				step := workflow.Step{Name: "A", Skippable: true, Retry: workflow.Retry{Attempts: 1}, Do: func(context.Context, *workflow.Task) outcome.Outcome {
					if fails {
						return outcome.Fail(fault.Unknown.Errorf("not yet"))
					}
					return outcome.Done()
				}}
				wait := workflow.Step{Name: "B", Wait: &workflow.WaitFor{Signal: "go"}}
				r := newHarness(t, []workflow.Flow{{Name: "F", Steps: []workflow.Step{step, wait}}}, workflow.Options{})
				defer r.stop()
				run := r.start("F", "")
				if r.rests(run.ID, runtype.Paused).StoppedByPerson() {
					t.Error("it is not paused yet")
				}
				want(t, stop(r.engine, run.ID), error(nil))
				synctest.Wait()
				got := r.rests(run.ID, runtype.Paused)
				if !got.StoppedByPerson() || got.Fault.Code != fault.Unknown.Code {
					t.Errorf("%+v, stopped by %+v", got.Fault, got.State.Stop)
				}
				want(t, r.engine.Skip(t.Context(), run.ID, "A", nil, false, actor), error(nil))
				time.Sleep(time.Hour)
				r.rests(run.ID, runtype.Paused) // a skip resumes it only if no person has paused it
				fails = false
				want(t, r.engine.Resume(t.Context(), run.ID, "", "", actor), error(nil))
				synctest.Wait()
				if got := r.rests(run.ID, runtype.Waiting); got.StoppedByPerson() {
					t.Errorf("it goes on, stopped by %+v", got.State.Stop)
				}
			})
		})
	}
}
