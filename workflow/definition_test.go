package workflow_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// TestFinding13ChosenDefinition: a resume with the new definition starts no step of the old one. If
// the new definition cannot be used, the run pauses again and starts nothing.
func TestFinding13ChosenDefinition(t *testing.T) {
	const person = "eve"
	fails := true
	step := func(r *harness, name string) workflow.Step {
		return workflow.Step{Name: name, Retry: workflow.Retry{Attempts: 1}, Do: func(context.Context, *workflow.Task) outcome.Outcome {
			r.did("%s", name)
			if name == "A" && fails {
				return outcome.Fail(fault.Unknown.Errorf("not yet"))
			}
			return outcome.Done()
		}}
	}
	for name, c := range map[string]struct {
		second []string // steps of the new definition
		choice string
		phase  runtype.Phase
		did    []string
	}{
		"new":             {[]string{"N", "A"}, "new", runtype.Succeeded, []string{"A", "N", "A"}},
		"old":             {[]string{"N", "A"}, "old", runtype.Succeeded, []string{"A", "A"}},
		"new, impossible": {[]string{"N"}, "new", runtype.Paused, []string{"A"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fails = true
				r := newHarness(t, nil, workflow.Options{})
				defer r.stop()
				define := func(names []string) {
					flow := workflow.Flow{Name: "F"}
					for _, name := range names {
						flow.Steps = append(flow.Steps, step(r, name))
					}
					want(t, r.engine.Load([]workflow.Flow{flow}), error(nil))
				}
				define([]string{"A"})
				run := r.start("F", ``)
				r.rests(run.ID, runtype.Paused)
				define(c.second)
				fails = false
				want(t, r.engine.Resume(t.Context(), run.ID, "", c.choice, workflow.Actor{Name: person}), error(nil))
				synctest.Wait()
				got := r.rests(run.ID, c.phase)
				want(t, r.done(), c.did)
				if c.phase == runtype.Paused {
					want(t, got.Fault.Code, workflow.FlowChanged.Code)
				}
			})
		})
	}
}
