package service

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Engine is the part of a workflow engine that the service uses. A
// *workflow.Engine implements it.
type Engine interface {
	machine.Flows
	Send(ctx context.Context, id string, s runtype.Signal) error
	Store() runstore.Store
}

// boundEngine is the engine that Bind sets. Before that it has no runs.
type boundEngine struct{ Engine }

// Get implements machine.Flows.
func (e *boundEngine) Get(ctx context.Context, id string) (*runtype.Run, error) {
	if e.Engine == nil {
		return nil, workflow.RunNotFound.Errorf("the service has no engine yet, and no run %s", id)
	}
	return e.Engine.Get(ctx, id)
}

// Plan returns which steps of a flow a run would skip, if the engine can tell.
func (e *boundEngine) Plan(flow string, input json.RawMessage) (workflow.Plan, error) {
	p, ok := e.Engine.(interface {
		Plan(flow string, input json.RawMessage) (workflow.Plan, error)
	})
	if !ok {
		return workflow.Plan{}, workflow.RunNotFound.Errorf("the engine plans no runs")
	}
	return p.Plan(flow, input)
}
