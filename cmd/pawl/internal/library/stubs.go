package library

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

// WithStubs adds actions that do nothing for those that another program registers.
func WithStubs(flows []workflow.Flow, actions []workflow.Action) []workflow.Action {
	actions = slices.Clone(actions)
	add := func(name string) {
		if name != "" && !slices.ContainsFunc(actions, func(a workflow.Action) bool { return a.Name == name }) {
			actions = append(actions, workflow.Action{Name: name, Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }})
		}
	}
	var visit func([]workflow.Step)
	visit = func(steps []workflow.Step) {
		for _, s := range steps {
			add(s.Uses)
			if s.UndoCall != nil {
				add(s.UndoCall.Uses)
			}
			for _, end := range []*workflow.Step{s.Open, s.Close} {
				if end != nil {
					visit([]workflow.Step{*end})
				}
			}
			visit(s.Steps)
		}
	}
	for _, f := range flows {
		visit(f.Steps)
		visit(f.Finally)
	}
	return actions
}
