package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// handleRequests applies the requests of people, programs and child runs. The signals of users stay
// in the mail for the steps that wait for them.
func (s requests) handleRequests() {
	if len(s.mail) > s.mailSeen {
		s.pollAll = true
	}
	held := false // a person's request must wait, so the requests behind it must wait too
	for _, m := range slices.Clone(s.mail) {
		name, ours := strings.CutPrefix(m.Name, reserved)
		if !ours {
			continue
		}
		verb, notification := runtype.Verb(name), name == string(verbChild) || name == string(verbLimit) || name == string(runtype.VerbProgress)
		var request RunRequest
		err := json.Unmarshal(m.Payload, &request)
		if held && !notification {
			if verb == runtype.VerbCancel {
				s.endSkippedAttempt()
			}
			continue
		}
		if s.admission().mustWait(verb, request) {
			if held = held || !notification; verb == runtype.VerbSkip {
				s.skipWaiting = request.Step
			}
			continue
		}
		s.handleRequest(m, verb, request, err)
	}
	s.skipWaiting = ""
}

// handleRequest carries out or refuses one request and removes it from the mail.
func (s requests) handleRequest(m runtype.Signal, verb runtype.Verb, request RunRequest, err error) {
	if err == nil {
		err = s.executeRequest(verb, request)
	}
	s.consume(m.ID)
	if verb == verbChild || verb == verbLimit || verb == runtype.VerbProgress && err == nil {
		return
	}
	s.run.State.Last = &runtype.LastRequest{ID: m.ID, Verb: verb, At: s.now}
	if err != nil {
		s.run.State.Last.Code, s.run.State.Last.Message = fault.Of(err).Code, fault.Message(err)
		s.event(runtype.RequestRefused, nil, runtype.Event{Actor: request.Name, Reason: string(verb), Code: fault.Of(err).Code, Message: fault.Message(err)})
	}
}

// endSkippedAttempt ends the attempt that a skip waits for, because a cancel waits behind the skip.
func (s requests) endSkippedAttempt() {
	if a := s.open[s.skipWaiting]; a != nil && !a.node.closes {
		a.endForSkip = true
	}
}

// simulateMail changes the run as the requests in its mailbox will change it. It carries out each
// request as if the previous one had already taken full effect.
func (s requests) simulateMail() {
	revision := s.run.Revision
	s.simulateStop()
	for _, m := range slices.Clone(s.mail) {
		name, ours := strings.CutPrefix(m.Name, reserved)
		if !ours {
			continue
		}
		var request RunRequest
		err := json.Unmarshal(m.Payload, &request)
		s.handleRequest(m, runtype.Verb(name), request, err)
		s.simulateStop()
		s.run.Revision = revision + 1
	}
	s.simulateStop()
}

// simulateStop treats a pause or hold that is under way as complete.
func (s requests) simulateStop() {
	if s.admission().stopping() {
		s.run.Phase, s.run.State.PausedAt = runtype.Paused, s.now
	}
}

// executeRequest carries out one request, or returns the reason for its refusal.
func (s requests) executeRequest(verb runtype.Verb, request RunRequest) error {
	if err := s.admission().admit(verb, request); err != nil {
		return err
	}
	if s.run.Phase.Final() {
		return nil
	}
	switch verb {
	case runtype.VerbPause:
		s.applyPause(request)
	case runtype.VerbResume:
		s.applyResume(request)
	case runtype.VerbCancel:
		s.applyCancel(request)
	case runtype.VerbSkip:
		s.applySkip(request)
	case runtype.VerbProgress:
		if rec := s.run.Step(request.Step); rec != nil && request.Progress != nil {
			s.progress(rec, *request.Progress)
		}
	case verbChild:
		s.childChanged(request)
	case verbLimit:
		s.askAgain = true
	}
	return nil
}

func (s requests) applyPause(request RunRequest) {
	if s.run.Phase == runtype.Paused || s.run.State.Stop != nil {
		s.healings().stopHealing()
		s.stopByPerson(runtype.VerbPause, request)
		return
	}
	s.run.State.Stop = &runtype.Stop{Verb: runtype.VerbPause, Actor: request.Name, Reason: request.Reason, At: s.now}
	s.changed = true
	s.forwardToChildren(runtype.VerbPause, request)
}

