package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// handleRequests applies the requests of people, programs and child runs. The signals of users stay
// in the mail for the steps that wait for them.
func (s *state) handleRequests() {
	if len(s.mail) > s.mailSeen {
		s.pollAll = true
	}
	held := false // a person's request must wait, so the requests behind it must wait too
	for _, m := range slices.Clone(s.mail) {
		name, ours := strings.CutPrefix(m.Name, reserved)
		if !ours {
			continue
		}
		verb, notification := Verb(name), name == string(verbChild) || name == string(VerbProgress)
		var request RunRequest
		err := json.Unmarshal(m.Payload, &request)
		if held && !notification {
			if verb == VerbCancel {
				s.endSkippedAttempt()
			}
			continue
		}
		if s.mustWait(verb, request) {
			if held = held || !notification; verb == VerbSkip {
				s.skipWaiting = request.Step
			}
			continue
		}
		s.handleRequest(m, verb, request, err)
	}
	s.skipWaiting = ""
}

// requestReady reports whether the first request in the mail can be carried out now.
func (s *state) requestReady() bool {
	for _, m := range s.mail {
		if name, ours := strings.CutPrefix(m.Name, reserved); ours {
			var request RunRequest
			_ = json.Unmarshal(m.Payload, &request)
			return !s.mustWait(Verb(name), request)
		}
	}
	return false
}

// handleRequest carries out or refuses one request and removes it from the mail.
func (s *state) handleRequest(m Signal, verb Verb, request RunRequest, err error) {
	if err == nil {
		err = s.executeRequest(verb, request)
	}
	s.consume(m.ID)
	if verb == verbChild || verb == VerbProgress && err == nil {
		return
	}
	s.run.State.Last = &LastRequest{ID: m.ID, Verb: verb, At: s.now}
	if err != nil {
		s.run.State.Last.Code, s.run.State.Last.Message = fault.Of(err).Code, fault.Message(err)
		s.event(RequestRefused, nil, Event{Actor: request.Name, Reason: string(verb), Code: fault.Of(err).Code, Message: fault.Message(err)})
	}
}

// endSkippedAttempt ends the attempt that a skip waits for, because a cancel waits behind the skip.
func (s *state) endSkippedAttempt() {
	if a := s.open[s.skipWaiting]; a != nil && !a.node.closes {
		a.endForSkip = true
	}
}

// simulateMail changes the run as the requests in its mailbox will change it. It carries out each
// request as if the previous one had already taken full effect.
func (s *state) simulateMail() {
	revision := s.run.Revision
	for _, m := range slices.Clone(s.mail) {
		name, ours := strings.CutPrefix(m.Name, reserved)
		if !ours {
			continue
		}
		var request RunRequest
		err := json.Unmarshal(m.Payload, &request)
		s.handleRequest(m, Verb(name), request, err)
		s.simulateStop()
		s.run.Revision = revision + 1
	}
	s.simulateStop()
}

// simulateStop treats a pause or hold that is under way as complete.
func (s *state) simulateStop() {
	if s.stopping() {
		s.run.Phase, s.run.State.PausedAt = Paused, s.now
	}
}

// stopping reports whether a pause or hold waits for open attempts.
func (s *state) stopping() bool {
	stop := s.run.State.Stop
	return stop != nil && (stop.Verb == VerbPause || stop.Mode == Hold) && s.run.Phase != Paused && s.run.Phase != Queued && !s.run.Phase.Final()
}

// mustWait reports whether a request must wait: until an open attempt has ended, or, for a resume
// that does more than revoke a stop, until the run is paused.
func (s *state) mustWait(verb Verb, request RunRequest) bool {
	switch verb {
	case VerbResume:
		return s.closing() || s.stopping() && (s.resumeFrom(request) != FromFailed || request.Definition != "")
	case verbChild:
		return s.closing()
	case VerbSkip:
		a := s.open[request.Step]
		return s.closing() || a != nil && !a.abandoned
	}
	return false
}

// resumeFrom returns the step from which a resume continues.
func (s *state) resumeFrom(request RunRequest) From {
	switch {
	case request.From != "":
		return request.From
	case s.plan.flow.RecoverFromFirstStep:
		return FromFirst
	}
	return FromFailed
}

// closing reports whether a paused run is closing a bracket. A resume waits for that, so that the
// body does not start while the close still runs.
func (s *state) closing() bool {
	if s.run.Phase != Paused {
		return false
	}
	for _, a := range s.open {
		if a.node.closes {
			return true
		}
	}
	return false
}

