package view

import (
	"strings"

	"github.com/pawl-dev/pawl/workflow"
)

// definitions finds the steps of a flow by instance names. It is filled at the first
// lookup: each step of the flow is visited once, however long the run is.
type definitions struct {
	flow   *workflow.Flow
	byPath map[string]*workflow.Step
}

// wholeFlow returns the flow; nil if it is not known.
func (d *definitions) wholeFlow() *workflow.Flow {
	if d == nil {
		return nil
	}
	return d.flow
}

// find returns the step of an instance name: Replace[ro-2]/Create is the step Create in
// the loop Replace.
func (d *definitions) find(instance string) (*workflow.Step, bool) {
	if d == nil || d.flow == nil {
		return nil, false
	}
	if d.byPath == nil {
		d.byPath = map[string]*workflow.Step{}
		d.add("", d.flow.Steps)
		d.add("", d.flow.Finally)
	}
	found, ok := d.byPath[withoutKeys(instance)]
	return found, ok
}

func (d *definitions) add(scope string, steps []workflow.Step) {
	for i := range steps {
		d.addStep(scope, &steps[i])
	}
}

func (d *definitions) addStep(scope string, s *workflow.Step) {
	path := scope + s.Name
	if _, known := d.byPath[path]; known {
		return // the first step with a name counts
	}
	d.byPath[path] = s
	d.add(path+"/", s.Steps)
	for _, end := range []*workflow.Step{s.Open, s.Close} {
		if end != nil {
			d.addStep(path+"/", end)
		}
	}
}

// withoutKeys returns an instance name without the keys of its loops.
func withoutKeys(instance string) string {
	if !strings.Contains(instance, "[") {
		return instance
	}
	parts := strings.Split(instance, "/")
	for i, part := range parts {
		parts[i], _, _ = strings.Cut(part, "[")
	}
	return strings.Join(parts, "/")
}
