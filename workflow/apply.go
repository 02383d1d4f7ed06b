package workflow

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// Causes with which the context of an attempt is cancelled. context.Cause tells a step which.
var (
	ErrDraining  = errors.New("workflow: the worker is shutting down")
	ErrCancelled = errors.New("workflow: the run is being cancelled")
	ErrLeaseLost = errors.New("workflow: the worker's lease does not hold any more")
	errTimeout   = errors.New("workflow: the attempt has reached its timeout")
	errSilent    = errors.New("workflow: the attempt has given no sign of life")
)

// result is how an attempt ended.
type result struct {
	attempt  *attempt
	outcome  outcome.Outcome
	output   json.RawMessage
	taken    []string // signals it consumed
	progress *Progress
	cause    error // with which its context was cancelled, if it was
}

// apply folds the outcome of an attempt into the run.
func (s *state) apply(r result) {
	a := r.attempt
	if a.heal != nil {
		s.applyHealing(r)
		return
	}
	rec := s.run.Step(a.rec.Name)
	if rec == nil {
		return
	}
	if rec.Round != a.round { // a look from before the run went back
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
		// The child went on while the attempt looked at it.
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

// strayed records that an attempt ignores its cancelled context. Its worker
// keeps the run, so that nobody opens the step a second time.
func (s *state) markAbandoned(a *attempt) {
	a.abandoned = true
	rec := s.run.Step(a.rec.Name)
	if rec == nil || a.heal != nil {
		return
	}
	s.fail(rec, &Fault{Code: StepStillRunning.Code, Message: "the attempt was told to end and has not returned", At: s.now})
}

// returned folds in the late end of a stray attempt: the run stays paused, now
// with what really happened, and may be resumed.
func (s *state) returned(rec *StepRecord, n *node, r result) {
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
		s.failure(rec, n, err, Event{})
		return
	}
	rec.Fault = f
	s.put(rec)
}

func (s *state) receive(rec *StepRecord, id string) {
	for _, m := range s.mail {
		if m.ID == id {
			s.consume(id)
			s.event(SignalReceived, rec, Event{Actor: m.Actor, Reason: m.Name, Message: m.ID})
			return
		}
	}
}

func (s *state) done(rec *StepRecord, n *node, r result) {
	if rec.Undoing {
		rec.Phase, rec.Undoing, rec.EndedAt, rec.NextAt, rec.Fault, rec.Wait = StepUndone, false, s.now, time.Time{}, nil, nil
		rec.Failures, rec.Uncharged, rec.UnchargedSince = 0, 0, time.Time{}
		s.put(rec)
		s.event(StepUndoneEvent, rec, Event{})
		return
	}
	if n.step.Output != nil {
		output := r.output
		if output == nil {
			output = json.RawMessage("null")
		}
		if err := n.step.Output.Check(output); err != nil {
			s.failure(rec, n, OutputInvalid.Errorf("%w", err), Event{})
			return
		}
	}
	if r.output != nil {
		s.size += len(r.output) - len(rec.Output)
		rec.Output = r.output
	}
	s.finish(rec, Event{})
}

// finish settles a step as done.
func (s *state) finish(rec *StepRecord, e Event) {
	rec.Phase, rec.EndedAt, rec.NextAt, rec.Fault, rec.Wait = StepDone, s.now, time.Time{}, nil, nil
	rec.Failures, rec.Uncharged, rec.UnchargedSince = 0, 0, time.Time{}
	delete(s.nextPoll, rec.Name)
	s.put(rec)
	s.event(StepDoneEvent, rec, e)
}

// holdOn keeps a step waiting. The same wait again changes nothing.
func (s *state) keepWaiting(rec *StepRecord, n *node, o outcome.Outcome) {
	every, deadline := o.After(), time.Duration(0)
	if w := n.step.Wait; w != nil {
		deadline = w.Deadline
		if every == 0 {
			every = w.Every
		}
	}
	if w := rec.Wait; w != nil && rec.Phase == StepWaiting && w.Reason == o.Reason() && w.Message == o.Message() {
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
	w := &WaitRecord{Reason: o.Reason(), Message: o.Message(), Since: s.now, Every: every}
	if rec.Wait != nil {
		w.Since = rec.Wait.Since
	}
	if deadline > 0 {
		w.Deadline = w.Since.Add(deadline)
	}
	if n.kind == childNode {
		w.Child = s.childID(rec)
	}
	rec.Phase, rec.Wait, rec.NextAt = StepWaiting, w, time.Time{}
	if every > 0 {
		rec.NextAt = s.now.Add(every)
	}
	delete(s.nextPoll, rec.Name)
	s.put(rec)
	s.event(StepWaitingEvent, rec, Event{Reason: w.Reason, Message: w.Message})
}

// ended folds in an attempt that failed, or was made to end.
func (s *state) ended(rec *StepRecord, n *node, r result) {
	err := r.outcome.Err()
	switch {
	case errors.Is(r.cause, ErrDraining), errors.Is(r.cause, ErrCancelled), errors.Is(r.cause, ErrLeaseLost):
		// Nobody's fault: it is opened again when the run goes on.
		if rec.Phase != StepWaiting {
			rec.Phase, rec.NextAt = StepRetrying, s.now
			s.put(rec)
		}
		return
	case errors.Is(r.cause, errTimeout):
		err = Timeout.Errorf("the attempt did not end within %s: %s", time.Duration(first(n.timeout())), fault.Message(err))
	case errors.Is(r.cause, errSilent):
		err = HeartbeatLost.Errorf("no sign of life for %s: %s", n.step.Heartbeat, fault.Message(err))
	}
	s.failure(rec, n, err, Event{})
}

func first(a, _, _ int64) int64 { return a }

// failure charges a failure, or not, and says when the next attempt opens.
func (s *state) failure(rec *StepRecord, n *node, err error, e Event) visitResult {
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
	if kind == WaitExpired && f.Details["onTimeout"] == string(TimeoutUndo) { // an action's own deadline says what a wait block may say
		delete(f.Details, "onTimeout")
		s.undoExpired(rec)
	}
	rec.Phase, rec.NextAt, rec.EndedAt = StepFailed, time.Time{}, s.now
	s.put(rec)
	s.failures = append(s.failures, rec)
	s.event(StepFailedEvent, rec, e)
	return failed
}

// rename gives a failure the code that the program has for steps that have failed
// too often; the message keeps the code of the failure.
func (s *state) rename(f *Fault, as *fault.Kind) {
	f.Code, f.Message = as.Code, string(f.Code)+": "+f.Message
	if f.Details == nil {
		f.Details = map[string]any{}
	}
	f.Details[DetailTitle], f.Details[DetailRemedy] = as.Title, as.Remedy
}

func (s *state) retryLater(rec *StepRecord, delay time.Duration, e Event) visitResult {
	rec.Phase, rec.NextAt = StepRetrying, s.now.Add(delay)
	s.put(rec)
	s.event(StepRetryingEvent, rec, e)
	s.wakeAt(rec.NextAt)
	return busy
}

// IsStoreTrouble reports errors of a store or its connection, which are never
// charged to a step (promise 12).
func IsStoreError(err error) bool {
	return errors.Is(err, ErrConflict) || errors.Is(err, ErrFenced)
}

// progress records how far a step is; passing the highest mark refills its budget.
func (s *state) progress(rec *StepRecord, p Progress) {
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

// mostLost is how many deaths of its process in a row no step survives.
const maxLost = 6

// lostDelay is how long a step waits that was under way when its process died: longer
// each time, so that its neighbours get on with their work.
func lostDelay(times int) time.Duration {
	return Retry{First: 250 * time.Millisecond, Factor: 4, Longest: 16 * time.Second, Jitter: -1}.delay(times, 0)
}

// lost folds in attempts that were found open without a living owner. One loss
// proves nothing: many steps were under way, and all of them are suspects. Suspects are opened
// one at a time, and a process that dies during the turn of one was killed by it: its run is
// paused. A step that kills its process after its turn is paused after mostLost deaths.
func (s *state) lost() {
	s.healingLost()
	for rec := range s.run.Steps() {
		if rec.Phase != StepRunning || s.open[rec.Name] != nil {
			continue
		}
		rec.Lost++
		s.event(StepLost, rec, Event{Message: "its worker died or lost its lease"})
		n := s.plan.node(rec.Name)
		if (rec.Isolated || rec.Lost >= maxLost) && n != nil {
			rec.Isolated = false
			err := Crashed.Errorf("the process died %d times in a row while the step ran", rec.Lost)
			if n.closes && !rec.Undoing { // a close is retried without limit
				s.failure(rec, n, err, Event{})
				continue
			}
			s.fail(rec, s.faultOf(err))
			continue
		}
		rec.Phase, rec.NextAt = StepRetrying, s.now.Add(lostDelay(rec.Lost))
		s.put(rec)
	}
}
