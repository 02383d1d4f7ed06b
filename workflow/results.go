package workflow

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Causes with which the engine cancels the context of an attempt. A step reads them with
// context.Cause.
var (
	ErrDraining  = errors.New("workflow: the worker is shutting down")
	ErrCancelled = errors.New("workflow: the run is being cancelled")
	ErrLeaseLost = errors.New("workflow: the worker's lease has expired")
	errTimeout   = errors.New("workflow: the attempt has reached its timeout")
	errSilent    = errors.New("workflow: the attempt has given no sign of life")
)

// result is the end of an attempt.
type result struct {
	attempt  *attempt
	outcome  outcome.Outcome
	output   json.RawMessage
	taken    []string // ids of the signals that it consumed
	progress *runtype.Progress
	printed  bool  // it has a log, which may not be stored yet
	cause    error // cause of the cancellation of its context, if it was cancelled
}

// apply applies the outcome of an attempt to the run.
func (s results) apply(r result) {
	a := r.attempt
	if a.heal != nil {
		s.healings().applyHealing(r)
		return
	}
	rec := s.run.Step(a.rec.Name)
	if rec == nil {
		return
	}
	if rec.Round != a.round { // a poll from before the run returned to an earlier step
		s.pollAll = true
		return
	}
	if r.progress != nil {
		s.progress(rec, *r.progress)
	}
	if !a.poll {
		rec.Lost, rec.Isolated = 0, false
	}
	if !r.outcome.IsFail() {
		for _, id := range r.taken {
			s.receive(rec, id)
		}
	}
	switch {
	case a.abandoned && r.outcome.IsFail():
		s.returned(rec, a.node, r)
	case r.outcome.IsDone():
		s.drop(rec)
		s.done(rec, a.node, r)
	case a.pollAgain && errors.Is(r.outcome.Err(), ChildPaused):
		// The child was resumed while the attempt read it.
		s.keepWaiting(rec, a.node, outcome.Wait(0, "Child", "child run %s", s.childID(rec)))
		s.pollAll = true
	case r.outcome.IsFail():
		s.ended(rec, a.node, r)
	default:
		s.drop(rec)
		s.keepWaiting(rec, a.node, r.outcome)
		s.pollAll = s.pollAll || a.pollAgain
	}
}

// markAbandoned records that an attempt ignores its cancelled context. Its worker keeps the run, so
// that no other worker opens the step a second time.
func (s results) markAbandoned(a *attempt) {
	a.abandoned = true
	rec := s.run.Step(a.rec.Name)
	if rec == nil || a.heal != nil {
		return
	}
	s.fail(rec, &runtype.Fault{Code: StepStillRunning.Code, Message: "the context of the attempt was cancelled, but the attempt has not returned", At: s.now})
}

// returned handles the end of an abandoned attempt: the run stays paused, now with the real
// failure, and can be resumed.
func (s results) returned(rec *runtype.StepRecord, n *node, r result) {
	err := r.outcome.Err()
	if errors.Is(r.cause, errTimeout) {
		err = Timeout.Errorf("the attempt did not end within %s", time.Duration(first(n.timeout())))
	}
	f := s.faultOf(err)
	f.Step, f.Attempt = rec.Name, rec.Attempt
	if s.run.Fault != nil && s.run.Fault.Step == rec.Name {
		s.run.Fault = f
	}
	if n.closes && !rec.Undoing { // a close is retried without limit
		s.drop(rec)
		s.failure(rec, n, err, runtype.Event{})
		return
	}
	rec.Fault = f
	s.put(rec)
}

func (s results) receive(rec *runtype.StepRecord, id string) {
	for _, m := range s.mail {
		if m.ID == id {
			s.consume(id)
			s.event(runtype.SignalReceived, rec, runtype.Event{Actor: m.Actor, Reason: m.Name, Message: m.ID})
			return
		}
	}
}

func (s results) done(rec *runtype.StepRecord, n *node, r result) {
	if rec.Undoing {
		rec.Phase, rec.Undoing, rec.EndedAt, rec.NextAt, rec.Fault, rec.Wait = runtype.StepUndone, false, s.now, time.Time{}, nil, nil
		rec.Failures, rec.Uncharged, rec.UnchargedSince = 0, 0, time.Time{}
		s.put(rec)
		s.event(runtype.StepUndoneEvent, rec, runtype.Event{})
		return
	}
	if n.step.Output != nil {
		output := r.output
		if output == nil {
			output = json.RawMessage("null")
		}
		if err := n.step.Output.Check(output); err != nil {
			s.failure(rec, n, OutputInvalid.Errorf("%w", err), runtype.Event{})
			return
		}
	}
	if r.output != nil {
		s.size += len(r.output) - len(rec.Output)
		rec.Output = r.output
	}
	s.finish(rec, runtype.Event{})
}

