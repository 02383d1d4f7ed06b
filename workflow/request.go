package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// requests folds in what people, programs and child runs have sent. Signals of
// users stay in the mail for the steps that wait for them.
func (s *state) requests() {
	if len(s.mail) > s.seen {
		s.look = true
	}
	held := false // a person's request has to wait: those behind it wait too
	for _, m := range slices.Clone(s.mail) {
		name, ours := strings.CutPrefix(m.Name, reserved)
		if !ours {
			continue
		}
		verb, news := Verb(name), name == string(verbChild) || name == string(VerbProgress)
		var ask Ask
		err := json.Unmarshal(m.Payload, &ask)
		if held && !news {
			if verb == VerbCancel {
				s.evict()
			}
			continue
		}
		if s.early(verb, ask) {
			if held = held || !news; verb == VerbSkip {
				s.evicts = ask.Step
			}
			continue
		}
		s.fold(m, verb, ask, err)
	}
	s.evicts = ""
}

// ready reports a request that has waited and need not wait any more.
func (s *state) ready() bool {
	for _, m := range s.mail {
		if name, ours := strings.CutPrefix(m.Name, reserved); ours {
			var ask Ask
			_ = json.Unmarshal(m.Payload, &ask)
			return !s.early(Verb(name), ask)
		}
	}
	return false
}

// fold carries out one request, or refuses it, and takes it from the mail.
func (s *state) fold(m Signal, verb Verb, ask Ask, err error) {
	if err == nil {
		err = s.request(verb, ask)
	}
	s.consume(m.ID)
	if verb == verbChild || verb == VerbProgress && err == nil {
		return
	}
	s.run.State.Last = &LastRequest{ID: m.ID, Verb: verb, At: s.now}
	if err != nil {
		s.run.State.Last.Code, s.run.State.Last.Message = fault.Of(err).Code, fault.Message(err)
		s.event(RequestRefused, nil, Event{Actor: ask.Name, Reason: string(verb), Code: fault.Of(err).Code, Message: fault.Message(err)})
	}
}

// evict lets the attempt end for which a skip waits, because a cancel waits behind the skip.
func (s *state) evict() {
	if a := s.open[s.evicts]; a != nil && !a.node.closes {
		a.evicted = true
	}
}

// foresee makes of the run what its mailbox will make of it: each request is
// carried out as if the one before had taken its whole effect.
func (s *state) foresee() {
	revision := s.run.Revision
	for _, m := range slices.Clone(s.mail) {
		name, ours := strings.CutPrefix(m.Name, reserved)
		if !ours {
			continue
		}
		var ask Ask
		err := json.Unmarshal(m.Payload, &ask)
		s.fold(m, Verb(name), ask, err)
		s.halted()
		s.run.Revision = revision + 1
	}
	s.halted()
}

// halted lets a pause or hold that is under way have taken effect.
func (s *state) halted() {
	if s.stopping() {
		s.run.Phase, s.run.State.PausedAt = Paused, s.now
	}
}

// stopping reports a pause or hold that waits for attempts to end.
func (s *state) stopping() bool {
	stop := s.run.State.Stop
	return stop != nil && (stop.Verb == VerbPause || stop.Mode == Hold) && s.run.Phase != Paused && s.run.Phase != Queued && !s.run.Phase.Final()
}

// early reports a request that has to wait: until an open attempt has ended, or,
// for a resume that does more than to take a stop back, until the run is paused.
func (s *state) early(verb Verb, ask Ask) bool {
	switch verb {
	case VerbResume:
		return s.closing() || s.stopping() && (s.origin(ask) != FromFailed || ask.Definition != "")
	case verbChild:
		return s.closing()
	case VerbSkip:
		a := s.open[ask.Step]
		return s.closing() || a != nil && !a.stray
	}
	return false
}

// origin is where a resume goes on.
func (s *state) origin(ask Ask) From {
	switch {
	case ask.From != "":
		return ask.From
	case s.plan.flow.RecoverFromFirstStep:
		return FromFirst
	}
	return FromFailed
}

// closing reports that the paused run is closing a bracket: who wants it to go
// on waits, so that a body never begins while its close still works.
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

