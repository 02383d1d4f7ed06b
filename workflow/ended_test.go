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

// The history says which fault has cancelled a run, and names none where a person has; it says of a healing
// that it has helped.
func TestTheHistorySaysWhatEndedARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		healed := false
		r := newHarness(t, nil, workflow.Options{Healers: map[fault.Code]workflow.Healer{
			"TEST_BROKEN": {Undo: true, Do: func(context.Context, *workflow.Task) outcome.Outcome { healed = true; return outcome.Done() }},
		}})
		defer r.stop()
		wait := workflow.Step{Name: "W", Wait: &workflow.WaitFor{Signal: "never"}}
		want(t, r.engine.Load([]workflow.Flow{
			{Name: "Late", Deadline: time.Hour, OnDeadline: workflow.ThenUndo, Steps: []workflow.Step{r.undoable("A"), wait}},
			{Name: "Expired", Steps: []workflow.Step{{Name: "W", Wait: &workflow.WaitFor{Signal: "never", Deadline: time.Minute, OnTimeout: workflow.TimeoutUndo}}}},
			{Name: "Healed", Steps: []workflow.Step{r.step("P", func(*workflow.Task) outcome.Outcome { return outcome.Fail(broken.Errorf("no")) })}},
			{Name: "Asked", Steps: []workflow.Step{wait}},
		}), error(nil))
		for flow, code := range map[string]fault.Code{"Late": workflow.DeadlineEnded.Code, "Expired": workflow.WaitExpired.Code, "Healed": "TEST_BROKEN", "Asked": ""} {
			run := r.start(flow, ``)
			if flow == "Asked" {
				r.rests(run.ID, runtype.Waiting)
				want(t, r.engine.Cancel(t.Context(), run.ID, runtype.Undo, false, workflow.Actor{Name: "eve"}), error(nil))
			}
			time.Sleep(2 * time.Hour)
			r.rests(run.ID, runtype.Cancelled)
			lines := r.history(run.ID)
			end := "RunCancelled"
			if code != "" {
				end += " " + string(code)
			}
			want(t, lines[len(lines)-1], end)
			events, err := r.store.History(t.Context(), run.ID, 0, 100)
			want(t, err, error(nil))
			for _, e := range events {
				if e.Kind == runtype.HealingEnded {
					want(t, e.Reason, runtype.Healed)
				}
			}
		}
		want(t, healed, true)
	})
}
