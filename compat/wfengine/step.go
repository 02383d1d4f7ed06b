package wfengine

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-logr/logr"

	"github.com/pawl-dev/pawl/compat/define"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/flowfile/classic"
)

// StepAction is what a step does: Init with the context of the flow, DoStep,
// then Output for the steps behind it. Each attempt works on a new value of the
// type that was registered.
//
// The context holds what Run was given, and what the steps before have put out;
// the later one wins. Numbers in it are int64 or float64, and what went in as a
// struct is a map: values look the same before and after a restart.
type StepAction interface {
	Init(map[string]interface{}, logr.Logger) error
	DoStep(context.Context, logr.Logger) error
	Output(logr.Logger) map[string]interface{}
}

// className is the name by which flow files refer to a type: its package and its own.
func className(of reflect.Type) string { return strings.ReplaceAll(of.String(), "*", "") }

// RegisterSteps registers several steps.
func (m *WfManager) RegisterSteps(steps ...StepAction) {
	for _, step := range steps {
		m.RegisterStep(step)
	}
}

// RegisterStep makes the type of a step known to flow files, as package.Type.
// It panics when two types share that name: one would be executed in place of
// the other.
func (m *WfManager) RegisterStep(step StepAction) {
	if m == nil {
		return
	}
	of := reflect.TypeOf(step)
	name := className(of)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.TypeRegistry == nil {
		m.TypeRegistry = map[string]reflect.Type{}
	}
	if other, ok := m.TypeRegistry[name]; ok && other != of {
		panic(fmt.Sprintf("wfengine: two types of steps are named %s: %s and %s; rename a package or a type", name, path(other), path(of)))
	}
	m.TypeRegistry[name] = of
}

func path(of reflect.Type) string {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	return of.PkgPath() + "." + of.Name()
}

// fresh makes a new value of a registered type.
func (m *WfManager) fresh(class string) classic.Step {
	m.mu.Lock()
	of, known := m.TypeRegistry[class]
	m.mu.Unlock()
	if !known {
		return unknown(class)
	}
	if of.Kind() != reflect.Pointer {
		return reflect.New(of).Elem().Interface().(StepAction)
	}
	return reflect.New(of.Elem()).Interface().(StepAction)
}

// unknown stands in for a type that nobody has registered.
type unknown string

func (u unknown) Init(map[string]interface{}, logr.Logger) error {
	return define.NewInterruptError(string(UnknownTask.Code), fmt.Sprintf("no step of type %s is registered", string(u)))
}
func (u unknown) DoStep(context.Context, logr.Logger) error { return nil }
func (u unknown) Output(logr.Logger) map[string]interface{} { return nil }

// action is the type of a step as Pawl's engine calls it.
func (m *WfManager) action(class string) workflow.Action {
	adapted := classic.Adapt(class, func() classic.Step { return m.fresh(class) }, classic.Options{Outcome: outcomeOf})
	do := adapted.Do
	adapted.Do = func(ctx context.Context, t *workflow.Task) outcome.Outcome {
		for more := true; more; { // the run goes on: nobody asks any more whether its resource was marked
			_, more = t.Signal(shownSignal)
		}
		s := m.session(t.RunID())
		if s == nil {
			return do(ctx, t)
		}
		out := do(within{ctx, s.ctx}, t)
		s.note(t, out)
		return out
	}
	return adapted
}

// within is the context of an attempt, which also gives the values of the
// context its caller came with.
type within struct {
	context.Context
	caller context.Context
}

func (w within) Value(key any) any {
	if v := w.Context.Value(key); v != nil {
		return v
	}
	return w.caller.Value(key)
}
