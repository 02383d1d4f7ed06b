package workflow_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// TestFinding1AFormerChildEnds: a run that returns to an earlier step ends the child run of the
// previous round, whatever that child does, before it starts another one.
func TestFinding1AFormerChildEnds(t *testing.T) {
	actor := workflow.Actor{Name: "eve"}
	for name, c := range map[string]struct {
		after time.Duration // time between the start and the pause
		rest  time.Duration // time between the pause and the resume
		twice bool
	}{
		"paused child":     {time.Second, time.Minute, false},
		"at once":          {time.Second, 0, false},
		"at the beginning": {0, 0, false},
		"twice":            {time.Second, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				working, most := 0, 0
				r := newHarness(t, nil, workflow.Options{})
				defer r.stop()
				slow := workflow.Step{Name: "A", Do: func(context.Context, *workflow.Task) outcome.Outcome {
					r.mu.Lock()
					working++
					most = max(most, working)
					r.mu.Unlock()
					time.Sleep(2 * time.Second) // its context is not cancelled
					r.mu.Lock()
					working--
					r.mu.Unlock()
					return outcome.Done()
				}}
				want(t, r.engine.Load([]workflow.Flow{
					{Name: "Child", Steps: []workflow.Step{slow, r.step("B", nil)}},
					{Name: "F", Steps: []workflow.Step{{Name: "Sub", Flow: "Child"}, r.step("Z", nil)}},
				}), error(nil))
				run := r.start("F", "")
				back := func() {
					want(t, r.engine.Pause(t.Context(), run.ID, actor), error(nil))
					time.Sleep(c.rest)
					want(t, r.engine.Resume(t.Context(), run.ID, workflow.FromFirst, "", actor), error(nil))
				}
				time.Sleep(c.after)
				back()
				if c.twice {
					time.Sleep(time.Second / 2)
					back()
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				want(t, r.load(run.ID).Phase, runtype.Succeeded)
				if most != 1 {
					t.Errorf("%d children work at once", most)
				}
				all, _, err := r.store.List(t.Context(), runstore.Query{})
				want(t, err, error(nil))
				done := 0
				for _, other := range all {
					if !other.Phase.Final() {
						t.Errorf("run %s of %s is %s", other.ID, other.Flow, other.Phase)
					}
					if other.Flow == "Child" && other.Phase == runtype.Succeeded {
						done++
					}
				}
				want(t, done, 1)
			})
		})
	}
}
