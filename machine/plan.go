package machine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
)

// Plan is a preview of the next pass over an object: of its machine, or of the chain that
// serves its kind (PlanOfLinks).
type Plan struct {
	Machine    string          `json:"machine,omitempty"` // of a machine
	Object     string          `json:"object"`
	State      State           `json:"state,omitempty"` // of a machine
	Act        Act             `json:"act"`
	To         State           `json:"to,omitempty"`    // of a move
	Cause      Cause           `json:"cause,omitempty"` // of a move
	Event      string          `json:"event,omitempty"`
	Why        string          `json:"why"`
	Params     json.RawMessage `json:"params,omitempty"`
	Cancel     *Ending         `json:"ends,omitempty"` // the run that would be ended first
	Considered []Considered    `json:"considered,omitempty"`
	Code       fault.Code      `json:"code,omitempty"` // of what holds the object
	Remedy     string          `json:"remedy,omitempty"`
	Flow       *workflow.Plan  `json:"flow,omitempty"`  // of the run that would be started
	Links      []PlannedLink   `json:"links,omitempty"` // of a chain
}

// Plan returns what Advance would do with the object, and why. It writes nothing.
func (m *Machine[T]) Plan(ctx context.Context, obj T) (Plan, error) {
	f, err := m.facts(ctx, &Snapshot[T]{Object: obj})
	if err != nil {
		return Plan{}, err
	}
	d := Decide(m.table, obj, f)
	if f.Position.State == "" {
		f.Position.State = m.table.Initial
	}
	p := f.Position
	plan := Plan{Machine: m.table.Name, Object: m.options.Objects.Subject(obj), State: p.State, Act: d.Act, Considered: d.Considered}
	starts := p
	switch d.Act {
	case Moves:
		to := d.Move.To
		plan.To, plan.Cause, plan.Why, plan.Params, plan.Cancel = to.State, d.Move.Cause, why(to), to.Params, to.Ending
		if d.Move.Cause == ByEvent {
			plan.Event = to.Event
		}
		starts = to
	case Start:
		plan.Why = fmt.Sprintf("flow %s does the work of %s", m.table.States[p.State].flow(p), p.State)
	case End:
		plan.Why, plan.Cancel = "a run of an earlier visit has to end first", p.Ending
	case Work:
		plan.Why = fmt.Sprintf("%s has work to do", p.State)
	default:
		plan.Why = d.Outcome.Message()
		if kind, ok := fault.Lookup(d.Outcome.Reason()); ok && d.Outcome.Reason() != "Done" {
			plan.Code, plan.Remedy = kind.Code, kind.Remedy
		}
		if d.Rejected != nil {
			plan.Why = fault.Message(d.Rejected)
			plan.Code, plan.Remedy = fault.Of(d.Rejected).Code, fault.Of(d.Rejected).Remedy
		}
		if d.Outcome.Reason() == LoopReason {
			plan.Code, plan.Remedy = EventLoops.Code, EventLoops.Remedy
		}
		if plan.Why == "" {
			plan.Why = "no event holds"
		}
		starts = Position{}
	}
	flow := m.table.States[starts.State].flow(starts)
	planner, able := m.options.Flows.(Planner)
	if flow == "" || starts.Run != "" || !able {
		return plan, nil
	}
	input := starts.Params
	if input == nil {
		input = json.RawMessage("{}")
	}
	fp, err := planner.Plan(flowOfKind(m.table.Kind, flow), input)
	if err != nil {
		return plan, err
	}
	plan.Flow = &fp
	return plan, nil
}

// flowOfKind returns the flow name for a Planner: kind/flow, or flow without a kind.
func flowOfKind(kind, flow string) string {
	if kind == "" {
		return flow
	}
	return kind + "/" + flow
}

func why(p Position) string {
	if p.Message != "" {
		return p.Message
	}
	return p.Reason
}
