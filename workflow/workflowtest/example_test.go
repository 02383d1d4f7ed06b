package workflowtest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
	"github.com/pawl-dev/pawl/workflow/workflowtest"
)

var cloudFull = fault.Declare(fault.Kind{
	Code: "CLOUD_FULL", Class: fault.Blocked,
	Title:  "the cloud has no room",
	Remedy: "Delete something, then resume the run.",
})

var cloudBusy = fault.Declare(fault.Kind{
	Code: "CLOUD_BUSY", Class: fault.Transient,
	Title:  "the cloud is busy",
	Remedy: "Wait: the step is retried.",
})

// cloud is the fake of what the flow works on. Its calls are idempotent by key, as real ones are.
type cloud struct{ volumes, servers map[string]bool }

func newCloud() *cloud { return &cloud{volumes: map[string]bool{}, servers: map[string]bool{}} }

// create is the flow under test.
func (c *cloud) create() workflow.Flow {
	return workflow.Flow{Name: "Create", Steps: []workflow.Step{
		{
			Name: "Volume",
			Do: func(_ context.Context, t *workflow.Task) outcome.Outcome {
				c.volumes[t.RunID()] = true
				return outcome.Fail(t.Set(map[string]any{"id": "v-1"}))
			},
			Undo: func(_ context.Context, t *workflow.Task) outcome.Outcome {
				delete(c.volumes, t.RunID())
				return outcome.Done()
			},
		},
		{Name: "Cool", Wait: &workflow.WaitFor{For: 24 * time.Hour}},
		{Name: "Server", Do: func(_ context.Context, t *workflow.Task) outcome.Outcome {
			c.servers[t.RunID()] = true
			return outcome.Done()
		}},
		{Name: "Approved", Wait: &workflow.WaitFor{Signal: "approved", Deadline: time.Hour}},
	}}
}

// The day that the flow waits costs no time, and the test decides when the signal arrives.
func TestCreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud()
		env := workflowtest.New(t, workflowtest.Options{Flows: []workflow.Flow{c.create()}})

		run := env.Run("Create", map[string]any{"size": 20})
		run.WantWaiting("Approved")
		run.Signal("approved", nil)

		run.WantPhase(runtype.Succeeded)
		run.WantOrder("Volume", "Cool", "Server", "Approved")
		run.WantOutput("Volume", map[string]any{"id": "v-1"})
	})
}

// A fault pauses the run; a cancel with undo takes back what was made.
func TestCreateWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud()
		env := workflowtest.New(t, workflowtest.Options{Flows: []workflow.Flow{c.create()}})
		env.Fault("Server", cloudFull.Errorf("0 of 3 hosts have room"))

		run := env.Run("Create", nil)
		run.WantFault(cloudFull.Code, "Server")
		run.Cancel(runtype.Undo)

		run.WantPhase(runtype.Cancelled)
		run.WantUndone("Volume")
		if len(c.volumes) != 0 {
			t.Errorf("volumes are left: %v", c.volumes)
		}
	})
}

// The flow ends in the same way if its process dies before or after any save.
func TestCreateSurvivesCrashes(t *testing.T) {
	workflowtest.EveryCrash(t, func(t *testing.T, crash *workflowtest.Crash) {
		c := newCloud()
		env := workflowtest.New(t, workflowtest.Options{Flows: []workflow.Flow{c.create()}, Crash: crash})
		env.Fault("Server", cloudBusy.Errorf("429"), 1, 2) // the first and the second try

		run := env.Run("Create", nil)
		run.Signal("approved", nil)

		run.WantPhase(runtype.Succeeded)
		if len(c.volumes) != 1 || len(c.servers) != 1 {
			t.Errorf("%d volumes and %d servers, want one of each", len(c.volumes), len(c.servers))
		}
	})
}
