package kube

import (
	"context"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

// Healers returns healers for faults that only an API server causes, for the engine of an
// operator. An API server that has just started knows no roles yet and forbids everything, and a
// person may be about to grant a missing permission. So a run that got Forbidden is retried, with
// growing pauses, for about an hour.
func Healers() map[fault.Code]workflow.Healer {
	again := func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }
	return map[fault.Code]workflow.Healer{
		controller.Forbidden.Code: {Do: again, Limits: workflow.Limits{Attempts: 10}},
	}
}