// finish marks a step as done.
func (s *state) finish(rec *runtype.StepRecord, e runtype.Event) {
	rec.Phase, rec.EndedAt, rec.NextAt, rec.Fault, rec.Wait = runtype.StepDone, s.now, time.Time{}, nil, nil
	rec.Failures, rec.Uncharged, rec.UnchargedSince = 0, 0, time.Time{}
	delete(s.nextPoll, rec.Name)
	s.put(rec)
	s.event(runtype.StepDoneEvent, rec, e)
}

// keepWaiting keeps a step waiting. If the wait is the same as before, nothing changes in the
// store.
func (s results) keepWaiting(rec *runtype.StepRecord, n *node, o outcome.Outcome) {
	every, deadline := o.After(), time.Duration(0)
	if w := n.step.Wait; w != nil {
		deadline = w.Deadline
		if every == 0 {
			every = w.Every
		}
	}
	if w := rec.Wait; w != nil && rec.Phase == runtype.StepWaiting && w.Reason == o.Reason() && w.Message == o.Message() {
		if every > 0 {
			s.pollAfter(rec.Name, every)
			return
		}
		delete(s.nextPoll, rec.Name)
		if !s.now.Before(rec.NextAt) {
			rec.NextAt = time.Time{}
		}
		return
	}
	reason := o.Reason()
	if reason == ReasonLimit && len(n.step.Limits) > 0 {
		reason = "LimitOfAction" // the step waits for what it has found, not for a limit
	}
	w := &runtype.WaitRecord{Reason: reason, Message: o.Message(), Since: s.now, Every: every}
	if rec.Wait != nil {
		w.Since = rec.Wait.Since
	}
	if deadline > 0 {
		w.Deadline = w.Since.Add(deadline)
	}
	if n.kind == childNode {
		w.Child = s.childID(rec)
	}
	rec.Phase, rec.Wait, rec.NextAt = runtype.StepWaiting, w, time.Time{}
	if every > 0 {
		rec.NextAt = s.now.Add(every)
	}
	delete(s.nextPoll, rec.Name)
	s.put(rec)
	s.event(runtype.StepWaitingEvent, rec, runtype.Event{Reason: w.Reason, Message: w.Message})
}

// ended handles an attempt that has failed or was cancelled.
func (s results) ended(rec *runtype.StepRecord, n *node, r result) {
	err := r.outcome.Err()
	switch {
	case errors.Is(r.cause, ErrDraining), errors.Is(r.cause, ErrCancelled), errors.Is(r.cause, ErrLeaseLost):
		// Not a failure of the step: it is opened again when the run continues.
		if rec.Phase != runtype.StepWaiting {
			rec.Phase, rec.NextAt = runtype.StepRetrying, s.now
			s.put(rec)
		}
		return
	case errors.Is(r.cause, errTimeout):
		err = Timeout.Errorf("the attempt did not end within %s: %s", time.Duration(first(n.timeout())), fault.Message(err))
	case errors.Is(r.cause, errSilent):
		err = HeartbeatLost.Errorf("no sign of life for %s: %s", n.step.Heartbeat, fault.Message(err))
	}
	s.failure(rec, n, err, runtype.Event{})
}

func first(a, _, _ int64) int64 { return a }