// executeRequest carries out one request, or returns the reason for its refusal.
func (s *state) executeRequest(verb Verb, request RunRequest) error {
	if err := s.admit(verb, request); err != nil {
		return err
	}
	if s.run.Phase.Final() {
		return nil
	}
	switch verb {
	case VerbPause:
		s.applyPause(request)
	case VerbResume:
		s.applyResume(request)
	case VerbCancel:
		s.applyCancel(request)
	case VerbSkip:
		s.applySkip(request)
	case VerbProgress:
		if rec := s.run.Step(request.Step); rec != nil && request.Progress != nil {
			s.progress(rec, *request.Progress)
		}
	case verbChild:
		s.childChanged(request)
	}
	return nil
}

// admit decides whether a request is allowed: it returns nil, or the fault of the refusal. It has
// no side effects. A request that changes nothing is allowed.
func (s *state) admit(verb Verb, request RunRequest) error {
	r := s.run
	if verb == verbChild {
		return nil
	}
	if request.Revision != 0 && request.Revision != r.Revision {
		return fault.WriteConflict.Errorf("the run has revision %d, the request expects %d", r.Revision, request.Revision)
	}
	if r.Phase.Final() {
		if verb == VerbCancel && r.Phase == Cancelled {
			return nil
		}
		return RunFinished.Errorf("the run is %s", r.Phase)
	}
	switch verb {
	case VerbResume:
		return s.admitResume(request)
	case VerbCancel:
		if request.Mode == Undo && !request.GiveUp {
			for rec := range r.Steps() {
				if n := s.plan.node(rec.Name); n != nil && n.step.NoReturn && rec.Phase == StepDone {
					return NoReturn.Errorf("step %s is done and cannot be undone", rec.Name)
				}
			}
		}
		if stop := r.State.Stop; (request.Mode == Hold || request.Mode == "") && r.Phase == Cancelling && stop != nil && stop.Mode != Hold {
			return RequestInvalid.Errorf("the run is being cancelled with %s", stop.Mode)
		}
	case VerbPause:
		if stop := r.State.Stop; r.Phase == Cancelling && (stop == nil || stop.Mode != Hold) {
			return RequestInvalid.Errorf("the run is being cancelled")
		}
	case VerbSkip:
		return s.admitSkip(request)
	case VerbProgress:
		if rec := r.Step(request.Step); rec == nil || rec.Phase.Settled() || rec.Phase == StepPending {
			return RequestInvalid.Errorf("step %q is not under way", request.Step)
		}
	}
	return nil
}

func (s *state) admitResume(request RunRequest) error {
	r := s.run
	for _, a := range s.open {
		if a.abandoned {
			return StepStillRunning.Errorf("an attempt of %s has not returned since it was cancelled", a.rec.Name)
		}
	}
	if stop := r.State.Stop; r.Phase == Cancelling && stop != nil && stop.Verb == VerbCancel && stop.Mode != Hold {
		return RequestInvalid.Errorf("the run is being cancelled with %s", stop.Mode)
	}
	switch request.From {
	case "", FromFailed, FromFirst:
		return nil
	}
	if rec := r.Step(string(request.From)); rec == nil || s.plan.node(rec.Name) == nil {
		return RequestInvalid.Errorf("the run has not reached a step %q", request.From)
	}
	if r.Phase != Paused {
		return RequestInvalid.Errorf("the run is %s: pause it before it goes back to %s", r.Phase, request.From)
	}
	return nil
}

func (s *state) admitSkip(request RunRequest) error {
	rec := s.run.Step(request.Step)
	if rec == nil || !slices.Contains([]StepPhase{StepFailed, StepWaiting, StepRetrying, StepSkipped}, rec.Phase) {
		return SkipRefused.Errorf("step %q is neither failed nor waiting", request.Step)
	}
	if a := s.open[rec.Name]; a != nil && a.abandoned {
		return StepStillRunning.Errorf("an attempt of %s has not returned since it was cancelled", rec.Name)
	}
	n := s.plan.node(rec.Name)
	if n == nil || rec.Phase == StepSkipped {
		return nil
	}
	if !n.step.Skippable && !request.Force {
		return SkipRefused.Errorf("step %s is not marked skippable", rec.Name)
	}
	if request.Output != nil {
		if n.step.Output != nil {
			if err := n.step.Output.Check(request.Output); err != nil {
				return SkipRefused.Errorf("the given output does not fit: %w", err)
			}
		}
		return nil
	}
	for _, other := range s.plan.nodes {
		if slices.ContainsFunc(other.step.Reads, func(name string) bool { return name == n.step.Name || name == n.path }) {
			return SkipRefused.Errorf("%s reads the output of %s: give one", other.path, rec.Name)
		}
	}
	return nil
}

func (s *state) applyPause(request RunRequest) {
	if s.run.Phase == Paused || s.run.State.Stop != nil {
		s.stopHealing()
		s.stopByPerson(VerbPause, request)
		return
	}
	s.run.State.Stop = &Stop{Verb: VerbPause, Actor: request.Name, Reason: request.Reason, At: s.now}
	s.changed = true
	s.forwardToChildren(VerbPause, request)
}