// request carries out one request, or says why not.
func (s *state) request(verb Verb, ask Ask) error {
	if err := s.admit(verb, ask); err != nil {
		return err
	}
	if s.run.Phase.Final() {
		return nil
	}
	switch verb {
	case VerbPause:
		s.askPause(ask)
	case VerbResume:
		s.askResume(ask)
	case VerbCancel:
		s.askCancel(ask)
	case VerbSkip:
		s.askSkip(ask)
	case VerbProgress:
		if rec := s.run.Step(ask.Step); rec != nil && ask.Progress != nil {
			s.progress(rec, *ask.Progress)
		}
	case verbChild:
		s.childNews(ask)
	}
	return nil
}

// admit is the pure judgement of a request: nil, or the fault with which it is
// refused. A request that changes nothing is admitted.
func (s *state) admit(verb Verb, ask Ask) error {
	r := s.run
	if verb == verbChild {
		return nil
	}
	if ask.Revision != 0 && ask.Revision != r.Revision {
		return fault.WriteConflict.Errorf("the run has revision %d, the request expects %d", r.Revision, ask.Revision)
	}
	if r.Phase.Final() {
		if verb == VerbCancel && r.Phase == Cancelled {
			return nil
		}
		return RunFinished.Errorf("the run is %s", r.Phase)
	}
	switch verb {
	case VerbResume:
		return s.admitResume(ask)
	case VerbCancel:
		if ask.Mode == Undo && !ask.GiveUp {
			for rec := range r.Steps() {
				if n := s.plan.node(rec.Name); n != nil && n.step.NoReturn && rec.Phase == StepDone {
					return NoReturn.Errorf("step %s is done and cannot be taken back", rec.Name)
				}
			}
		}
		if stop := r.State.Stop; (ask.Mode == Hold || ask.Mode == "") && r.Phase == Cancelling && stop != nil && stop.Mode != Hold {
			return RequestInvalid.Errorf("the run is being cancelled with %s", stop.Mode)
		}
	case VerbPause:
		if stop := r.State.Stop; r.Phase == Cancelling && (stop == nil || stop.Mode != Hold) {
			return RequestInvalid.Errorf("the run is being cancelled")
		}
	case VerbSkip:
		return s.admitSkip(ask)
	case VerbProgress:
		if rec := r.Step(ask.Step); rec == nil || rec.Phase.Settled() || rec.Phase == StepPending {
			return RequestInvalid.Errorf("step %q is not under way", ask.Step)
		}
	}
	return nil
}

func (s *state) admitResume(ask Ask) error {
	r := s.run
	for _, a := range s.open {
		if a.stray {
			return StepStillRunning.Errorf("an attempt of %s has not returned since it was cancelled", a.rec.Name)
		}
	}
	if stop := r.State.Stop; r.Phase == Cancelling && stop != nil && stop.Verb == VerbCancel && stop.Mode != Hold {
		return RequestInvalid.Errorf("the run is being cancelled with %s", stop.Mode)
	}
	switch ask.From {
	case "", FromFailed, FromFirst:
		return nil
	}
	if rec := r.Step(string(ask.From)); rec == nil || s.plan.node(rec.Name) == nil {
		return RequestInvalid.Errorf("the run has not reached a step %q", ask.From)
	}
	if r.Phase != Paused {
		return RequestInvalid.Errorf("the run is %s: pause it before it goes back to %s", r.Phase, ask.From)
	}
	return nil
}

