package wfengine

import (
	"context"

	"github.com/go-logr/logr"

	"github.com/pawl-dev/pawl/compat/define"
)

// WfHook gets the events of a flow in their order:
//
//	OnWfInit, then for each attempt of a step OnStepInit and OnStepWaiting or
//	OnStepCompleted (also of one that failed), then OnWfCompleted or OnWfInterrupt
//
// Each call that starts or continues the flow calls OnWfInit. The others report what has been
// saved. A hook cannot fail, delay or change a flow: its errors and panics are logged. The call
// that works on the flow returns when the hook has got all events, or has made no progress for
// five seconds.
type WfHook interface {
	OnWfInit() error
	OnWfCompleted() error
	OnWfInterrupt(*define.InterruptError) error
	OnStepInit(step *StepRuntime) error
	OnStepWaiting(step *StepRuntime) error
	OnStepCompleted(step *StepRuntime) error
}

// CreateHookFunc returns the hook of a flow, before the flow is stored. Its error is returned by
// the call.
type CreateHookFunc func(wfRuntime *WfRuntime) (WfHook, error)

// DefaultWorkflowHook writes a log line for each event. The history is in the store: see pawl
// history.
type DefaultWorkflowHook struct {
	flow   *WfRuntime
	logger logr.Logger
}

// CreateDefaultWorkflowHook returns the default hook.
func CreateDefaultWorkflowHook(wfRuntime *WfRuntime) (WfHook, error) {
	logger := wfRuntime.Logger.WithName("history").WithValues("flow", wfRuntime.FlowName)
	return &DefaultWorkflowHook{wfRuntime, logger}, nil
}

func (h *DefaultWorkflowHook) announce(what string, step *StepRuntime) error {
	logger := h.logger.WithValues("status", h.flow.FlowStatus)
	if step != nil {
		logger = logger.WithValues("step", step.StepName, "stepStatus", step.StepStatus, "retryTimes", step.RetryTimes)
	}
	if h.flow.ErrorMessage != "" {
		logger = logger.WithValues("error", h.flow.ErrorMessage)
	}
	logger.WithValues("run", h.flow.RunID).Info(what)
	return nil
}

// OnWfInit logs that a flow starts or continues, unless it waits.
func (h *DefaultWorkflowHook) OnWfInit() error {
	if h.flow.FlowStatus == FlowStatusWaiting {
		return nil
	}
	return h.announce("WorkFlowStart", nil)
}

// OnWfCompleted logs that a flow has ended.
func (h *DefaultWorkflowHook) OnWfCompleted() error { return h.announce("WorkFlowCompleted", nil) }

// OnWfInterrupt logs that a flow was interrupted.
func (h *DefaultWorkflowHook) OnWfInterrupt(err *define.InterruptError) error {
	h.logger = h.logger.WithValues("reason", err.Reason)
	return h.announce("WorkFlowInterrupt", nil)
}

// OnStepInit logs that an attempt starts.
func (h *DefaultWorkflowHook) OnStepInit(step *StepRuntime) error {
	return h.announce("StepInited", step)
}

// OnStepWaiting logs that a step waits.
func (h *DefaultWorkflowHook) OnStepWaiting(step *StepRuntime) error {
	return h.announce("StepWaiting", step)
}

// OnStepCompleted logs that an attempt has ended.
func (h *DefaultWorkflowHook) OnStepCompleted(step *StepRuntime) error {
	if step.StepStatus == StepStatusFailed {
		return h.announce("StepError", step)
	}
	return h.announce("StepCompleted", step)
}

// announcer reports a flow to the cluster, besides the hook.
type announcer interface {
	announce(ctx context.Context, warning bool, reason, message string)
}