// stopByPerson turns a run that is paused by a fault into one that a person has stopped. It keeps
// its fault; only a person can resume it.
func (s *state) stopByPerson(verb Verb, request RunRequest) {
	stop := s.run.State.Stop
	if s.run.Phase != Paused || stop != nil && !(stop.Failed && stop.Verb == VerbPause) {
		return
	}
	stop = &Stop{Verb: verb, Actor: request.Name, Reason: request.Reason, At: s.now}
	code := PausedByPerson.Code
	if verb == VerbCancel {
		stop.Mode, code = Hold, CancelledByPerson.Code
	}
	s.run.State.Stop = stop
	s.event(RunPaused, s.run.Current(), Event{Actor: request.Name, Reason: request.Reason, Code: code})
	s.forwardToChildren(verb, request)
}

func (s *state) applyCancel(request RunRequest) {
	mode := request.Mode
	if mode == "" {
		mode = Hold
	}
	s.stopHealing()
	if s.run.Phase == Queued {
		s.run.State.Stop = &Stop{Verb: VerbCancel, Mode: mode, Actor: request.Name, Reason: request.Reason, At: s.now}
		s.end(Cancelled, Event{Actor: request.Name, Reason: string(mode), Message: request.Reason})
		return
	}
	if stop := s.run.State.Stop; stop != nil && stop.Verb == VerbCancel && stop.Mode == mode && s.run.Phase != Paused && !request.GiveUp {
		return
	}
	if s.run.Phase == Paused && mode == Hold {
		s.stopByPerson(VerbCancel, request)
		return
	}
	s.unpause()
	for _, rec := range slices.Clone(s.failures) {
		if rec.Undoing || s.ofFinally(rec) { // a new cancel retries the failed undo and finally steps
			s.retry(rec)
		}
	}
	s.run.State.Stop = &Stop{Verb: VerbCancel, Mode: mode, Actor: request.Name, Reason: request.Reason, GiveUp: request.GiveUp, At: s.now}
	s.run.Phase, s.run.Fault = Cancelling, nil
	s.event(RunCancelling, nil, Event{Actor: request.Name, Reason: string(mode), Message: request.Reason})
	if mode == Hold {
		s.forwardToChildren(VerbCancel, request)
	}
	s.cursor = nil
}

// unpause ends the pause of a run. The deadline of the flow does not include the pause.
func (s *state) unpause() (pausedFor time.Duration) {
	if at := s.run.State.PausedAt; !at.IsZero() {
		pausedFor = s.now.Sub(at)
		s.run.State.PausedFor += pausedFor
		s.run.State.PausedAt = time.Time{}
		s.changed = true
	}
	return pausedFor
}

// extendWait excludes a pause from a wait and its deadline, because no attempt checked the wait
// during the pause. A step that is only a wait is not affected.
func (s *state) extendWait(rec *StepRecord, pausedFor time.Duration) {
	n := s.plan.node(rec.Name)
	if rec.Wait == nil || pausedFor <= 0 || n == nil || n.step.Do == nil && n.step.Uses == "" {
		return
	}
	w := *rec.Wait
	if w.Since = w.Since.Add(pausedFor); w.Since.After(s.now) {
		w.Since = s.now
	}
	if !w.Deadline.IsZero() {
		w.Deadline = w.Deadline.Add(pausedFor)
	}
	rec.Wait = &w
	s.put(rec)
}

func (s *state) applyResume(request RunRequest) {
	stop := s.run.State.Stop
	if s.run.Phase != Paused {
		if stop != nil { // revokes a pause or hold that is under way
			s.run.State.Stop = nil
			if s.run.Phase != Queued {
				s.run.Phase = Running
			}
			s.event(RunResumed, nil, Event{Actor: request.Name, Message: request.Reason})
			s.forwardToChildren(VerbResume, request)
		}
		return
	}
	s.stopHealing()
	s.resume(request)
}

