package workflow

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
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
	rec  *runtype.StepRecord
	poll bool    // a poll of a waiting step: it was not saved
	heal *Healer // the attempt is a healing; rec is not part of the run
	code fault.Code
}

// state is the working copy of a run: the checkpoint, its plan, and what is cached between two
// decisions. It does no input or output and reads no clock: the caller sets now. Everything except
// run is derived and may be dropped at any time.
//
// One type for each subject acts on it:
//
//	decider    what happens next: forward, stop, end, pause
//	walk       goes forward through the flow, opens attempts and waits
//	undoing    goes back through the flow, closes and reopens brackets
//	results    applies the outcomes of attempts
//	admission  decides whether a request is allowed now
//	requests   carries requests out
//	healings   runs the healers of a paused run
//
// reader, which is part of it, only reads.
type state struct {
	reader
	index
	decision
	draft
	limitNeeds

	now         time.Time
	open        map[string]*attempt
	mail        []runtype.Signal     // unread
	mailSeen    int                  // length of mail at the last decision
	pollAll     bool                 // poll every waiting step
	nextPoll    map[string]time.Time // next poll of the waits that have an interval
	healers     map[fault.Code]Healer
	exhausted   *fault.Kind            // see Options.Exhausted
	acquireSlot func(*node, bool) bool // gets a slot for an attempt; nil: there is always one

	noDefinition bool   // the definition is missing, or another one was chosen: only requests are handled
	drains       bool   // the worker drains: no healing is opened
	skipWaiting  string // step whose skip waits for the end of its attempt
}

// index is derived from the records, so that a decision does not visit each of them.
type index struct {
	cursor    map[string]int        // index of the first unsettled child of a sequence
	unsettled map[string][]int      // unsettled children of a parallel or a loop
	failures  []*runtype.StepRecord // records in phase Failed
	size      int                   // bytes of the input and the outputs; 0: not counted yet
}

// decision is what one decision has found.
type decision struct {
	opens     []opening
	halt      bool // nothing new may be opened
	starved   bool // an attempt waits for a slot
	undecided bool // the store has not been asked for a limit yet
	abort     bool // cancel the contexts of open attempts
	running   int
	retrying  int
	waiting   int
	soonest   time.Time
}

func (d *decision) begin() { *d = decision{opens: d.opens[:0], halt: d.halt} }

func (d *decision) wakeAt(at time.Time) {
	if !at.IsZero() && (d.soonest.IsZero() || at.Before(d.soonest)) {
		d.soonest = at
	}
}

// draft is what the next save contains besides the run.
type draft struct {
	events   []runtype.Event
	consumed []string
	outbox   []runstore.Mail
	changed  bool // the row of the run differs from the stored one
}

func (d *draft) clear() {
	d.events, d.consumed, d.outbox, d.changed = d.events[:0], d.consumed[:0], d.outbox[:0], false
}

// The types of one subject.
type (
	decider   struct{ *state }
	walk      struct{ *state }
	undoing   struct{ *state }
	results   struct{ *state }
	admission struct{ *state }
	requests  struct{ *state }
	healings  struct{ *state }
)

func (s *state) decider() decider { return decider{s} }

func (s *state) walk() walk { return walk{s} }

func (s *state) undoing() undoing { return undoing{s} }

func (s *state) results() results { return results{s} }

func (s *state) admission() admission { return admission{s} }

func (s *state) requests() requests { return requests{s} }

func (s *state) healings() healings { return healings{s} }

func newState(run *runtype.Run, p *plan, mail []runtype.Signal) *state {
	s := &state{reader: reader{run: run, plan: p}, mail: mail, pollAll: true, open: map[string]*attempt{}}
	s.resetDerived()
	return s
}

// resetDerived drops everything that is derived from records.
func (s *state) resetDerived() {
	s.size = 0
	s.cursor, s.unsettled, s.itemIndex, s.failures = nil, nil, nil, nil
	for rec := range s.run.Steps() {
		if rec.Phase == runtype.StepFailed {
			s.failures = append(s.failures, rec)
		}
	}
}

func (s *state) event(kind runtype.EventKind, rec *runtype.StepRecord, e runtype.Event) {
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
func (s *state) capacity(rec *runtype.StepRecord, limit int) int {
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

func (s *state) put(rec *runtype.StepRecord) { s.run.Put(rec); s.changed = true }

// fail records a failure that is not retried.
func (s *state) fail(rec *runtype.StepRecord, f *runtype.Fault) {
	rec.Phase, rec.Fault, rec.NextAt, rec.EndedAt = runtype.StepFailed, f, time.Time{}, s.now
	if f.Step == "" {
		f.Step, f.Attempt = rec.Name, rec.Attempt
	}
	s.put(rec)
	s.failures = append(s.failures, rec)
	s.event(runtype.StepFailedEvent, rec, runtype.Event{Code: f.Code, Message: f.Message})
}

// faultOf returns the record of an error.
func (s *state) faultOf(err error) *runtype.Fault {
	return &runtype.Fault{Code: fault.Of(err).Code, Message: fault.Message(err), Details: fault.Details(err), At: s.now}
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

func (s *state) pause(f *runtype.Fault, e runtype.Event) {
	s.run.Phase, s.run.Fault, s.run.State.PausedAt = runtype.Paused, f, s.now
	e.Code, e.Message = f.Code, f.Message
	s.event(runtype.RunPaused, s.run.Step(f.Step), e)
	s.notifyParent()
	s.healings().beginHealing(f)
}

func (s *state) end(phase runtype.Phase, e runtype.Event) {
	s.run.Phase, s.run.EndedAt, s.run.NextAt, s.run.Fault = phase, s.now, time.Time{}, nil
	kind := runtype.RunSucceeded
	if phase == runtype.Cancelled {
		kind = runtype.RunCancelled
		if stop := s.run.State.Stop; stop != nil {
			e.Code = stop.Code
			if stop.GiveUp {
				e.Data, _ = json.Marshal(map[string]any{"left": s.notUndone()})
			}
		}
	}
	s.event(kind, nil, e)
	s.notifyParent()
}

// notifyParent tells the parent run that this run has changed.
func (s *state) notifyParent() {
	if s.run.Parent == "" {
		return
	}
	s.send(s.run.Parent, verbChild, RunRequest{Child: s.run.ID, Phase: s.run.Phase, Fault: s.run.Fault})
}

func (s *state) send(to string, verb runtype.Verb, request RunRequest) {
	payload, _ := json.Marshal(request)
	id := s.run.ID + "/" + string(verb) + "/" + string(s.run.Phase) + "/" + itoa(s.run.Seq)
	s.outbox = append(s.outbox, runstore.Mail{To: to, Signal: runtype.Signal{ID: id, Name: reserved + string(verb), Payload: payload, Actor: request.Name, At: s.now}})
	s.changed = true
}

// consume marks a signal as read. The next save removes it.
func (s *state) consume(id string) {
	s.consumed = append(s.consumed, id)
	s.mail = slices.DeleteFunc(s.mail, func(m runtype.Signal) bool { return m.ID == id })
	s.changed = true
}
