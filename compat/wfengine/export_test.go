package wfengine

import (
	"context"

	"github.com/pawl-dev/pawl/workflow"
)

// Engine returns the engine of a resource's flows.
func Engine(m *ResourceWorkflow) *workflow.Engine { return m.engine }

// RunOf returns the id of the unfinished run of a resource; empty if there is none.
func RunOf(m *ResourceWorkflow) string {
	found, err := m.unfinished(context.Background())
	if err != nil || found == nil {
		return ""
	}
	return found.run.ID
}