// stopByPerson turns a run that is paused by a fault into one that a person has stopped. It keeps
// its fault; only a person can resume it.
func (s requests) stopByPerson(verb runtype.Verb, request RunRequest) {
	stop := s.run.State.Stop
	if s.run.Phase != runtype.Paused || stop != nil && !(stop.Failed && stop.Verb == runtype.VerbPause) {
		return
	}
	stop = &runtype.Stop{Verb: verb, Actor: request.Name, Reason: request.Reason, At: s.now}
	code := PausedByPerson.Code
	if verb == runtype.VerbCancel {
		stop.Mode, code = runtype.Hold, CancelledByPerson.Code
	}
	s.run.State.Stop = stop
	s.event(runtype.RunPaused, s.run.Current(), runtype.Event{Actor: request.Name, Reason: request.Reason, Code: code})
	s.forwardToChildren(verb, request)
}

func (s requests) applyCancel(request RunRequest) {
	mode := request.Mode
	if mode == "" {
		mode = runtype.Hold
	}
	s.healings().stopHealing()
	if s.run.Phase == runtype.Queued {
		s.run.State.Stop = &runtype.Stop{Verb: runtype.VerbCancel, Mode: mode, Actor: request.Name, Reason: request.Reason, At: s.now}
		s.end(runtype.Cancelled, runtype.Event{Actor: request.Name, Reason: string(mode), Message: request.Reason})
		return
	}
	if stop := s.run.State.Stop; stop != nil && stop.Verb == runtype.VerbCancel && stop.Mode == mode && s.run.Phase != runtype.Paused && !request.GiveUp {
		return
	}
	if s.run.Phase == runtype.Paused && mode == runtype.Hold {
		s.stopByPerson(runtype.VerbCancel, request)
		return
	}
	s.unpause()
	for _, rec := range slices.Clone(s.failures) {
		if rec.Undoing || s.ofFinally(rec) { // a new cancel retries the failed undo and finally steps
			s.retry(rec)
		}
	}
	s.run.State.Stop = &runtype.Stop{Verb: runtype.VerbCancel, Mode: mode, Actor: request.Name, Reason: request.Reason, GiveUp: request.GiveUp, At: s.now}
	s.run.Phase, s.run.Fault = runtype.Cancelling, nil
	s.event(runtype.RunCancelling, nil, runtype.Event{Actor: request.Name, Reason: string(mode), Message: request.Reason})
	if mode == runtype.Hold {
		s.forwardToChildren(runtype.VerbCancel, request)
	}
	s.cursor = nil
}

// unpause ends the pause of a run. The deadline of the flow does not include the pause.
func (s requests) unpause() (pausedFor time.Duration) {
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
func (s requests) extendWait(rec *runtype.StepRecord, pausedFor time.Duration) {
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

func (s requests) applyResume(request RunRequest) {
	stop := s.run.State.Stop
	if s.run.Phase != runtype.Paused {
		if stop != nil { // revokes a pause or hold that is under way
			s.run.State.Stop = nil
			if s.run.Phase != runtype.Queued {
				s.run.Phase = runtype.Running
			}
			s.event(runtype.RunResumed, nil, runtype.Event{Actor: request.Name, Message: request.Reason})
			s.forwardToChildren(runtype.VerbResume, request)
		}
		return
	}
	s.healings().stopHealing()
	s.resume(request)
}

// resume continues a paused run, on behalf of a person, of a healer, or of a child run that was
// resumed.
func (s requests) resume(request RunRequest) {
	ending := s.run.State.Stop != nil && s.run.State.Stop.Verb == runtype.VerbCancel && s.run.State.Stop.Mode != runtype.Hold
	from := s.admission().resumeFrom(request)
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
		case runtype.StepFailed:
			s.retry(rec)
		case runtype.StepWaiting:
			s.extendWait(rec, pausedFor)
		case runtype.StepRetrying:
			rec.Failures, rec.Uncharged, rec.UnchargedSince, rec.NextAt = 0, 0, time.Time{}, s.now
			s.put(rec)
		}
	}
	s.run.Phase = runtype.Running
	switch {
	case ending:
		s.run.Phase = runtype.Cancelling
	case !s.noDefinition:
		s.undoing().reopenBrackets(closed)
	}
	s.resetDerived()
	s.pollAll = true
	s.event(runtype.RunResumed, nil, runtype.Event{Actor: request.Name, Reason: string(from), Message: request.Reason})
	if request.Child == "" {
		s.forwardToChildren(runtype.VerbResume, request)
	}
	if s.run.Parent != "" {
		s.notifyParent()
	}
}

