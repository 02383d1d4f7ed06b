package wfengine

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// FlowStatusType is the status of a flow.
type FlowStatusType string

// The values of WfRuntime.FlowStatus.
const (
	FlowStatusPrepared        FlowStatusType = "prepared"
	FlowStatusRunning         FlowStatusType = "running"
	FlowStatusFailed          FlowStatusType = "failed" // a step will be retried later
	FlowStatusWaiting         FlowStatusType = "waiting"
	FlowStatusFailedCompleted FlowStatusType = "failedAndCompleted" // interrupted
	FlowStatusCompleted       FlowStatusType = "completed"
)

// StepStatusType is the status of a step.
type StepStatusType string

// The values of StepRuntime.StepStatus.
const (
	StepStatusPrepared  StepStatusType = "prepared"
	StepStatusInited    StepStatusType = "inited"
	StepStatusFailed    StepStatusType = "failed"
	StepStatusCompleted StepStatusType = "completed"
	StepStatusWaiting   StepStatusType = "waiting"
)

// Formats of times in the records.
const (
	timeForm      = "2006-01-02 15:04:05"
	startTimeForm = "2006-01-02 15:04:05.000"
)

// WfRuntime is the view of a flow for hooks. Changing it has no effect. Only the calls of the hook
// may read it without a lock.
type WfRuntime struct {
	FlowStatus       FlowStatusType         `json:"flowStatus,omitempty"`
	RetryTimes       int                    `json:"retryTimes,omitempty"` // failures of all steps that were followed by another attempt
	FlowName         string                 `json:"flowName,omitempty"`
	IgnoreError      bool                   `json:"ignoreError,omitempty"`
	StartTime        string                 `json:"startTime,omitempty"`
	CompleteTime     string                 `json:"completeTime,omitempty"`
	ErrorMessage     string                 `json:"errorMessage,omitempty"`
	InitContext      map[string]interface{} `json:"initContext,omitempty"`
	RunningSteps     []*StepRuntime         `json:"runningSteps,omitempty"`
	FlowHookIns      WfHook                 `json:"-"`
	ResourceWorkflow *ResourceWorkflow      `json:"-"`
	Logger           logr.Logger            `json:"-"`
	RunID            string                 `json:"-"` // id of the run for pawl describe; empty before it is stored
}

// StepRuntime is a step of a running flow.
type StepRuntime struct {
	StepName             string                 `json:"StepName,omitempty"`
	StepStatus           StepStatusType         `json:"stepStatus,omitempty"`
	StepStartTime        string                 `json:"stepStartTime,omitempty"`
	LastStepCompleteTime string                 `json:"lastStepCompleteTime,omitempty"`
	ContextOutput        map[string]interface{} `json:"contextOutput,omitempty"`
	RetryTimes           int                    `json:"retryTimes,omitempty"`

	instance string
}

// statusOf translates the phase of a run.
func statusOf(run *runtype.Run) FlowStatusType {
	switch run.Phase {
	case runtype.Succeeded, runtype.Cancelled:
		return FlowStatusCompleted
	case runtype.Paused:
		return FlowStatusFailedCompleted
	case runtype.Waiting:
		return FlowStatusWaiting
	case runtype.Queued:
		return FlowStatusPrepared
	}
	if cur := run.Current(); cur != nil && cur.Phase == runtype.StepRetrying {
		return FlowStatusFailed
	}
	if run.Len() == 0 {
		return FlowStatusPrepared
	}
	return FlowStatusRunning
}

// viewOf returns the view of a run. flow is nil if the flow is no longer loaded.
func viewOf(run *runtype.Run, flow *workflow.Flow) *WfRuntime {
	view := &WfRuntime{FlowStatus: statusOf(run), FlowName: run.Flow, StartTime: run.CreatedAt.Local().Format(startTimeForm), RunID: run.ID}
	_ = json.Unmarshal(run.Input, &view.InitContext) // an input that is not an object has no items
	if !run.EndedAt.IsZero() {
		view.CompleteTime = run.EndedAt.Local().Format(timeForm)
	}
	if flow != nil {
		view.RunningSteps = stepsOf(flow)
	}
	for rec := range run.Steps() {
		if rec.Phase == runtype.StepEntered || len(rec.Items) > 0 {
			continue
		}
		step := view.step(rec.Name)
		step.RetryTimes = max(rec.Attempt-1, 0)
		view.RetryTimes += step.RetryTimes
		step.StepStartTime = formatted(rec.StartedAt)
		step.LastStepCompleteTime = formatted(rec.EndedAt)
		_ = json.Unmarshal(rec.Output, &step.ContextOutput)
		switch rec.Phase {
		case runtype.StepDone, runtype.StepSkipped:
			step.StepStatus = StepStatusCompleted
		case runtype.StepWaiting:
			step.StepStatus = StepStatusWaiting
		case runtype.StepFailed, runtype.StepRetrying:
			step.StepStatus = StepStatusFailed
		case runtype.StepRunning:
			step.StepStatus = StepStatusInited
		}
		if rec.Fault != nil && step.StepStatus == StepStatusFailed {
			view.ErrorMessage = rec.Fault.Message
		}
	}
	if run.Fault != nil {
		view.ErrorMessage = run.Fault.Message
	}
	return view
}

func stepsOf(flow *workflow.Flow) []*StepRuntime {
	var steps []*StepRuntime
	for _, l := range leavesOf(flow) {
		steps = append(steps, &StepRuntime{StepName: l.name, StepStatus: StepStatusPrepared, instance: l.instance})
	}
	return steps
}

// step returns the view of a step instance, and adds it if it is missing.
func (r *WfRuntime) step(instance string) *StepRuntime {
	if i := slices.IndexFunc(r.RunningSteps, func(s *StepRuntime) bool { return s.instance == instance }); i >= 0 {
		return r.RunningSteps[i]
	}
	step := &StepRuntime{StepName: instance, StepStatus: StepStatusPrepared, instance: instance}
	r.RunningSteps = append(r.RunningSteps, step)
	return step
}

func formatted(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.Local().Format(timeForm)
}
