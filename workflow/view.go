package workflow

import (
	"encoding/json"
	"strings"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

// View gives expressions, predicates and steps read access to a run. It is bound to one step
// instance. Names of steps are looked up from the innermost group or loop outward, so a body reads
// its own siblings first.
type View struct {
	source viewSource
	scope  string // path of the structure that contains the step; "" at the top
}

// viewSource is the data behind a View: a run that is executed, or the facts of a test.
type viewSource interface {
	info() RunInfo
	input() json.RawMessage
	lookup(instance string) (StepView, bool)
	item(scope, as string) (json.RawMessage, bool)
	params(scope string) (json.RawMessage, error)
	object() (json.RawMessage, error)
}

// RunInfo is a summary of a run.
type RunInfo struct {
	ID, Flow, Subject, Reason string
	Version                   int
	Labels                    map[string]string
}

// StepView is the state of a step that the run has reached.
type StepView struct {
	Phase  runtype.StepPhase
	Output json.RawMessage // nil: none was set
}

// Run returns a summary of the run.
func (v View) Run() RunInfo { return v.source.info() }

// Input is the encoded input of the run.
func (v View) Input() json.RawMessage { return v.source.input() }

// Step returns a step by its name in the flow or by its instance name.
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

// Item returns the item of an enclosing loop by its name ("item" if the loop defines no name).
func (v View) Item(as string) (json.RawMessage, bool) { return v.source.item(v.scope, as) }

// Params returns the parameters of the enclosing group, or {} outside of groups.
func (v View) Params() (json.RawMessage, error) { return v.source.params(v.scope) }

// Object returns the subject as Options.Object reads it, or null if that option is not set. Only
// conditions of waits may use it: it is not part of the checkpoint.
func (v View) Object() (json.RawMessage, error) { return v.source.object() }

// Scope is the instance path of the structure that contains the step.
func (v View) Scope() string { return v.scope }

func join(scope, name string) string {
	if scope == "" {
		return name
	}
	return scope + "/" + name
}

// parent removes the last part of an instance path, or the key of a loop: A/B[k] is within A/B,
// which is within A.
func parent(path string) string {
	if strings.HasSuffix(path, "]") {
		return path[:strings.LastIndexByte(path, '[')]
	}
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return ""
}