// failure counts a failure, unless its kind is not counted, and schedules the next attempt.
func (s *state) failure(rec *runtype.StepRecord, n *node, err error, e runtype.Event) visitResult {
	kind := fault.Of(err)
	f := s.faultOf(err)
	f.Step, f.Attempt = rec.Name, rec.Attempt
	if stack, ok := f.Details["stack"]; ok {
		e.Data, _ = json.Marshal(map[string]any{"stack": stack})
		delete(f.Details, "stack")
	}
	e.Code, e.Message = f.Code, f.Message
	policy := n.step.Retry.filled()
	delete(s.nextPoll, rec.Name)
	rec.Fault, rec.EndedAt = f, time.Time{}
	if IsStoreError(err) || kind.Uncharged {
		rec.Uncharged++
		if rec.UnchargedSince.IsZero() {
			rec.UnchargedSince = s.now
		}
		if s.now.Sub(rec.UnchargedSince) >= time.Hour && s.run.State.Warning == "" {
			s.run.State.Warning = "Stalled"
		}
		return s.retryLater(rec, policy.delay(rec.Uncharged, seed(s.run.ID, rec.Name, rec.Attempt)), e)
	}
	rec.Uncharged, rec.UnchargedSince = 0, time.Time{}
	rec.Failures++
	atOnce := kind.Class != fault.Transient
	for _, code := range policy.Not {
		atOnce = atOnce || code == f.Code
	}
	exhausted := !atOnce && rec.Failures >= policy.Attempts
	if n.closes && !rec.Undoing || !atOnce && !exhausted {
		return s.retryLater(rec, policy.delay(rec.Failures, seed(s.run.ID, rec.Name, rec.Attempt)), e)
	}
	f.Exhausted = exhausted
	if exhausted && s.exhausted != nil {
		s.rename(f, s.exhausted)
		e.Code, e.Message = f.Code, f.Message
	}
	if kind == WaitExpired && f.Details["onTimeout"] == string(TimeoutUndo) { // the deadline of an action has the same effect as that of a wait block
		delete(f.Details, "onTimeout")
		s.undoExpired(rec)
	}
	rec.Phase, rec.NextAt, rec.EndedAt = runtype.StepFailed, time.Time{}, s.now
	s.put(rec)
	s.failures = append(s.failures, rec)
	s.event(runtype.StepFailedEvent, rec, e)
	return failed
}

// rename gives a failure the code of Options.Exhausted. The message contains the original code.
func (s *state) rename(f *runtype.Fault, as *fault.Kind) {
	f.Code, f.Message = as.Code, string(f.Code)+": "+f.Message
	if f.Details == nil {
		f.Details = map[string]any{}
	}
	f.Details[runtype.DetailTitle], f.Details[runtype.DetailRemedy] = as.Title, as.Remedy
}

func (s *state) retryLater(rec *runtype.StepRecord, delay time.Duration, e runtype.Event) visitResult {
	rec.Phase, rec.NextAt = runtype.StepRetrying, s.now.Add(delay)
	s.put(rec)
	s.event(runtype.StepRetryingEvent, rec, e)
	s.wakeAt(rec.NextAt)
	return busy
}

// IsStoreError reports errors of a store, which never count as failures of a step.
func IsStoreError(err error) bool {
	return errors.Is(err, runstore.ErrConflict) || errors.Is(err, runstore.ErrFenced)
}

// progress stores the progress of a step. When progress exceeds its maximum so far, the step gets
// all its attempts again.
func (s *state) progress(rec *runtype.StepRecord, p runtype.Progress) {
	if rec.Progress != nil {
		p.High = rec.Progress.High
	}
	if p.Done > p.High {
		p.High = p.Done
		rec.Failures = 0
	}
	rec.Progress = &p
	s.put(rec)
}

// maxLost is the number of consecutive deaths of its process after which a step is paused in any
// case.
const maxLost = 6

// lostDelay returns the delay of a step that was open when its process died. It grows with each
// death, so that other steps can continue.
func lostDelay(times int) time.Duration {
	return Retry{First: 250 * time.Millisecond, Factor: 4, Longest: 16 * time.Second, Jitter: -1}.delay(times, 0)
}

// lost handles attempts that were open when their worker died. One death proves nothing: many steps
// were open, and all of them are suspects. Suspects run one at a time. If a process dies during the
// turn of one, that step killed it, and its run is paused. A step that kills its process after its
// turn is paused after maxLost deaths.
func (s results) lost() {
	s.healings().healingLost()
	for rec := range s.run.Steps() {
		if rec.Phase != runtype.StepRunning || s.open[rec.Name] != nil {
			continue
		}
		rec.Lost++
		s.event(runtype.StepLost, rec, runtype.Event{Message: "its worker died or lost its lease"})
		n := s.plan.node(rec.Name)
		if (rec.Isolated || rec.Lost >= maxLost) && n != nil {
			rec.Isolated = false
			err := Crashed.Errorf("the process died %d times in a row while the step ran", rec.Lost)
			if n.closes && !rec.Undoing { // a close is retried without limit
				s.failure(rec, n, err, runtype.Event{})
				continue
			}
			s.fail(rec, s.faultOf(err))
			continue
		}
		rec.Phase, rec.NextAt = runtype.StepRetrying, s.now.Add(lostDelay(rec.Lost))
		s.put(rec)
	}
}
