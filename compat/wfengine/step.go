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

// StepAction is a step. The engine calls Init with the context of the flow, DoStep, and then
// Output for the later steps. Each attempt uses a new value of the registered type.
//
// The context has what Run got and the outputs of the earlier steps; a later value wins. Numbers
// in it are int64 or float64, and structs have become maps, so that values look the same before
// and after a restart.
type StepAction interface {
	Init(map[string]interface{}, logr.Logger) error
	DoStep(context.Context, logr.Logger) error
	Output(logr.Logger) map[string]interface{}
}

// className returns the name by which flow files refer to a type: its package and its own name.
func className(of reflect.Type) string { return strings.ReplaceAll(of.String(), "*", "") }

// RegisterSteps registers several steps.
func (m *WfManager) RegisterSteps(steps ...StepAction) {
	for _, step := range steps {
		m.RegisterStep(step)
	}
}

// RegisterStep makes the type of a step known to flow files, as package.Type. It panics when two
// types share that name, because one would run in place of the other.
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

// fresh returns a new value of a registered type.
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

// unknown stands for a type that is not registered.
type unknown string

func (u unknown) Init(map[string]interface{}, logr.Logger) error {
	return define.NewInterruptError(string(UnknownTask.Code), fmt.Sprintf("no step of type %s is registered", string(u)))
}
func (u unknown) DoStep(context.Context, logr.Logger) error { return nil }
func (u unknown) Output(logr.Logger) map[string]interface{} { return nil }

// action returns the action of a step type for Pawl's engine.
func (m *WfManager) action(class string) workflow.Action {
	adapted := classic.Adapt(class, func() classic.Step { return m.fresh(class) }, classic.Options{Outcome: outcomeOf})
	do := adapted.Do
	adapted.Do = func(ctx context.Context, t *workflow.Task) outcome.Outcome {
		for more := true; more; { // the run is at work again, so the mark of its resource does not matter any more
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

// within is the context of an attempt with the values of the caller's context.
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
