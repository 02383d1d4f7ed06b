package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/library"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/rollout"
	judgement "github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// hookFlows are the flows of files, which hooks of Rollouts name.
type hookFlows struct {
	actions []workflow.Action
	library library.Library
	engine  *workflow.Engine
}

// loadHookFlows reads the files. Without files it returns nil.
func loadHookFlows(o Options) (*hookFlows, error) {
	if len(o.Flows) == 0 {
		return nil, nil //nolint:nilnil // documented
	}
	h := &hookFlows{}
	var err error
	if h.actions, err = action.Standard(action.Options{Only: o.Actions, HTTPAllow: o.HTTPAllow, StateDir: backend.StateDir()}); err != nil {
		return nil, runtype.InputInvalid.Errorf("--actions: %w", err)
	}
	if h.library, err = library.Load(o.Flows, nil, flowfile.Options{Actions: h.actions}); err != nil {
		return nil, err
	}
	for _, w := range h.library.Warnings {
		o.Log.Warn(w.String())
	}
	return h, nil
}

// complete adds the actions, secrets and definitions of the files to the options of an engine, whose
// own compiler is used for its own definitions.
func (h *hookFlows) complete(o *workflow.Options, own func(source []byte) (workflow.Flow, error)) {
	if h == nil {
		return
	}
	o.Actions = append(o.Actions, h.actions...)
	o.Compile = func(source []byte) (workflow.Flow, error) {
		if f, err := own(source); err == nil {
			return f, nil
		}
		return flowfile.FromSource(source, flowfile.Options{Actions: h.actions})
	}
}

// bind loads the flows into the engine, beside those that it has.
func (h *hookFlows) bind(engine *workflow.Engine) error {
	if h == nil {
		return nil
	}
	h.engine = engine
	healers := maps.Clone(h.library.Healers)
	if healers == nil {
		healers = map[fault.Code]workflow.Healer{}
	}
	maps.Copy(healers, engine.Healers())
	return engine.LoadAll(append(engine.Flows(), h.library.Flows...), healers)
}

// Check implements rollout.Flows.
func (h *hookFlows) Check(flow string, input map[string]any) error {
	known := false
	for _, f := range h.library.Flows {
		known = known || f.Name == flow
	}
	if !known {
		return workflow.FlowUnknown.Errorf("there is no flow %q in the files of --flows", flow)
	}
	text, err := encode(input)
	if err != nil {
		return err
	}
	return h.engine.CheckInput(flow, rollout.Kind+"/", text)
}

// Run implements rollout.Flows.
func (h *hookFlows) Run(ctx context.Context, r rollout.FlowRun) (a judgement.Answer, ended func(context.Context) error, err error) {
	input, err := encode(r.Input)
	if err != nil {
		return a, nil, err
	}
	run, err := h.engine.Start(ctx, workflow.Request{
		Flow: r.Flow, Subject: strings.Join([]string{rollout.Kind, r.Rollout.Namespace, r.Rollout.Name, r.UID}, "/"), RequestID: r.Key, Input: input,
		Actor: workflow.Actor{Name: "rollout", Reason: "hook"},
	})
	if err != nil {
		return a, nil, err
	}
	if a = answerOf(run); a.Run == "" {
		ended = func(ctx context.Context) error {
			_, err := h.engine.Await(ctx, run.ID)
			return err
		}
	}
	return a, ended, nil
}

// answerOf is where a run is, as hooks are judged by it.
func answerOf(run *runtype.Run) judgement.Answer {
	a := judgement.Answer{}
	switch {
	case run.Phase == runtype.Paused || run.Phase.Final():
		a.Run = string(run.Phase)
	default:
		return a
	}
	if f := run.Fault; f != nil {
		a.Code = f.Code
		a.Message = fmt.Sprintf("%s; run %s", f.Message, run.ID)
		if remedy := f.Kind().Remedy; remedy != "" {
			a.Message += ": " + remedy
		}
	} else if a.Run != string(runtype.Succeeded) {
		a.Message = "run " + run.ID
	}
	return a
}

func encode(input map[string]any) (json.RawMessage, error) {
	if input == nil {
		return nil, nil
	}
	text, err := json.Marshal(input)
	if err != nil {
		return nil, runtype.InputInvalid.Errorf("the input: %w", err)
	}
	return text, nil
}
