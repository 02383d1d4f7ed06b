package workflow

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Plan is the list of steps that a run would execute.
type Plan struct {
	Flow  string     `json:"flow"`
	Hash  string     `json:"hash"`
	Steps []PlanStep `json:"steps"`
}

// PlanStep is one step of a plan.
type PlanStep struct {
	Name     string `json:"name"`
	Decision string `json:"verdict"` // run, skip, unknown (depends on an output)
	Why      string `json:"why,omitempty"`
}

// Plan returns what a run with this input would do. It writes nothing. Kind/Flow selects the flow
// for subjects of that kind.
func (e *Engine) Plan(flow string, input json.RawMessage) (Plan, error) {
	p := e.catalog.planNamed(flow)
	if p == nil {
		return Plan{}, FlowUnknown.Errorf("no flow %q is loaded", flow)
	}
	input, err := checkInput(p.flow, input)
	if err != nil {
		return Plan{}, err
	}
	flow = p.flow.Name
	s := newState(&runtype.Run{Flow: flow, Input: input, Hash: p.hash}, p, nil)
	s.now = time.Now().UTC()
	out := Plan{Flow: flow, Hash: p.hash}
	preview(s, p.body.children, "", &out)
	preview(s, p.finally.children, "", &out)
	return out, nil
}

// CheckInput returns why a run of the flow with this input would be refused: FLOW_UNKNOWN or
// INPUT_INVALID. It writes nothing.
func (e *Engine) CheckInput(flow, subject string, input json.RawMessage) error {
	p := e.catalog.loadedPlan(flow, subject)
	if p == nil {
		return FlowUnknown.Errorf("no flow %q is loaded", flow)
	}
	_, err := checkInput(p.flow, input)
	return err
}

func preview(s *state, children []*node, scope string, out *Plan) {
	for _, n := range children {
		previewOne(s, n, n.instance(scope), out)
	}
}

func previewOne(s *state, n *node, inst string, out *Plan) {
	if n.step.When != nil {
		ok, err := s.predicate(n, inst)
		switch {
		case err != nil:
			out.Steps = append(out.Steps, PlanStep{Name: inst, Decision: "unknown", Why: n.step.WhenText})
			return
		case !ok:
			out.Steps = append(out.Steps, PlanStep{Name: inst, Decision: "skip", Why: n.step.WhenText})
			return
		}
	}
	switch n.kind {
	case leafNode:
		out.Steps = append(out.Steps, PlanStep{Name: inst, Decision: "run"})
	case childNode:
		out.Steps = append(out.Steps, PlanStep{Name: inst, Decision: "run", Why: "flow " + n.step.Flow})
	case loopNode:
		items, err := s.items(n, inst)
		if err != nil {
			out.Steps = append(out.Steps, PlanStep{Name: inst, Decision: "unknown", Why: "the list depends on an output: " + n.step.ForEach.ListText})
			return
		}
		if len(items) == 0 {
			out.Steps = append(out.Steps, PlanStep{Name: inst, Decision: "skip", Why: fmt.Sprintf("the list is empty: %s", n.step.ForEach.ListText)})
		}
		s.run.Put(&runtype.StepRecord{Name: inst, Phase: runtype.StepEntered, Items: items})
		for _, item := range items {
			previewOne(s, n.body, inst+"["+item.Key+"]", out)
		}
	case bracketNode:
		preview(s, []*node{n.open}, inst, out)
		previewOne(s, n.body, inst, out)
		preview(s, []*node{n.close}, inst, out)
	default:
		preview(s, n.children, inst, out)
	}
}
