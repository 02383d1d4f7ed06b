package view

import (
	"encoding/json"

	"github.com/pawl-dev/pawl/workflow"
)

// Flow is the JSON form of a loaded flow.
type Flow struct {
	Name        string          `json:"name"`
	Kind        string          `json:"kind,omitempty" doc:"kind of the subjects that it serves; absent: all"`
	Version     int             `json:"version"`
	Description string          `json:"description,omitempty"`
	Hash        string          `json:"hash" doc:"content hash: everything that decides what is executed"`
	Count       int             `json:"count" doc:"number of steps, including those in structures"`
	Deadline    string          `json:"deadline,omitempty"`
	OnDeadline  workflow.Then   `json:"onDeadline,omitempty"`
	OnChange    workflow.Change `json:"onChange,omitempty"`
	FromFirst   bool            `json:"recoverFromFirstStep,omitempty"`
	Input       json.RawMessage `json:"input,omitempty" doc:"JSON Schema of the input"`
	Steps       []FlowStep      `json:"steps,omitempty" doc:"absent in lists"`
	Finally     []FlowStep      `json:"finally,omitempty"`
}

// FlowStep is one step of a flow.
type FlowStep struct {
	Name        string     `json:"name"`
	Kind        string     `json:"kind" enum:"step,action,wait,flow,group,parallel,forEach,bracket"`
	Description string     `json:"description,omitempty"`
	Uses        string     `json:"uses,omitempty" doc:"the action, or the flow of a child run"`
	When        string     `json:"when,omitempty"`
	Undo        bool       `json:"undo,omitempty" doc:"it can be undone"`
	NoReturn    bool       `json:"noReturn,omitempty"`
	Skippable   bool       `json:"skippable,omitempty"`
	Timeout     string     `json:"timeout,omitempty"`
	Attempts    int        `json:"attempts,omitempty"`
	Wait        string     `json:"wait,omitempty" doc:"what it waits for"`
	ForEach     string     `json:"forEach,omitempty" doc:"the items of a loop, as the flow says"`
	AtOnce      int        `json:"atOnce,omitempty" doc:"how many of its steps, or of its items, run side by side"`
	Bracket     string     `json:"bracket,omitempty" enum:"open,close" doc:"which end of its bracket it is"`
	Steps       []FlowStep `json:"steps,omitempty"`
}

// Flows is the list of loaded flows.
type Flows struct {
	Items []Flow `json:"items"`
}

// OfFlow returns the JSON form of a flow with its steps.
func OfFlow(f workflow.Flow) (Flow, error) {
	hash, err := workflow.Hash(f)
	if err != nil {
		return Flow{}, err
	}
	v := Flow{
		Name: f.Name, Kind: f.Kind, Version: f.Version, Description: f.Description, Hash: hash, OnDeadline: f.OnDeadline, OnChange: f.OnChange,
		FromFirst: f.RecoverFromFirstStep, Steps: flowSteps(f.Steps), Finally: flowSteps(f.Finally),
	}
	if f.Deadline > 0 {
		v.Deadline = span(f.Deadline)
	}
	if f.Input != nil {
		if v.Input, err = f.Input.MarshalJSON(); err != nil {
			return Flow{}, err
		}
	}
	v.Count = count(v.Steps) + count(v.Finally)
	return v, nil
}

// Brief returns the flow without the fields that lists omit.
func (f Flow) Brief() Flow {
	f.Steps, f.Finally, f.Input = nil, nil, nil
	return f
}

func count(steps []FlowStep) int {
	n := len(steps)
	for _, s := range steps {
		n += count(s.Steps)
	}
	return n
}

func flowSteps(steps []workflow.Step) []FlowStep {
	var out []FlowStep
	for _, s := range steps {
		out = append(out, flowStep(s))
	}
	return out
}

func flowStep(s workflow.Step) FlowStep {
	v := FlowStep{
		Name: s.Name, Kind: kindOfStep(s), Description: s.Description, Uses: s.Uses + s.Flow, When: s.WhenText,
		Undo: s.Undo != nil || s.UndoCall != nil, NoReturn: s.NoReturn, Skippable: s.Skippable, Attempts: s.Retry.Attempts,
	}
	if s.Timeout > 0 {
		v.Timeout = span(s.Timeout)
	}
	if w := s.Wait; w != nil {
		v.Wait = waitText(*w)
	}
	switch {
	case s.ForEach != nil:
		v.ForEach, v.AtOnce = s.ForEach.ListText, max(s.ForEach.Max, 1)
	case s.Parallel > 0:
		v.AtOnce = min(s.Parallel, len(s.Steps))
	}
	if s.Open != nil {
		open := flowStep(*s.Open)
		open.Bracket = "open"
		v.Steps = append(v.Steps, open)
	}
	v.Steps = append(v.Steps, flowSteps(s.Steps)...)
	if s.Close != nil {
		closing := flowStep(*s.Close)
		closing.Bracket = "close"
		v.Steps = append(v.Steps, closing)
	}
	return v
}

func kindOfStep(s workflow.Step) string {
	switch {
	case s.Open != nil || s.Close != nil:
		return "bracket"
	case s.ForEach != nil:
		return "forEach"
	case s.Parallel > 0:
		return "parallel"
	case len(s.Steps) > 0:
		return "group"
	case s.Flow != "":
		return "flow"
	case s.Uses != "":
		return "action"
	case s.Do == nil && s.Wait != nil:
		return "wait"
	default:
		return "step"
	}
}

func waitText(w workflow.WaitFor) string {
	what := ""
	switch {
	case w.Signal != "":
		what = "signal " + w.Signal
	case w.ConditionText != "":
		what = "until " + w.ConditionText
	case w.Condition != nil:
		what = "a condition"
	case w.UntilText != "":
		what = "until " + w.UntilText
	case w.For > 0:
		what = "for " + span(w.For)
	}
	if w.Deadline > 0 {
		what = join(", ", what, "deadline "+span(w.Deadline))
	}
	return what
}

// Plan is the JSON form of the plan of a run.
type Plan struct {
	Flow  string     `json:"flow"`
	Hash  string     `json:"hash"`
	Steps []PlanStep `json:"steps"`
}

// PlanStep is one step of a plan.
type PlanStep struct {
	Name     string `json:"name"`
	Decision string `json:"verdict" doc:"run, skip, unknown (it depends on an output), once per item"`
	Why      string `json:"why,omitempty"`
}

// OfPlan returns the JSON form of a plan.
func OfPlan(p workflow.Plan) Plan {
	v := Plan{Flow: p.Flow, Hash: p.Hash, Steps: make([]PlanStep, len(p.Steps))}
	for i, s := range p.Steps {
		v.Steps[i] = PlanStep{Name: s.Name, Decision: s.Decision, Why: s.Why}
	}
	return v
}
