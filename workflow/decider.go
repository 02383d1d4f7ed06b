package workflow

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

// decide handles the requests from outside, finds the attempts that may be opened now, and sets the
// phase. It opens nothing itself: opens lists the attempts to start once the state is saved.
func (s decider) decide() {
	s.decideOnce()
	for len(s.opens) == 0 && s.admission().requestReady() { // a waiting request can be carried out now
		s.decideOnce()
	}
}

func (s decider) decideOnce() {
	s.begin()
	s.requests().handleRequests()
	if s.run.Phase.Final() || s.run.Phase == runtype.Queued {
		return
	}
	if s.noDefinition {
		if stop := s.run.State.Stop; stop != nil && stop.Mode == runtype.Drop {
			s.end(runtype.Cancelled, runtype.Event{Actor: stop.Actor, Reason: string(runtype.Drop), Message: stop.Reason})
		}
		s.run.NextAt = time.Time{}
		return
	}
	if s.run.State.Stop == nil && s.run.Phase != runtype.Paused {
		s.deadline()
	}
	stop := s.run.State.Stop
	switch {
	case s.run.Phase == runtype.Paused:
		s.decidePaused()
	case stop == nil:
		if s.startAllowed() {
			s.decideForward()
		}
	case stop.Verb == runtype.VerbPause || stop.Mode == runtype.Hold:
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
	if s.run.Phase == runtype.Paused || s.run.Phase.Final() {
		return
	}
	s.run.NextAt = s.soonest
}

func (s decider) decideForward() {
	s.halt = len(s.failures) > 0
	v := s.walk().visitSequence(s.plan.body.children, "")
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
			s.pause(s.expression("result", err), runtype.Event{Actor: "engine"})
			s.decidePaused()
			return
		}
		s.end(runtype.Succeeded, runtype.Event{})
	case len(s.failures) > 0:
		if s.underWay() == 0 && len(s.opens) == 0 {
			s.pause(s.failures[0].Fault, runtype.Event{Actor: "engine"})
			s.decidePaused()
		}
	default:
		s.settlePhase()
	}
}

// settlePhase sets the phase to Running or Waiting.
func (s decider) settlePhase() {
	if s.undecided {
		return
	}
	phase := runtype.Running
	if s.waiting > 0 && s.running == 0 && s.retrying == 0 && !s.starved && len(s.opens) == countPolls(s.opens) {
		phase = runtype.Waiting
	}
	if s.run.Phase == phase {
		return
	}
	// A poll that is under way does not make the run Running: its outcome decides.
	s.run.Phase, s.changed = phase, true
	if phase == runtype.Waiting {
		cur := s.run.Current()
		e := runtype.Event{}
		if cur != nil && cur.Wait != nil {
			e.Reason, e.Message = cur.Wait.Reason, cur.Wait.Message
		}
		s.event(runtype.RunWaiting, cur, e)
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

func (s decider) finally() visitResult {
	return s.walk().visitSequence(s.plan.finally.children, "\x00finally")
}

// deadline acts once when the deadline of the flow ends.
func (s decider) deadline() {
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
	stop := &runtype.Stop{Actor: "engine", Reason: "the flow's deadline ended", Failed: true, Code: DeadlineEnded.Code, At: s.now}
	switch s.plan.flow.OnDeadline {
	case ThenUndo:
		stop.Verb, stop.Mode = runtype.VerbCancel, runtype.Undo
		s.run.Phase = runtype.Cancelling
		s.event(runtype.RunCancelling, nil, runtype.Event{Actor: "engine", Code: DeadlineEnded.Code, Reason: string(runtype.Undo)})
	case ThenCancel:
		stop.Verb, stop.Mode = runtype.VerbCancel, runtype.Hold
		s.run.Phase = runtype.Cancelling
		s.event(runtype.RunCancelling, nil, runtype.Event{Actor: "engine", Code: DeadlineEnded.Code, Reason: string(runtype.Hold)})
	default:
		stop.Verb = runtype.VerbPause
	}
	s.run.State.Stop = stop
	if stop.Mode != runtype.Undo {
		s.requests().forwardToChildren(stop.Verb, RunRequest{Actor: Actor{Name: stop.Actor, Reason: stop.Reason}, Mode: stop.Mode})
	}
}

// decideStop waits for open attempts and then pauses the run.
func (s decider) decideStop(stop *runtype.Stop) {
	s.halt = true
	s.abort = stop.Mode == runtype.Hold
	if s.underWay() > 0 {
		return
	}
	kind, message := PausedByPerson, "paused"
	if stop.Mode == runtype.Hold {
		kind, message = CancelledByPerson, "stopped; the finished steps were kept"
	}
	if stop.Actor != "" {
		message += " by " + stop.Actor
	}
	if stop.Reason != "" {
		message += ": " + stop.Reason
	}
	f := &runtype.Fault{Code: kind.Code, Message: message, At: s.now}
	if stop.Failed {
		f.Code, f.Message = DeadlineEnded.Code, stop.Reason
	}
	if cur := s.run.Current(); cur != nil {
		f.Step, f.Attempt = cur.Name, cur.Attempt
	}
	s.pause(f, runtype.Event{Actor: stop.Actor, Reason: stop.Reason})
	s.decidePaused()
}

// decideEnd undoes or drops the steps, runs finally, and ends the run.
func (s decider) decideEnd(stop *runtype.Stop) {
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
		v = s.undoing().closeBrackets()
	case stop.Mode == runtype.Undo:
		v = s.undoing().undo(s.plan.body, "")
	default:
		if v = s.undoing().dropChildren(); v == settled {
			v = s.undoing().closeBrackets()
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
		s.end(runtype.Cancelled, runtype.Event{Actor: stop.Actor, Reason: string(stop.Mode), Message: stop.Reason})
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
		s.pause(&record, runtype.Event{Actor: "engine"})
		s.decidePaused()
	case s.run.Phase != runtype.Cancelling:
		s.run.Phase, s.changed = runtype.Cancelling, true
	}
}

// decidePaused closes brackets and runs the healer. A paused run does nothing else.
func (s decider) decidePaused() {
	s.halt = false
	s.opens = s.opens[:0]
	s.soonest = time.Time{}
	if s.undoing().closeBrackets() == settled {
		s.healings().heal()
	}
	s.run.NextAt = s.soonest
}

// result computes the result of a run whose steps are all done.
func (s decider) result() (err error) {
	if s.plan.flow.Result == nil {
		return nil
	}
	defer recovered(&err)
	data, err := s.plan.flow.Result(s.view(""))
	if err != nil {
		return err
	}
	if len(data) > runtype.MaxOutput {
		return runtype.OutputTooLarge.Errorf("the result has %d bytes, the limit is %d", len(data), runtype.MaxOutput)
	}
	s.run.State.Result, s.changed = data, true
	return nil
}
