package view

import (
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// StepPage is the maximum number of steps in an answer. A run has up to 10,000, and
// loops multiply them.
const StepPage = 1000

// Steps is one page of the steps of a run.
type Steps struct {
	Items []Step `json:"items" doc:"in the order in which they were opened"`
	Next  string `json:"next,omitempty" doc:"cursor of the next page; absent: this is the last"`
}

// OfSteps returns a page of the steps of a run. It skips the first after steps; a limit of 0 or less is StepPage.
func OfSteps(r *runtype.Run, flow *workflow.Flow, after, limit int) Steps {
	if limit <= 0 {
		limit = StepPage
	}
	page := Steps{Items: make([]Step, 0, max(0, min(limit, r.Len()-after)))}
	defs := definitionsOf(r, flow)
	at := 0
	for s := range r.Steps() {
		if at++; at <= after {
			continue
		}
		if len(page.Items) == limit {
			page.Next = strconv.Itoa(at - 1)
			break
		}
		page.Items = append(page.Items, ofStep(s, defs))
	}
	return page
}

func definitionsOf(r *runtype.Run, flow *workflow.Flow) *definitions {
	if flow == nil || flow.Name != r.Flow {
		return nil
	}
	return &definitions{flow: flow}
}

// Newest returns the run with at most maxSteps steps: those opened last, and the current
// one. EarlierSteps counts the others.
func (r Run) Newest(maxSteps int) Run {
	rest := len(r.Steps) - maxSteps
	if rest <= 0 || maxSteps < 1 {
		return r
	}
	kept := r.Steps[rest:]
	if at := slices.IndexFunc(r.Steps[:rest], func(s Step) bool { return s.Name == r.Step }); at >= 0 {
		kept = append([]Step{r.Steps[at]}, kept[1:]...)
	}
	r.Steps, r.EarlierSteps = kept, r.EarlierSteps+rest
	return r
}

// StepStates has the states of all steps of a run.
type StepStates struct {
	Items []StepState `json:"items" doc:"in the order in which their paths were opened first"`
}

// StepState counts the steps of one path of the flow that have one phase.
type StepState struct {
	Path  string            `json:"path" doc:"path in the flow: that of Replace[ro-2]/Create is Replace/Create"`
	Phase runtype.StepPhase `json:"phase" enum:"Running,Retrying,Waiting,Failed,Done,Skipped,Pending,Undone"`
	Count int               `json:"count"`
	Name  string            `json:"name,omitempty" doc:"instance name of the first of them; absent: it is the path"`
}

// OfStepStates returns the states of the steps of a run, those of a loop counted together.
func OfStepStates(r *runtype.Run) StepStates {
	type key struct {
		path  string
		phase runtype.StepPhase
	}
	states := StepStates{Items: []StepState{}}
	known := make(map[key]int, r.Len())
	for s := range r.Steps() {
		k := key{withoutKeys(s.Name), s.Phase}
		i, ok := known[k]
		if !ok {
			i = len(states.Items)
			known[k] = i
			one := StepState{Path: k.path, Phase: k.phase}
			if s.Name != k.path {
				one.Name = s.Name
			}
			states.Items = append(states.Items, one)
		}
		states.Items[i].Count++
	}
	return states
}
