package flowfile

import (
	"encoding/json"
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// variables provides only the values that a program reads. So an expression that reads one step
// costs the same in a small and in a large flow.
type variables struct {
	view  workflow.View
	err   error
	known map[string]ref.Val
}

// Parent implements cel.Activation.
func (v *variables) Parent() cel.Activation { return nil }

// ResolveName implements cel.Activation.
func (v *variables) ResolveName(name string) (any, bool) {
	if value, ok := v.known[name]; ok {
		return value, true
	}
	var value ref.Val
	switch name {
	case "input":
		value = v.decoded(v.view.Input(), "input")
	case "params":
		params, err := v.view.Params()
		if err != nil {
			return v.fail(fmt.Errorf("params: %w", err))
		}
		value = v.decoded(params, "params")
	case "object":
		object, err := v.view.Object()
		if err != nil {
			return v.fail(fmt.Errorf("object: %w", err))
		}
		value = v.decoded(object, "object")
	case "run":
		run := v.view.Run()
		value = types.DefaultTypeAdapter.NativeToValue(map[string]string{
			"id": run.ID, "flow": run.Flow, "subject": run.Subject, "reason": run.Reason})
	case "steps":
		value = stepsMap{Mapper: emptyMap, vars: v}
	default:
		item, ok := v.view.Item(name)
		if !ok {
			return nil, false
		}
		value = v.decoded(item, name)
	}
	if v.err != nil {
		return nil, false
	}
	if v.known == nil {
		v.known = map[string]ref.Val{}
	}
	v.known[name] = value
	return value, true
}

func (v *variables) fail(err error) (any, bool) {
	if v.err == nil {
		v.err = err
	}
	return nil, false
}

func (v *variables) decoded(data json.RawMessage, what string) ref.Val {
	if len(data) == 0 || string(data) == "null" && what != "object" {
		if what == "input" || what == "params" {
			return emptyMap
		}
		return types.NullValue
	}
	value, err := runtype.Decode(data)
	if err != nil {
		v.fail(fmt.Errorf("%s: %w", what, err))
		return types.NullValue
	}
	return types.DefaultTypeAdapter.NativeToValue(value)
}

var emptyMap = types.NewStringInterfaceMap(types.DefaultTypeAdapter, map[string]any{})

// stepsMap looks up a step on access. A step that the run has not reached is Pending and has no
// output.
type stepsMap struct {
	traits.Mapper
	vars *variables
}

// CannotBeStored implements plain.Refused.
func (m stepsMap) CannotBeStored() error {
	return fmt.Errorf("steps itself is not a value: name the step, as in steps.Create.output")
}

// Find implements traits.Mapper.
func (m stepsMap) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.Value().(string)
	if !ok {
		return types.NewErr("the name of a step is a string"), false
	}
	step, ok := m.vars.view.Step(name)
	entry := map[string]any{"phase": string(runtype.StepPending)}
	if ok {
		entry["phase"] = string(step.Phase)
		if step.Output != nil {
			entry["output"] = m.vars.decoded(step.Output, "output of "+name)
		}
	}
	return types.DefaultTypeAdapter.NativeToValue(entry), true
}

// Get implements traits.Indexer.
func (m stepsMap) Get(key ref.Val) ref.Val {
	value, _ := m.Find(key)
	return value
}

// Contains implements traits.Container: it reports whether the run has reached the step.
func (m stepsMap) Contains(key ref.Val) ref.Val {
	name, _ := key.Value().(string)
	_, ok := m.vars.view.Step(name)
	return types.Bool(ok)
}
