package workflow

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// visitResult is the result of a visit to a part of the flow.
type visitResult uint8

const (
	settled visitResult = iota // nothing left to do in this part
	busy                       // running, or not allowed to start yet
	failed                     // a step in this part has failed and is not retried
)

// opening is an attempt to start once the state is saved.
type opening struct {
	node *node
	rec  *StepRecord
	poll bool    // a poll of a waiting step: it was not saved
	heal *Healer // the attempt is a healing; rec is not part of the run
	code fault.Code
}

// state is the working copy of a run: the checkpoint, its plan, and what is cached between two
// decisions. It does no input or output and reads no clock: the caller sets now. Everything except
// run is derived and may be dropped at any time.
type state struct {
	run  *Run
	plan *plan
	now  time.Time

	mail        []Signal // unread
	mailSeen    int      // length of mail at the last decision
	pollAll     bool     // poll every waiting step
	open        map[string]*attempt
	healers     map[fault.Code]Healer
	exhausted   *fault.Kind // see Options.Exhausted
	object      func() (json.RawMessage, error)
	acquireSlot func(*node, bool) bool // gets a slot for an attempt; nil: there is always one

	cursor    map[string]int            // index of the first unsettled child of a sequence
	unsettled map[string][]int          // unsettled children of a parallel or a loop
	itemIndex map[string]map[string]int // for each loop: index of an item by its key
	nextPoll  map[string]time.Time      // next poll of the waits that have an interval
	failures  []*StepRecord             // records in phase Failed

	size         int    // bytes of the input and the outputs; 0: not counted yet
	noDefinition bool   // the definition is missing, or another one was chosen: only requests are handled
	drains       bool   // the worker drains: no healing is opened
	halt         bool   // nothing new may be opened
	starved      bool   // an attempt waits for a slot
	skipWaiting  string // step whose skip waits for the end of its attempt
	abort        bool   // cancel the contexts of open attempts
	running      int
	retrying     int
	waiting      int
	soonest      time.Time

	opens    []opening
	events   []Event
	consumed []string
	outbox   []Mail
	changed  bool // the row of the run differs from the stored one
}

func newState(run *Run, p *plan, mail []Signal) *state {
	s := &state{run: run, plan: p, mail: mail, pollAll: true, open: map[string]*attempt{}}
	s.resetDerived()
	return s
}

// resetDerived drops everything that is derived from records.
func (s *state) resetDerived() {
	s.size = 0
	s.cursor, s.unsettled, s.itemIndex, s.failures = nil, nil, nil, nil
	for rec := range s.run.Steps() {
		if rec.Phase == StepFailed {
			s.failures = append(s.failures, rec)
		}
	}
}

func (s *state) event(kind EventKind, rec *StepRecord, e Event) {
	s.run.Seq++
	e.Run, e.Seq, e.At, e.Kind = s.run.ID, s.run.Seq, s.now, kind
	if rec != nil {
		e.Step = rec.Name
		if e.Attempt == 0 {
			e.Attempt = rec.Attempt
		}
	}
	s.events = append(s.events, e)
	s.changed = true
}

// capacity returns the largest size in bytes that the output of a step may have, so that the run
// does not exceed limit.
func (s *state) capacity(rec *StepRecord, limit int) int {
	if s.size == 0 {
		s.size = len(s.run.Input)
		for other := range s.run.Steps() {
			s.size += len(other.Output)
			for _, item := range other.Items {
				s.size += len(item.Value)
			}
		}
	}
	return max(limit-s.size+len(rec.Output), 1)
}

func (s *state) put(rec *StepRecord) { s.run.Put(rec); s.changed = true }

func (s *state) wakeAt(at time.Time) {
	if !at.IsZero() && (s.soonest.IsZero() || at.Before(s.soonest)) {
		s.soonest = at
	}
}

// fail records a failure that is not retried.
func (s *state) fail(rec *StepRecord, f *Fault) {
	rec.Phase, rec.Fault, rec.NextAt, rec.EndedAt = StepFailed, f, time.Time{}, s.now
	if f.Step == "" {
		f.Step, f.Attempt = rec.Name, rec.Attempt
	}
	s.put(rec)
	s.failures = append(s.failures, rec)
	s.event(StepFailedEvent, rec, Event{Code: f.Code, Message: f.Message})
}

// faultOf returns the record of an error.
func (s *state) faultOf(err error) *Fault {
	return &Fault{Code: fault.Of(err).Code, Message: fault.Message(err), Details: fault.Details(err), At: s.now}
}

// decide handles the requests from outside, finds the attempts that may be opened now, and sets the
// phase. It opens nothing itself: opens lists the attempts to start once the state is saved.
func (s *state) decide() {
	s.decideOnce()
	for len(s.opens) == 0 && s.requestReady() { // a waiting request can be carried out now
		s.decideOnce()
	}
}