// retry lets a failed step run again in the same round, with all its attempts.
func (s requests) retry(rec *runtype.StepRecord) {
	s.drop(rec)
	if n := s.plan.node(rec.Name); n != nil && n.kind > childNode || rec.Attempt == 0 && !rec.Undoing { // it failed before an attempt was opened
		rec.Phase, rec.Fault = runtype.StepPending, nil
	} else {
		rec.Phase, rec.NextAt = runtype.StepRetrying, s.now
	}
	rec.Failures, rec.Uncharged, rec.UnchargedSince, rec.Lost, rec.Isolated, rec.EndedAt, rec.Wait = 0, 0, time.Time{}, 0, false, time.Time{}, nil
	s.put(rec)
}

// goBack starts a new round of a named step, or of the first step, and of all steps after it.
func (s requests) goBack(from From) {
	if from == FromFailed {
		return
	}
	var target position
	if from != FromFirst {
		target = s.position(string(from))
	}
	for _, rec := range slices.Collect(s.run.Steps()) {
		if from == FromFirst || s.position(rec.Name).atOrAfter(target) {
			s.undoing().reopen(rec.Name)
		}
	}
	for around := parent(string(from)); around != ""; around = parent(around) {
		if rec := s.run.Step(around); rec != nil && rec.Phase == runtype.StepDone {
			rec.Phase, rec.EndedAt = runtype.StepEntered, time.Time{}
			s.put(rec)
		}
	}
	s.run.State.Finally = false
}

func (s requests) applySkip(request RunRequest) {
	rec := s.run.Step(request.Step)
	if rec == nil || rec.Phase == runtype.StepSkipped || s.open[rec.Name] != nil {
		return
	}
	if n := s.plan.node(rec.Name); n != nil && n.kind == childNode && rec.Attempt > 0 {
		s.send(s.childID(rec), runtype.VerbCancel, RunRequest{Actor: Actor{Name: request.Name, Reason: request.Reason}, Mode: runtype.Drop})
	}
	s.drop(rec)
	rec.Phase, rec.Note, rec.Actor, rec.EndedAt, rec.NextAt, rec.Wait = runtype.StepSkipped, request.Reason, request.Name, s.now, time.Time{}, nil
	if request.Output != nil {
		rec.Output = request.Output
	}
	s.put(rec)
	s.event(runtype.StepSkippedEvent, rec, runtype.Event{Actor: request.Name, Message: request.Reason})
	f := s.run.Fault
	if s.run.Phase == runtype.Paused && s.run.State.Stop == nil && f != nil && f.Step == rec.Name {
		if len(s.failures) > 0 {
			s.run.Fault = s.failures[0].Fault
			return
		}
		s.healings().stopHealing()
		s.resume(RunRequest{Actor: request.Actor, From: FromFailed})
	}
}

// childChanged handles the message that a child run has ended, was paused or was resumed.
func (s requests) childChanged(request RunRequest) {
	s.pollAll = true
	f := s.run.Fault
	if s.run.Phase == runtype.Paused && !s.run.StoppedByPerson() && f != nil && (f.Code == ChildPaused.Code || f.Code == UndoFailed.Code) && request.Phase != runtype.Paused && fmt.Sprint(f.Details["child"]) == request.Child {
		s.resume(RunRequest{Actor: Actor{Name: "engine", Reason: "the child run was resumed"}, From: FromFailed, Child: request.Child})
	}
}

// forwardToChildren passes a request on to the child runs that have not ended.
func (s requests) forwardToChildren(verb runtype.Verb, request RunRequest) {
	for rec := range s.run.Steps() {
		n := s.plan.node(rec.Name)
		if n == nil || n.kind != childNode || rec.Phase.Settled() || rec.Phase == runtype.StepUndone || rec.Phase == runtype.StepPending || rec.Attempt == 0 {
			continue
		}
		request.From, request.Revision, request.RequestID = "", 0, ""
		s.send(s.childID(rec), verb, request)
	}
}
