// Package classic runs steps of the PolarDB Stack engine unchanged and imports its runs.
//
//	workflow.Options{Actions: []workflow.Action{
//		classic.Adapt("workflow_shared.InitMeta", func() classic.Step { return &InitMeta{} }, classic.Options{}),
//	}}
//
//	imported, err := classic.Import(configMap, classic.ImportOptions{Subject: "demo/default/c1", Flows: set.Flows()})
//	counts, err := imported.Write(ctx, store)
//
// Its flow files do not need this package: flowfile reads them unchanged.
package classic

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/go-logr/logr"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Step is a step of that engine. The calls are Init with the context of the run, DoStep, and Output
// for the later steps.
type Step interface {
	Init(map[string]interface{}, logr.Logger) error
	DoStep(context.Context, logr.Logger) error
	Output(logr.Logger) map[string]interface{}
}

// Keys of the map for Init, besides the input and the outputs.
const (
	ResourceName      = "_resourceName"
	ResourceNamespace = "_resourceNameSpace"
)

// Options of Adapt. The zero value is usable.
type Options struct {
	// Outcome converts an error of Init or DoStep, for steps that use special errors to wait or to
	// stop. Default: outcome.Fail.
	Outcome func(error) outcome.Outcome
}

// Adapt converts a step to an action. Each attempt uses a new value of the step. The map for Init
// contains the input of the run, the outputs of all steps (a later one overrides an earlier one),
// and name and namespace of the subject. Whole numbers are int64, other numbers float64, even
// within one process.
func Adapt(name string, fresh func() Step, o Options) workflow.Action {
	if o.Outcome == nil {
		o.Outcome = outcome.Fail
	}
	do := func(ctx context.Context, t *workflow.Task) outcome.Outcome {
		values, err := gather(t)
		if err != nil {
			return outcome.Fail(err)
		}
		log := logr.FromSlogHandler(t.Logger().Handler())
		step := fresh()
		if err := step.Init(values, log); err != nil {
			return o.Outcome(err)
		}
		if err := step.DoStep(ctx, log); err != nil {
			return o.Outcome(err)
		}
		if output := step.Output(log); output != nil {
			if err := t.Set(output); err != nil {
				return outcome.Fail(err)
			}
		}
		return outcome.Done()
	}
	return workflow.Action{Name: name, Description: "a step written for the PolarDB Stack engine", Do: do}
}

// gather returns the map for Init.
func gather(t *workflow.Task) (map[string]interface{}, error) {
	values := map[string]interface{}{}
	var input any
	if err := t.Input(&input); err != nil {
		return nil, err
	}
	switch input := input.(type) {
	case nil:
	case map[string]any:
		maps.Copy(values, input)
	default:
		return nil, runtype.InputInvalid.Errorf("the input is no object, but the step reads its values by name")
	}
	for name, raw := range t.Outputs() {
		output, err := runtype.Decode(raw)
		if err != nil {
			return nil, fmt.Errorf("output of %s: %w", name, err)
		}
		if object, ok := output.(map[string]any); ok { // only an object has named values
			maps.Copy(values, object)
		}
	}
	values[ResourceName], values[ResourceNamespace] = resource(t.Subject())
	return values, nil
}

// resource returns name and namespace of kind/namespace/name[/uid].
func resource(subject string) (name, namespace string) {
	parts := strings.Split(subject, "/")
	if len(parts) < 3 {
		return subject, ""
	}
	return parts[2], parts[1]
}

// object reports whether raw JSON is an object.
func object(raw json.RawMessage) bool {
	return len(raw) > 0 && strings.HasPrefix(strings.TrimSpace(string(raw)), "{")
}