func (s *state) admitSkip(ask Ask) error {
	rec := s.run.Step(ask.Step)
	if rec == nil || !slices.Contains([]StepPhase{StepFailed, StepWaiting, StepRetrying, StepSkipped}, rec.Phase) {
		return SkipRefused.Errorf("step %q is neither failed nor waiting", ask.Step)
	}
	if a := s.open[rec.Name]; a != nil && a.stray {
		return StepStillRunning.Errorf("an attempt of %s has not returned since it was cancelled", rec.Name)
	}
	n := s.plan.node(rec.Name)
	if n == nil || rec.Phase == StepSkipped {
		return nil
	}
	if !n.step.Skippable && !ask.Force {
		return SkipRefused.Errorf("step %s is not marked skippable", rec.Name)
	}
	if ask.Output != nil {
		if n.step.Output != nil {
			if err := n.step.Output.Check(ask.Output); err != nil {
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

func (s *state) askPause(ask Ask) {
	if s.run.Phase == Paused || s.run.State.Stop != nil {
		s.stopHealing()
		s.keep(VerbPause, ask)
		return
	}
	s.run.State.Stop = &Stop{Verb: VerbPause, Actor: ask.Name, Reason: ask.Reason, At: s.now}
	s.changed = true
	s.tellChildren(VerbPause, ask)
}

// keep makes a run that has stopped at a fault one that a person has stopped: its
// fault stays, and only a person's resume sends it on.
func (s *state) keep(verb Verb, ask Ask) {
	stop := s.run.State.Stop
	if s.run.Phase != Paused || stop != nil && !(stop.Failed && stop.Verb == VerbPause) {
		return
	}
	stop = &Stop{Verb: verb, Actor: ask.Name, Reason: ask.Reason, At: s.now}
	code := PausedByPerson.Code
	if verb == VerbCancel {
		stop.Mode, code = Hold, CancelledByPerson.Code
	}
	s.run.State.Stop = stop
	s.event(RunPaused, s.run.Current(), Event{Actor: ask.Name, Reason: ask.Reason, Code: code})
	s.tellChildren(verb, ask)
}

func (s *state) askCancel(ask Ask) {
	mode := ask.Mode
	if mode == "" {
		mode = Hold
	}
	s.stopHealing()
	if s.run.Phase == Queued {
		s.run.State.Stop = &Stop{Verb: VerbCancel, Mode: mode, Actor: ask.Name, Reason: ask.Reason, At: s.now}
		s.end(Cancelled, Event{Actor: ask.Name, Reason: string(mode), Message: ask.Reason})
		return
	}
	if stop := s.run.State.Stop; stop != nil && stop.Verb == VerbCancel && stop.Mode == mode && s.run.Phase != Paused && !ask.GiveUp {
		return
	}
	if s.run.Phase == Paused && mode == Hold {
		s.keep(VerbCancel, ask)
		return
	}
	s.unpause()
	for _, rec := range slices.Clone(s.failures) {
		if rec.Undoing || s.ofFinally(rec) { // the cause was mended: the end goes on
			s.retry(rec)
		}
	}
	s.run.State.Stop = &Stop{Verb: VerbCancel, Mode: mode, Actor: ask.Name, Reason: ask.Reason, GiveUp: ask.GiveUp, At: s.now}
	s.run.Phase, s.run.Fault = Cancelling, nil
	s.event(RunCancelling, nil, Event{Actor: ask.Name, Reason: string(mode), Message: ask.Reason})
	if mode == Hold {
		s.tellChildren(VerbCancel, ask)
	}
	s.cursor = nil
}

// unpause counts the time spent paused out of the deadline.
func (s *state) unpause() (stood time.Duration) {
	if at := s.run.State.PausedAt; !at.IsZero() {
		stood = s.now.Sub(at)
		s.run.State.PausedFor += stood
		s.run.State.PausedAt = time.Time{}
		s.changed = true
	}
	return stood
}

// stretch leaves the time in which nobody looked out of a wait, and of its
// deadline. A step that is nothing but a wait goes on waiting meanwhile.
func (s *state) stretch(rec *StepRecord, stood time.Duration) {
	n := s.plan.node(rec.Name)
	if rec.Wait == nil || stood <= 0 || n == nil || n.step.Do == nil && n.step.Uses == "" {
		return
	}
	w := *rec.Wait
	if w.Since = w.Since.Add(stood); w.Since.After(s.now) {
		w.Since = s.now
	}
	if !w.Deadline.IsZero() {
		w.Deadline = w.Deadline.Add(stood)
	}
	rec.Wait = &w
	s.put(rec)
}

func (s *state) askResume(ask Ask) {
	stop := s.run.State.Stop
	if s.run.Phase != Paused {
		if stop != nil { // a pause or hold under way is taken back
			s.run.State.Stop = nil
			if s.run.Phase != Queued {
				s.run.Phase = Running
			}
			s.event(RunResumed, nil, Event{Actor: ask.Name, Message: ask.Reason})
			s.tellChildren(VerbResume, ask)
		}
		return
	}
	s.stopHealing()
	s.resume(ask)
}

// resume goes on with a paused run: for a person, a healer, or a child that went on.
func (s *state) resume(ask Ask) {
	ending := s.run.State.Stop != nil && s.run.State.Stop.Verb == VerbCancel && s.run.State.Stop.Mode != Hold
	from := s.origin(ask)
	stood := s.unpause()
	s.run.Fault, s.run.State.Warning = nil, ""
	if ask.Definition != "" { // nothing is begun before the run has it
		s.run.State.Chosen, s.blind = ask.Definition, true
	}
	if s.run.State.Due { // going on after the deadline is a decision: it counts from now
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
			s.stretch(rec, stood)
		case StepRetrying:
			rec.Failures, rec.Free, rec.FreeSince, rec.NextAt = 0, 0, time.Time{}, s.now
			s.put(rec)
		}
	}
	s.run.Phase = Running
	switch {
	case ending:
		s.run.Phase = Cancelling
	case !s.blind:
		s.reopen(closed)
	}
	s.forget()
	s.look = true
	s.event(RunResumed, nil, Event{Actor: ask.Name, Reason: string(from), Message: ask.Reason})
	if ask.Child == "" {
		s.tellChildren(VerbResume, ask)
	}
	if s.run.Parent != "" {
		s.tellParent()
	}
}

// retry opens a failed step again with a full budget, in the same round.
func (s *state) retry(rec *StepRecord) {
	s.drop(rec)
	if n := s.plan.node(rec.Name); n != nil && n.kind > childNode || rec.Attempt == 0 && !rec.Undoing { // it failed before it was opened
		rec.Phase, rec.Fault = StepPending, nil
	} else {
		rec.Phase, rec.NextAt = StepRetrying, s.now
	}
	rec.Failures, rec.Free, rec.FreeSince, rec.Lost, rec.Alone, rec.EndedAt, rec.Wait = 0, 0, time.Time{}, 0, false, time.Time{}, nil
	s.put(rec)
}

// goBack opens a named step, or the first, and everything after it in a new round.
func (s *state) goBack(from From) {
	if from == FromFailed {
		return
	}
	var target position
	if from != FromFirst {
		target = s.position(string(from))
	}
	for _, rec := range slices.Clone(s.run.order) {
		if from == FromFirst || s.position(rec.Name).behind(target) {
			s.again2(rec.Name)
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

func (s *state) askSkip(ask Ask) {
	rec := s.run.Step(ask.Step)
	if rec == nil || rec.Phase == StepSkipped || s.open[rec.Name] != nil {
		return
	}
	if n := s.plan.node(rec.Name); n != nil && n.kind == childNode && rec.Attempt > 0 {
		s.send(s.childID(rec), VerbCancel, Ask{Actor: Actor{Name: ask.Name, Reason: ask.Reason}, Mode: Drop})
	}
	s.drop(rec)
	rec.Phase, rec.Note, rec.Actor, rec.EndedAt, rec.NextAt, rec.Wait = StepSkipped, ask.Reason, ask.Name, s.now, time.Time{}, nil
	if ask.Output != nil {
		rec.Output = ask.Output
	}
	s.put(rec)
	s.event(StepPassed, rec, Event{Actor: ask.Name, Message: ask.Reason})
	f := s.run.Fault
	if s.run.Phase == Paused && s.run.State.Stop == nil && f != nil && f.Step == rec.Name {
		if len(s.failures) > 0 {
			s.run.Fault = s.failures[0].Fault
			return
		}
		s.stopHealing()
		s.resume(Ask{Actor: ask.Actor, From: FromFailed})
	}
}

// childNews folds in that a child run has ended, paused or gone on.
func (s *state) childNews(ask Ask) {
	s.look = true
	f := s.run.Fault
	if s.run.Phase == Paused && !s.run.StoppedByPerson() && f != nil && (f.Code == ChildPaused.Code || f.Code == UndoFailed.Code) && ask.Phase != Paused && fmt.Sprint(f.Details["child"]) == ask.Child {
		s.resume(Ask{Actor: Actor{Name: "engine", Reason: "the child run went on"}, From: FromFailed, Child: ask.Child})
	}
}

// tellChildren passes a request on to the child runs that are under way.
func (s *state) tellChildren(verb Verb, ask Ask) {
	for rec := range s.run.Steps() {
		n := s.plan.node(rec.Name)
		if n == nil || n.kind != childNode || rec.Phase.Settled() || rec.Phase == StepUndone || rec.Phase == StepPending || rec.Attempt == 0 {
			continue
		}
		ask.From, ask.Revision, ask.RequestID = "", 0, ""
		s.send(s.childID(rec), verb, ask)
	}
}