func (s *state) decideOnce() {
	s.opens, s.soonest, s.starved, s.abort = s.opens[:0], time.Time{}, false, false
	s.running, s.retrying, s.waiting = 0, 0, 0
	s.handleRequests()
	if s.run.Phase.Final() || s.run.Phase == Queued {
		return
	}
	if s.noDefinition {
		if stop := s.run.State.Stop; stop != nil && stop.Mode == Drop {
			s.end(Cancelled, Event{Actor: stop.Actor, Reason: string(Drop), Message: stop.Reason})
		}
		s.run.NextAt = time.Time{}
		return
	}
	if s.run.State.Stop == nil && s.run.Phase != Paused {
		s.deadline()
	}
	stop := s.run.State.Stop
	switch {
	case s.run.Phase == Paused:
		s.decidePaused()
	case stop == nil:
		s.decideForward()
	case stop.Verb == VerbPause || stop.Mode == Hold:
		s.decideStop(stop)
	default:
		s.decideEnd(stop)
	}
	if s.pollAll { // an open attempt may not have seen the change
		for _, a := range s.open {
			a.pollAgain = true
		}
	}
	s.pollAll = false
	s.mailSeen = len(s.mail)
	if s.run.Phase == Paused || s.run.Phase.Final() {
		return
	}
	s.run.NextAt = s.soonest
}

func (s *state) decideForward() {
	s.halt = len(s.failures) > 0
	v := s.visitSequence(s.plan.body.children, "")
	if v == settled {
		if !s.run.State.Finally {
			s.run.State.Finally, s.changed = true, true
		}
		if len(s.plan.finally.children) > 0 {
			v = s.finally()
		}
	}
	switch {
	case s.run.State.Stop != nil: // a wait has expired and requires an undo
		s.wakeAt(s.now)
	case v == settled && len(s.failures) == 0:
		if err := s.result(); err != nil {
			s.pause(s.expression("result", err), Event{Actor: "engine"})
			s.decidePaused()
			return
		}
		s.end(Succeeded, Event{})
	case len(s.failures) > 0:
		if s.underWay() == 0 && len(s.opens) == 0 {
			s.pause(s.failures[0].Fault, Event{Actor: "engine"})
			s.decidePaused()
		}
	default:
		s.settlePhase()
	}
}

// settlePhase sets the phase to Running or Waiting.
func (s *state) settlePhase() {
	phase := Running
	if s.waiting > 0 && s.running == 0 && s.retrying == 0 && !s.starved && len(s.opens) == countPolls(s.opens) {
		phase = Waiting
	}
	if s.run.Phase == phase {
		return
	}
	// A poll that is under way does not make the run Running: its outcome decides.
	s.run.Phase, s.changed = phase, true
	if phase == Waiting {
		cur := s.run.Current()
		e := Event{}
		if cur != nil && cur.Wait != nil {
			e.Reason, e.Message = cur.Wait.Reason, cur.Wait.Message
		}
		s.event(RunWaiting, cur, e)
	}
}

func countPolls(opens []opening) int {
	n := 0
	for _, o := range opens {
		if o.poll {
			n++
		}
	}
	return n
}

func (s *state) finally() visitResult { return s.visitSequence(s.plan.finally.children, "\x00finally") }

// deadline acts once when the deadline of the flow ends.
func (s *state) deadline() {
	d := s.plan.flow.Deadline
	if d <= 0 || s.run.StartedAt.IsZero() || s.run.State.Due {
		return
	}
	end := s.run.StartedAt.Add(d + s.run.State.PausedFor)
	if s.now.Before(end) {
		s.wakeAt(end)
		return
	}
	s.run.State.Due, s.changed = true, true
	stop := &Stop{Actor: "engine", Reason: "the flow's deadline ended", Failed: true, At: s.now}
	switch s.plan.flow.OnDeadline {
	case ThenUndo:
		stop.Verb, stop.Mode = VerbCancel, Undo
		s.run.Phase = Cancelling
		s.event(RunCancelling, nil, Event{Actor: "engine", Code: DeadlineEnded.Code, Reason: string(Undo)})
	case ThenCancel:
		stop.Verb, stop.Mode = VerbCancel, Hold
		s.run.Phase = Cancelling
		s.event(RunCancelling, nil, Event{Actor: "engine", Code: DeadlineEnded.Code, Reason: string(Hold)})
	default:
		stop.Verb = VerbPause
	}
	s.run.State.Stop = stop
	if stop.Mode != Undo {
		s.forwardToChildren(stop.Verb, RunRequest{Actor: Actor{Name: stop.Actor, Reason: stop.Reason}, Mode: stop.Mode})
	}
}

// decideStop waits for open attempts and then pauses the run.
func (s *state) decideStop(stop *Stop) {
	s.halt = true
	s.abort = stop.Mode == Hold
	if s.underWay() > 0 {
		return
	}
	kind, message := PausedByPerson, "paused"
	if stop.Mode == Hold {
		kind, message = CancelledByPerson, "stopped; the finished steps were kept"
	}
	if stop.Actor != "" {
		message += " by " + stop.Actor
	}
	if stop.Reason != "" {
		message += ": " + stop.Reason
	}
	f := &Fault{Code: kind.Code, Message: message, At: s.now}
	if stop.Failed {
		f.Code, f.Message = DeadlineEnded.Code, stop.Reason
	}
	if cur := s.run.Current(); cur != nil {
		f.Step, f.Attempt = cur.Name, cur.Attempt
	}
	s.pause(f, Event{Actor: stop.Actor, Reason: stop.Reason})
	s.decidePaused()
}

