package view

import (
	"strings"

	"github.com/pawl-dev/pawl/workflow"
)

// definition finds the step of a flow that an instance name speaks of:
// Replace[ro-2]/Create is the step Create within the loop Replace.
func definition(flow *workflow.Flow, instance string) (workflow.Step, bool) {
	var found workflow.Step
	among := append(append([]workflow.Step{}, flow.Steps...), flow.Finally...)
	for name := range strings.SplitSeq(instance, "/") {
		name, _, _ = strings.Cut(name, "[")
		ok := false
		for _, s := range among {
			if s.Name == name {
				found, ok = s, true
				break
			}
		}
		if !ok {
			return workflow.Step{}, false
		}
		among = append([]workflow.Step{}, found.Steps...)
		for _, end := range []*workflow.Step{found.Open, found.Close} {
			if end != nil {
				among = append(among, *end)
			}
		}
	}
	return found, true
}
