package wfengine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/compat/define"
	"github.com/pawl-dev/pawl/compat/internal/turn"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// session is the state of a run in this process while a call works on it.
type session struct {
	manager  *WfManager
	ctx      context.Context // the caller's, for its values
	view     *WfRuntime      // for the hook; once work has begun only the event queue writes it
	hook     WfHook
	tells    announcer
	notifier chan struct{}
	from     int64 // sequence number of the last event before this session

	mu      sync.Mutex
	heard   int64 // sequence number of the last event that the hook got
	err     error // of the newest attempt that failed
	errStep string
	outputs map[string]map[string]interface{}
}

// begin opens the session of a run before work on it.
func (m *ResourceWorkflow) begin(ctx context.Context, view *WfRuntime) (*session, error) {
	view.ResourceWorkflow = m
	view.Logger = m.Logger.WithName(view.FlowName)
	s := &session{manager: m.WfManager, ctx: ctx, view: view, notifier: make(chan struct{}, 1), outputs: map[string]map[string]interface{}{}, tells: m.tells}
	if m.WfManager.createHook != nil {
		hook, err := m.WfManager.createHook(view)
		if err != nil {
			return nil, fmt.Errorf("the hook of flow %s: %w", view.FlowName, err)
		}
		view.FlowHookIns, s.hook = hook, hook
	}
	return s, nil
}

// open registers the session for events of its run.
func (m *WfManager) open(s *session, run *runtype.Run) {
	s.view.RunID = run.ID
	s.heard, s.from = run.Seq, run.Seq
	s.call(WfHook.OnWfInit)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions == nil {
		m.sessions = map[string]*session{}
	}
	m.sessions[run.ID] = s
}

func (m *WfManager) close(s *session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions[s.view.RunID] == s {
		delete(m.sessions, s.view.RunID)
	}
}

func (m *WfManager) session(run string) *session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sessions[run]
}

// note stores the result of an attempt, for the caller and the hook.
func (s *session) note(t *workflow.Task, out outcome.Outcome) {
	var output map[string]interface{}
	if raw := t.Result(); raw != nil {
		if value, err := runtype.Decode(raw); err == nil {
			output, _ = value.(map[string]interface{})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.errStep = out.Err(), t.Step()
	s.outputs[t.Step()] = output
}

// failure returns the error of the newest failed attempt, as its step returned it.
func (s *session) failure(step string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.errStep != step {
		return nil
	}
	return s.err
}

// call calls the hook. It only logs a failure.
func (s *session) call(what func(WfHook) error) {
	if s.hook == nil {
		return
	}
	err := func() (err error) {
		defer turn.Guard(&err)
		return what(s.hook)
	}()
	if err != nil {
		s.view.Logger.Error(err, "a hook failed; the flow goes on")
	}
}

// hear passes a saved event to the session of its run.
func (m *WfManager) hear(info workflow.RunInfo, e runtype.Event) {
	if s := m.session(info.ID); s != nil {
		s.hear(e)
	}
}

func (s *session) hear(e runtype.Event) {
	if e.Seq <= s.from { // of an earlier call, for which the hook was too slow
		return
	}
	defer s.notify(e.Seq)
	view := s.view
	switch e.Kind {
	case runtype.StepStarted, runtype.StepWaitingEvent, runtype.StepRetryingEvent, runtype.StepFailedEvent, runtype.StepDoneEvent, runtype.StepSkippedEvent:
		s.hearStep(e)
	case runtype.RunPaused:
		view.FlowStatus, view.ErrorMessage = FlowStatusFailedCompleted, e.Message
		stop := s.interruption(e)
		s.call(func(h WfHook) error { return h.OnWfInterrupt(stop) })
		s.announce(true, "Interrupted", fmt.Sprintf("flow %s: %s: %s", view.FlowName, stop.Reason, stop.ErrorMsg))
	case runtype.RunSucceeded:
		view.FlowStatus, view.ErrorMessage, view.CompleteTime = FlowStatusCompleted, "", e.At.Local().Format(timeForm)
		s.call(WfHook.OnWfCompleted)
		s.announce(false, "Completed", "flow "+view.FlowName+" has ended")
	}
}

func (s *session) hearStep(e runtype.Event) {
	view, step, at := s.view, s.view.step(e.Step), e.At.Local().Format(timeForm)
	tell := func(what func(WfHook, *StepRuntime) error) { s.call(func(h WfHook) error { return what(h, step) }) }
	switch e.Kind {
	case runtype.StepStarted:
		step.StepStatus, step.StepStartTime, step.RetryTimes = StepStatusInited, at, max(e.Attempt-1, 0)
		view.FlowStatus, view.ErrorMessage = FlowStatusRunning, ""
		tell(WfHook.OnStepInit)
	case runtype.StepWaitingEvent:
		step.StepStatus = StepStatusWaiting
		view.FlowStatus, view.ErrorMessage = FlowStatusWaiting, ""
		tell(WfHook.OnStepWaiting)
	case runtype.StepRetryingEvent, runtype.StepFailedEvent:
		step.StepStatus, step.LastStepCompleteTime = StepStatusFailed, at
		view.FlowStatus, view.ErrorMessage = FlowStatusFailed, e.Message
		if e.Kind == runtype.StepRetryingEvent {
			view.RetryTimes++
		}
		tell(WfHook.OnStepCompleted)
	default:
		step.StepStatus, step.LastStepCompleteTime = StepStatusCompleted, at
		s.mu.Lock()
		step.ContextOutput = s.outputs[e.Step]
		s.mu.Unlock()
		view.FlowStatus, view.ErrorMessage = FlowStatusRunning, ""
		tell(WfHook.OnStepCompleted)
	}
}

// interruption returns the error that a hook gets for a pause: that of the step if it returned
// one.
func (s *session) interruption(e runtype.Event) *define.InterruptError {
	s.mu.Lock()
	err := s.err
	s.mu.Unlock()
	f := &runtype.Fault{Code: e.Code, Message: e.Message, Step: e.Step}
	var failed *fault.Error
	if errors.As(err, &failed) && failed.Kind.Code == e.Code {
		f.Details = failed.Details
	}
	run := &runtype.Run{Flow: s.view.FlowName, Fault: f}
	return interruption(run)
}

func (s *session) announce(warning bool, reason, message string) {
	if s.tells != nil {
		ctx, cancel := context.WithTimeout(context.Background(), hookPatience)
		defer cancel()
		s.tells.announce(ctx, warning, reason, message)
	}
}

func (s *session) notify(seq int64) {
	s.mu.Lock()
	s.heard = max(s.heard, seq)
	s.mu.Unlock()
	select {
	case s.notifier <- struct{}{}:
	default:
	}
}

// hookPatience is how long a call waits for a hook without progress.
const hookPatience = 5 * time.Second

// settle waits until the hook has got all events up to seq.
func (s *session) settle(seq int64) {
	if s.hook == nil && s.tells == nil {
		return
	}
	timer := time.NewTimer(hookPatience)
	defer timer.Stop()
	for {
		s.mu.Lock()
		heard := s.heard
		s.mu.Unlock()
		if heard >= seq {
			return
		}
		select {
		case <-s.notifier:
			timer.Reset(hookPatience)
		case <-timer.C:
			s.view.Logger.Error(errors.New("a hook is silent"), "the call does not wait for it any longer", "event", seq, "heard", heard)
			return
		}
	}
}
