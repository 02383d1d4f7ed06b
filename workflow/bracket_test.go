package workflow_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// A request during the close of a bracket waits for the close: open, body and undo never run at the
// same time as the close.
func TestNothingOverlapsWithTheCloseOfABracket(t *testing.T) {
	for name, c := range map[string]struct {
		ask  func(*harness, string) error
		ends runtype.Phase
		want []string
	}{
		"resume": {
			ask: func(r *harness, id string) error {
				return r.engine.Resume(t.Context(), id, "", "", workflow.Actor{Name: "eve"})
			},
			ends: runtype.Succeeded,
			want: []string{"HA/Off", "HA/A", "HA/On", "closed", "HA/Off", "HA/B", "HA/On", "closed"},
		},
		"undo": {
			ask: func(r *harness, id string) error {
				return r.engine.Cancel(t.Context(), id, runtype.Undo, false, workflow.Actor{Name: "eve"})
			},
			ends: runtype.Cancelled,
			want: []string{"HA/Off", "HA/A", "HA/On", "closed", "HA/Off", "undo HA/A", "HA/On", "closed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newHarness(t, nil, workflow.Options{})
				defer r.stop()
				slow := r.undoable("A")
				do := slow.Do
				slow.Do = func(ctx context.Context, task *workflow.Task) outcome.Outcome {
					time.Sleep(time.Second)
					return do(ctx, task)
				}
				on := r.step("On", func(*workflow.Task) outcome.Outcome {
					time.Sleep(10 * time.Second)
					r.did("closed")
					return outcome.Done()
				})
				flow := workflow.Flow{Name: "F", Steps: []workflow.Step{{Name: "HA", Open: ptr(r.step("Off", nil)), Close: &on, Steps: []workflow.Step{
					slow,
					r.step("B", nil),
				}}}}
				want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
				run := r.start("F", ``)
				time.Sleep(time.Second / 2)
				want(t, r.engine.Pause(t.Context(), run.ID, workflow.Actor{Name: "eve"}), error(nil))
				time.Sleep(3 * time.Second) // A has ended, the bracket is being closed
				r.rests(run.ID, runtype.Paused)
				want(t, c.ask(r, run.ID), error(nil))
				time.Sleep(time.Minute)
				r.rests(run.ID, c.ends)
				want(t, r.done(), c.want)
			})
		})
	}
}
