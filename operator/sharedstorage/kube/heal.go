package kube

import (
	"context"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

// Healers are those of what only an API server does, for the engine of an
// operator. One that has just begun knows no roles yet and refuses everybody; and
// a person may be giving the right that was missing. So a run that was refused is
// tried again, later each time, for about an hour.
func Healers() map[fault.Code]workflow.Healer {
	again := func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }
	return map[fault.Code]workflow.Healer{
		controller.Forbidden.Code: {Do: again, Limits: workflow.Limits{Attempts: 10}},
	}
}
