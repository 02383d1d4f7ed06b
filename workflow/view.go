package workflow

import (
	"encoding/json"
	"strings"
)

// View is what expressions, predicates and steps may read of a run. It is a
// value bound to one step instance: names of steps are looked up from the
// innermost group or loop outward, so a body reads its own siblings first.
type View struct {
	source viewSource
	scope  string // path of the structure the step stands in; "" at the top
}

// world is where a View reads: a run under way, or facts given by a test.
type viewSource interface {
	info() RunInfo
	input() json.RawMessage
	lookup(instance string) (StepView, bool)
	item(scope, as string) (json.RawMessage, bool)
	params(scope string) (json.RawMessage, error)
	object() (json.RawMessage, error)
}

// RunInfo is what a run says of itself.
type RunInfo struct {
	ID, Flow, Subject, Reason string
	Version                   int
	Labels                    map[string]string
}

// StepView is what is known of a step that was reached.
type StepView struct {
	Phase  StepPhase
	Output json.RawMessage // nil: none was set
}

// Run tells which run it is.
func (v View) Run() RunInfo { return v.source.info() }

// Input is the run's input as it was encoded.
func (v View) Input() json.RawMessage { return v.source.input() }

// Step finds a step by the name it has in the flow, or by its instance name.
func (v View) Step(name string) (StepView, bool) {
	for scope := v.scope; ; scope = parent(scope) {
		if s, ok := v.source.lookup(join(scope, name)); ok {
			return s, true
		}
		if scope == "" {
			return StepView{}, false
		}
	}
}

// Item is the value of an enclosing loop's item, by its name ("item" if the loop names none).
func (v View) Item(as string) (json.RawMessage, bool) { return v.source.item(v.scope, as) }

// Params is the parameters of the enclosing group, {} outside of any.
func (v View) Params() (json.RawMessage, error) { return v.source.params(v.scope) }

// Object is the subject as Options.Object gives it, null without one. Only
// conditions of waits may read it: it is not part of the checkpoint.
func (v View) Object() (json.RawMessage, error) { return v.source.object() }

// Scope is the instance path of the structure the step stands in.
func (v View) Scope() string { return v.scope }

func join(scope, name string) string {
	if scope == "" {
		return name
	}
	return scope + "/" + name
}

// parent cuts the last part of an instance path, and first the key of a loop:
// A/B[k] is within A/B, which is within A.
func parent(path string) string {
	if strings.HasSuffix(path, "]") {
		return path[:strings.LastIndexByte(path, '[')]
	}
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return ""
}