// decideEnd undoes or drops the steps, runs finally, and ends the run.
func (s *state) decideEnd(stop *Stop) {
	s.abort = true
	for _, a := range s.open {
		if a.stop != stop {
			return // open attempts end first: an undo needs the bracket open
		}
	}
	s.halt = false
	var v visitResult
	switch {
	case stop.GiveUp:
		v = s.closeBrackets()
	case stop.Mode == Undo:
		v = s.undo(s.plan.body, "")
	default:
		if v = s.dropChildren(); v == settled {
			v = s.closeBrackets()
		}
	}
	if v == settled {
		if !s.run.State.Finally {
			s.run.State.Finally, s.changed = true, true
			s.failures = nil
			s.cursor = nil
		}
		s.halt = slices.ContainsFunc(s.failures, s.ofFinally)
		v = s.finally()
	}
	switch {
	case v == settled:
		s.end(Cancelled, Event{Actor: stop.Actor, Reason: string(stop.Mode), Message: stop.Reason})
	case v == failed && len(s.open) == 0 && len(s.opens) == 0:
		f := s.failures[len(s.failures)-1]
		for _, other := range s.failures {
			if other.Undoing || s.ofFinally(other) {
				f = other
			}
		}
		record := *f.Fault
		if f.Undoing {
			details := map[string]any{"code": string(record.Code)}
			if child, ok := record.Details["child"]; ok {
				details["child"] = child
			}
			record.Details = details
			record.Message = string(record.Code) + ": " + record.Message
			record.Code = UndoFailed.Code
		}
		s.pause(&record, Event{Actor: "engine"})
		s.decidePaused()
	case s.run.Phase != Cancelling:
		s.run.Phase, s.changed = Cancelling, true
	}
}

// ofFinally reports whether a record belongs to a finally step.
func (s *state) ofFinally(rec *StepRecord) bool {
	n := s.plan.node(rec.Name)
	return n != nil && n.finally
}

// underWay returns the number of open attempts, without healings and abandoned attempts.
func (s *state) underWay() int {
	n := 0
	for _, a := range s.open {
		if !a.abandoned && a.heal == nil {
			n++
		}
	}
	return n
}

func (s *state) pause(f *Fault, e Event) {
	s.run.Phase, s.run.Fault, s.run.State.PausedAt = Paused, f, s.now
	e.Code, e.Message = f.Code, f.Message
	s.event(RunPaused, s.run.Step(f.Step), e)
	s.notifyParent()
	s.beginHealing(f)
}

// decidePaused closes brackets and runs the healer. A paused run does nothing else.
func (s *state) decidePaused() {
	s.halt = false
	s.opens = s.opens[:0]
	s.soonest = time.Time{}
	if s.closeBrackets() == settled {
		s.heal()
	}
	s.run.NextAt = s.soonest
}

func (s *state) end(phase Phase, e Event) {
	s.run.Phase, s.run.EndedAt, s.run.NextAt, s.run.Fault = phase, s.now, time.Time{}, nil
	kind := RunSucceeded
	if phase == Cancelled {
		kind = RunCancelled
		if stop := s.run.State.Stop; stop != nil && stop.GiveUp {
			e.Data, _ = json.Marshal(map[string]any{"left": s.notUndone()})
		}
	}
	s.event(kind, nil, e)
	s.notifyParent()
}

// notUndone lists the steps that were not undone because a person gave the undo up.
func (s *state) notUndone() []string {
	var names []string
	for rec := range s.run.Steps() {
		if n := s.plan.node(rec.Name); n != nil && n.undo != nil && rec.Phase != StepUndone && rec.Phase != StepSkipped {
			names = append(names, rec.Name)
		}
	}
	return names
}

// notifyParent tells the parent run that this run has changed.
func (s *state) notifyParent() {
	if s.run.Parent == "" {
		return
	}
	s.send(s.run.Parent, verbChild, RunRequest{Child: s.run.ID, Phase: s.run.Phase, Fault: s.run.Fault})
}

func (s *state) send(to string, verb Verb, request RunRequest) {
	payload, _ := json.Marshal(request)
	id := s.run.ID + "/" + string(verb) + "/" + string(s.run.Phase) + "/" + itoa(s.run.Seq)
	s.outbox = append(s.outbox, Mail{To: to, Signal: Signal{ID: id, Name: reserved + string(verb), Payload: payload, Actor: request.Name, At: s.now}})
	s.changed = true
}

// consume marks a signal as read. The next save removes it.
func (s *state) consume(id string) {
	s.consumed = append(s.consumed, id)
	s.mail = slices.DeleteFunc(s.mail, func(m Signal) bool { return m.ID == id })
	s.changed = true
}