// resume continues a paused run, on behalf of a person, of a healer, or of a child run that was
// resumed.
func (s *state) resume(request RunRequest) {
	ending := s.run.State.Stop != nil && s.run.State.Stop.Verb == VerbCancel && s.run.State.Stop.Mode != Hold
	from := s.resumeFrom(request)
	pausedFor := s.unpause()
	s.run.Fault, s.run.State.Warning = nil, ""
	if request.Definition != "" { // start nothing before the run has that definition
		s.run.State.Chosen, s.noDefinition = request.Definition, true
	}
	if s.run.State.Due { // a resume after the deadline restarts the deadline
		s.run.State.Due = false
		s.run.State.PausedFor = s.now.Sub(s.run.StartedAt)
	}
	closed := s.closed()
	if !ending {
		s.run.State.Stop = nil
		s.goBack(from)
	}
	for rec := range s.run.Steps() {
		switch rec.Phase {
		case StepFailed:
			s.retry(rec)
		case StepWaiting:
			s.extendWait(rec, pausedFor)
		case StepRetrying:
			rec.Failures, rec.Uncharged, rec.UnchargedSince, rec.NextAt = 0, 0, time.Time{}, s.now
			s.put(rec)
		}
	}
	s.run.Phase = Running
	switch {
	case ending:
		s.run.Phase = Cancelling
	case !s.noDefinition:
		s.reopenBrackets(closed)
	}
	s.resetDerived()
	s.pollAll = true
	s.event(RunResumed, nil, Event{Actor: request.Name, Reason: string(from), Message: request.Reason})
	if request.Child == "" {
		s.forwardToChildren(VerbResume, request)
	}
	if s.run.Parent != "" {
		s.notifyParent()
	}
}

// retry lets a failed step run again in the same round, with all its attempts.
func (s *state) retry(rec *StepRecord) {
	s.drop(rec)
	if n := s.plan.node(rec.Name); n != nil && n.kind > childNode || rec.Attempt == 0 && !rec.Undoing { // it failed before an attempt was opened
		rec.Phase, rec.Fault = StepPending, nil
	} else {
		rec.Phase, rec.NextAt = StepRetrying, s.now
	}
	rec.Failures, rec.Uncharged, rec.UnchargedSince, rec.Lost, rec.Isolated, rec.EndedAt, rec.Wait = 0, 0, time.Time{}, 0, false, time.Time{}, nil
	s.put(rec)
}

// goBack starts a new round of a named step, or of the first step, and of all steps after it.
func (s *state) goBack(from From) {
	if from == FromFailed {
		return
	}
	var target position
	if from != FromFirst {
		target = s.position(string(from))
	}
	for _, rec := range slices.Clone(s.run.order) {
		if from == FromFirst || s.position(rec.Name).atOrAfter(target) {
			s.reopen(rec.Name)
		}
	}
	for around := parent(string(from)); around != ""; around = parent(around) {
		if rec := s.run.Step(around); rec != nil && rec.Phase == StepDone {
			rec.Phase, rec.EndedAt = StepEntered, time.Time{}
			s.put(rec)
		}
	}
	s.run.State.Finally = false
}

func (s *state) applySkip(request RunRequest) {
	rec := s.run.Step(request.Step)
	if rec == nil || rec.Phase == StepSkipped || s.open[rec.Name] != nil {
		return
	}
	if n := s.plan.node(rec.Name); n != nil && n.kind == childNode && rec.Attempt > 0 {
		s.send(s.childID(rec), VerbCancel, RunRequest{Actor: Actor{Name: request.Name, Reason: request.Reason}, Mode: Drop})
	}
	s.drop(rec)
	rec.Phase, rec.Note, rec.Actor, rec.EndedAt, rec.NextAt, rec.Wait = StepSkipped, request.Reason, request.Name, s.now, time.Time{}, nil
	if request.Output != nil {
		rec.Output = request.Output
	}
	s.put(rec)
	s.event(StepSkippedEvent, rec, Event{Actor: request.Name, Message: request.Reason})
	f := s.run.Fault
	if s.run.Phase == Paused && s.run.State.Stop == nil && f != nil && f.Step == rec.Name {
		if len(s.failures) > 0 {
			s.run.Fault = s.failures[0].Fault
			return
		}
		s.stopHealing()
		s.resume(RunRequest{Actor: request.Actor, From: FromFailed})
	}
}

// childChanged handles the message that a child run has ended, was paused or was resumed.
func (s *state) childChanged(request RunRequest) {
	s.pollAll = true
	f := s.run.Fault
	if s.run.Phase == Paused && !s.run.StoppedByPerson() && f != nil && (f.Code == ChildPaused.Code || f.Code == UndoFailed.Code) && request.Phase != Paused && fmt.Sprint(f.Details["child"]) == request.Child {
		s.resume(RunRequest{Actor: Actor{Name: "engine", Reason: "the child run was resumed"}, From: FromFailed, Child: request.Child})
	}
}

// forwardToChildren passes a request on to the child runs that have not ended.
func (s *state) forwardToChildren(verb Verb, request RunRequest) {
	for rec := range s.run.Steps() {
		n := s.plan.node(rec.Name)
		if n == nil || n.kind != childNode || rec.Phase.Settled() || rec.Phase == StepUndone || rec.Phase == StepPending || rec.Attempt == 0 {
			continue
		}
		request.From, request.Revision, request.RequestID = "", 0, ""
		s.send(s.childID(rec), verb, request)
	}
}
