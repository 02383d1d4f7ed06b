package workflowtest

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

// Func takes the place of the function of a step or of an action. try counts the executions of the
// step from 1: a retry is a further try, and so is the execution after a resume. A try that a crash
// has cut short is repeated under its number, and so are the polls of a wait. [Real] calls what is
// replaced.
type Func func(ctx context.Context, t *workflow.Task, try int) outcome.Outcome

// replacements decides what is executed in the place of a function, and notes what was done.
type replacements struct {
	mu      sync.Mutex
	steps   map[string]Func     // by step: an instance name, or one without the items of loops
	actions map[string]Func     // by action
	tries   map[string][]string // by run and step: the tries, each by its round and failures
	done    map[string]bool     // effects that were done
	with    map[string]json.RawMessage
	calls   int // since the last save
	limit   int
	tired   func() // called once when calls exceeds limit
}

func newReplacements(limit int) *replacements {
	return &replacements{
		steps: map[string]Func{}, actions: map[string]Func{}, tries: map[string][]string{}, done: map[string]bool{},
		with: map[string]json.RawMessage{}, limit: limit,
	}
}

// undoSuffix marks the undo of a step, as in Task.Key.
const undoSuffix = "/undo"

var items = regexp.MustCompile(`\[[^\]]*\]`)

// nameOf is the name under which the work of a task is replaced.
func nameOf(t *workflow.Task) string {
	if t.Undoing() {
		return t.Step() + undoSuffix
	}
	return t.Step()
}

// find returns what replaces a task's function, and the number of the try.
func (r *replacements) find(t *workflow.Task, action string) (Func, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := nameOf(t)
	try := r.try(t, name)
	for _, f := range []Func{r.steps[name], r.steps[items.ReplaceAllString(name, "")], r.actions[action]} {
		if f != nil {
			return f, try
		}
	}
	return nil, try
}

func (r *replacements) try(t *workflow.Task, name string) int {
	step, this := t.RunID()+"/"+name, fmt.Sprintf("%s#%d", t.Key(), t.Failures())
	i := slices.Index(r.tries[step], this)
	if i < 0 {
		i = len(r.tries[step])
		r.tries[step] = append(r.tries[step], this)
	}
	return i + 1
}

func (r *replacements) called(t *workflow.Task) {
	var with json.RawMessage
	read := t.With(&with) == nil && len(with) > 0
	r.mu.Lock()
	if read {
		r.with[t.RunID()+"/"+nameOf(t)] = slices.Clone(with)
	}
	r.mu.Unlock()
	r.count()
}

func (r *replacements) count() {
	r.mu.Lock()
	r.calls++
	tired := r.calls == r.limit
	r.mu.Unlock()
	if tired && r.tired != nil {
		r.tired()
	}
}

func (r *replacements) saved() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = 0
}

func (r *replacements) exhausted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls >= r.limit
}

// effect is the idempotency key without the round: a crash in the middle of a bracket opens it again.
func (r *replacements) effect(t *workflow.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done[nameOf(t)] = true
}

// wrap puts the replacements in front of a function.
func (r *replacements) wrap(action string, do workflow.Func) workflow.Func {
	if do == nil {
		return nil
	}
	return func(ctx context.Context, t *workflow.Task) outcome.Outcome {
		r.called(t)
		var got outcome.Outcome
		if f, try := r.find(t, action); f != nil {
			ctx = context.WithValue(ctx, realKey{}, do)
			got = f(ctx, t, try)
		} else {
			got = do(ctx, t)
		}
		if got.IsDone() {
			r.effect(t)
		}
		return got
	}
}

type realKey struct{}

// Real calls the function that a [Func] replaces.
func Real(ctx context.Context, t *workflow.Task) outcome.Outcome {
	do, ok := ctx.Value(realKey{}).(workflow.Func)
	if !ok {
		return outcome.Fail(fmt.Errorf("workflowtest: %s is not replaced", t.Step()))
	}
	return do(ctx, t)
}

// flows returns copies of flows whose functions are wrapped.
func (r *replacements) flows(flows []workflow.Flow) []workflow.Flow {
	out := slices.Clone(flows)
	for i := range out {
		out[i].Steps, out[i].Finally = r.wrapSteps(out[i].Steps), r.wrapSteps(out[i].Finally)
	}
	return out
}

func (r *replacements) wrapSteps(steps []workflow.Step) []workflow.Step {
	out := slices.Clone(steps)
	for i := range out {
		s := &out[i]
		s.Do, s.Undo = r.wrap("", s.Do), r.wrap("", s.Undo)
		s.Steps = r.wrapSteps(s.Steps)
		for _, end := range []**workflow.Step{&s.Open, &s.Close} {
			if *end != nil {
				*end = &r.wrapSteps([]workflow.Step{**end})[0]
			}
		}
	}
	return out
}

func (r *replacements) wrapActions(actions []workflow.Action) []workflow.Action {
	out := slices.Clone(actions)
	for i := range out {
		out[i].Do = r.wrap(out[i].Name, out[i].Do)
	}
	return out
}

// StepNames returns the names of the steps of a flow that execute a function, without the items of
// loops: Volume, Replace/Create, Volume/undo. A step inside of a group or a bracket has the name of
// that before its own.
func StepNames(flow workflow.Flow) []string {
	var names []string
	var visit func(prefix string, steps []workflow.Step)
	visit = func(prefix string, steps []workflow.Step) {
		for _, s := range steps {
			name := prefix + s.Name
			if s.Do != nil || s.Uses != "" {
				names = append(names, name)
			}
			if s.Undo != nil || s.UndoCall != nil {
				names = append(names, name+undoSuffix)
			}
			visit(name+"/", s.Steps)
			for _, end := range []*workflow.Step{s.Open, s.Close} {
				if end != nil {
					visit(name+"/", []workflow.Step{*end})
				}
			}
		}
	}
	visit("", flow.Steps)
	visit("", flow.Finally)
	return names
}

// WithoutItems returns the name of a step without the items of loops.
func WithoutItems(name string) string { return items.ReplaceAllString(name, "") }

// similar returns names that hold the last part of a name, for messages.
func similar(name string, names []string) string {
	last := strings.ToLower(name[strings.LastIndexByte(name, '/')+1:])
	for _, n := range names {
		if strings.Contains(strings.ToLower(n), last) {
			return "; there is " + n
		}
	}
	return "; there are " + strings.Join(names, ", ")
}
