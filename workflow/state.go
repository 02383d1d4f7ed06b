package workflow

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// verdict is what a visit to a part of the flow finds.
type visitResult uint8

const (
	settled visitResult = iota // nothing left to do here
	busy                       // under way, or not allowed to begin yet
	failed                     // a step in here failed for good
)

// opening is an attempt to start once the state is saved.
type opening struct {
	node *node
	rec  *StepRecord
	poll bool    // a look at a waiting step: nothing was saved for it
	heal *Healer // the attempt is a healing; rec is not part of the run
	code fault.Code
}

// state is a run in the hands of a worker: the checkpoint, its plan, and what
// is worth remembering between two decisions. It does no input or output and
// reads no clock: now is given. Everything in it but run is derived, so it may
// be thrown away at any moment.
type state struct {
	run  *Run
	plan *plan
	now  time.Time

	mail        []Signal // unread
	mailSeen    int      // mail that was looked at
	pollAll     bool     // every waiting step is to be looked at
	open        map[string]*attempt
	healers     map[fault.Code]Healer
	exhausted   *fault.Kind // see Options.Exhausted
	object      func() (json.RawMessage, error)
	acquireSlot func(*node, bool) bool // asks for a slot; nil: always

	cursor    map[string]int            // first unsettled kid of a sequence
	unsettled map[string][]int          // unsettled kids of a parallel or loop
	itemIndex map[string]map[string]int // of a loop's items: key to place
	nextPoll  map[string]time.Time      // of waits with an interval
	failures  []*StepRecord             // in phase Failed

	size         int    // bytes of input and outputs; 0: not counted yet
	noDefinition bool   // the definition is missing, or another one was chosen: only requests are folded in
	drains       bool   // of a worker that drains: no healing is opened
	halt         bool   // nothing new may be opened
	starved      bool   // something waits for a slot
	skipWaiting  string // the step whose skip waits for its attempt
	abort        bool   // cancel the contexts of open attempts
	running      int
	retrying     int
	waiting      int
	soonest      time.Time

	opens    []opening
	events   []Event
	consumed []string
	outbox   []Mail
	changed  bool // the run's own row differs from the stored one
}

func newState(run *Run, p *plan, mail []Signal) *state {
	s := &state{run: run, plan: p, mail: mail, pollAll: true, open: map[string]*attempt{}}
	s.resetDerived()
	return s
}

// forget drops everything derived from records.
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

// room is how many bytes the output of a step may have before the run is full:
// a run holds so many in all.
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

// fail records a failure for good.
func (s *state) fail(rec *StepRecord, f *Fault) {
	rec.Phase, rec.Fault, rec.NextAt, rec.EndedAt = StepFailed, f, time.Time{}, s.now
	if f.Step == "" {
		f.Step, f.Attempt = rec.Name, rec.Attempt
	}
	s.put(rec)
	s.failures = append(s.failures, rec)
	s.event(StepFailedEvent, rec, Event{Code: f.Code, Message: f.Message})
}

// faultOf makes the record of an error.
func (s *state) faultOf(err error) *Fault {
	return &Fault{Code: fault.Of(err).Code, Message: fault.Message(err), Details: fault.Details(err), At: s.now}
}

// decide is due: it folds in what was asked from outside, finds what may be
// opened now, and sets the phase. It opens nothing itself: opens holds the
// attempts to start once the state is saved.
func (s *state) decide() {
	s.decideOnce()
	for len(s.opens) == 0 && s.requestReady() { // a request waited for what has just come about
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
	if s.pollAll { // what happened may have come after what an open attempt has seen
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
	case s.run.State.Stop != nil: // a wait has expired, and asks for undo
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

// settlePhase tells Running from Waiting.
func (s *state) settlePhase() {
	phase := Running
	if s.waiting > 0 && s.running == 0 && s.retrying == 0 && !s.starved && len(s.opens) == countPolls(s.opens) {
		phase = Waiting
	}
	if s.run.Phase == phase {
		return
	}
	// A look that is under way does not make the run Running: its outcome decides.
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

// deadline acts once when the flow's deadline has ended.
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

// decideStop lets attempts end and then pauses.
func (s *state) decideStop(stop *Stop) {
	s.halt = true
	s.abort = stop.Mode == Hold
	if s.underWay() > 0 {
		return
	}
	kind, message := PausedByPerson, "paused"
	if stop.Mode == Hold {
		kind, message = CancelledByPerson, "stopped; what is done was kept"
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

// decideEnd undoes or drops, runs finally, and ends the run.
func (s *state) decideEnd(stop *Stop) {
	s.abort = true
	for _, a := range s.open {
		if a.stop != stop {
			return // what is under way ends first: an undo goes between open and close
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

// ofFinally reports a record of the finally steps.
func (s *state) ofFinally(rec *StepRecord) bool {
	n := s.plan.node(rec.Name)
	return n != nil && n.finally
}

// underWay counts open attempts, without those that ignore their cancelled context.
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

// decidePaused closes brackets and drives the healer: the only work of a paused run.
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

// left lists the steps an abandoned undo did not take back.
func (s *state) notUndone() []string {
	var names []string
	for rec := range s.run.Steps() {
		if n := s.plan.node(rec.Name); n != nil && n.undo != nil && rec.Phase != StepUndone && rec.Phase != StepSkipped {
			names = append(names, rec.Name)
		}
	}
	return names
}

// tellParent sends news of this run to the run that waits for it.
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

// consume marks a signal as read by the next save.
func (s *state) consume(id string) {
	s.consumed = append(s.consumed, id)
	s.mail = slices.DeleteFunc(s.mail, func(m Signal) bool { return m.ID == id })
	s.changed = true
}
