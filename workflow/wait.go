package workflow

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

// beginWait starts the wait of a step that is only a wait.
func (s walk) beginWait(n *node, inst string, rec *runtype.StepRecord) visitResult {
	block := n.step.Wait
	w := &runtype.WaitRecord{Since: s.now, Signal: block.Signal, Every: block.Every}
	switch {
	case block.Signal != "":
		w.Reason, w.Message = "Signal", "signal "+block.Signal
	case block.Condition != nil:
		w.Reason, w.Message = "Condition", block.ConditionText
	default:
		w.Reason = "Timer"
	}
	if block.For > 0 {
		w.Until = s.now.Add(block.For)
	}
	if block.Until != nil {
		until, err := s.until(n, inst)
		if err != nil {
			s.fail(rec, s.expression("wait.until", err))
			return failed
		}
		w.Until = until.UTC()
	}
	if !w.Until.IsZero() && w.Message == "" {
		w.Message = "until " + w.Until.Format(time.RFC3339)
	}
	if block.Deadline > 0 {
		w.Deadline = s.now.Add(block.Deadline)
	}
	rec.Phase, rec.Wait, rec.NextAt = runtype.StepWaiting, w, earliest(w.Until, w.Deadline)
	s.pollAll = true
	v := s.waits(n, inst, rec)
	if rec.Phase == runtype.StepWaiting {
		s.event(runtype.StepWaitingEvent, rec, runtype.Event{Reason: w.Reason, Message: w.Message})
	}
	return v
}

// waits visits a waiting step: the event may have happened, a poll may be due, or the deadline may
// have ended.
func (s walk) waits(n *node, inst string, rec *runtype.StepRecord) visitResult {
	if s.open[inst] != nil {
		s.waiting++
		return busy
	}
	block := n.step.Wait
	pure := block != nil && n.step.Do == nil && n.step.Uses == "" && n.kind == leafNode && !rec.Undoing
	lookAt := rec.NextAt
	if next, ok := s.nextPoll[inst]; ok {
		lookAt = next
	}
	due := s.pollAll || !lookAt.IsZero() && !s.now.Before(lookAt)
	switch {
	case s.halt:
	case pure:
		if v := s.checkWait(n, inst, rec, due); v != busy {
			return v
		}
		lookAt = s.nextPoll[inst]
	case due:
		if ok, err := s.acquired(inst, n.step.Limits, s.view(scopeOf(inst)), time.Time{}); err != nil {
			s.fail(rec, s.expression("limits", err))
			return failed
		} else if !ok {
			s.pollAfter(inst, 0) // poll as soon as there is a limit
			if v := s.overdue(n, rec); v != busy {
				s.needs[inst].used = false
				return v
			}
			s.undecided = s.undecided || s.needs[inst].wait == nil
			s.waiting++
			s.wakeAt(rec.Wait.Until)
			s.wakeAt(rec.Wait.Deadline)
			return busy
		}
		if s.acquireSlot != nil && !s.acquireSlot(n, false) {
			s.pollAfter(inst, 0) // poll as soon as a slot is free
			if v := s.overdue(n, rec); v != busy {
				if need := s.needs[inst]; need != nil {
					need.used = false
				}
				return v
			}
			s.starved = true
			s.waiting++
			s.wakeAt(rec.Wait.Until)
			s.wakeAt(rec.Wait.Deadline)
			return busy
		}
		s.opens = append(s.opens, opening{node: n, rec: rec, poll: true})
		s.waiting++
		return busy
	}
	if v := s.overdue(n, rec); v != busy {
		return v
	}
	s.waiting++
	if s.halt {
		return busy
	}
	s.wakeAt(lookAt)
	s.wakeAt(rec.Wait.Until)
	s.wakeAt(rec.Wait.Deadline)
	return busy
}

// overdue handles a wait that has reached its deadline or whose external worker sends no heartbeat.
func (s walk) overdue(n *node, rec *runtype.StepRecord) visitResult {
	w := rec.Wait
	if beat := n.step.Heartbeat; beat > 0 && !s.halt {
		last := w.Since
		if rec.Progress != nil && rec.Progress.At.After(last) {
			last = rec.Progress.At
		}
		if s.now.Sub(last) >= beat {
			return s.failure(rec, n, HeartbeatLost.Errorf("no sign of life for %s", s.now.Sub(last)), runtype.Event{})
		}
		s.wakeAt(last.Add(beat))
	}
	if w.Deadline.IsZero() || s.now.Before(w.Deadline) || s.halt {
		return busy
	}
	what := w.Message
	if what == "" {
		what = w.Reason
	}
	var then OnTimeout
	if n.step.Wait != nil {
		then = n.step.Wait.OnTimeout
	}
	switch then {
	case TimeoutContinue:
		rec.Output = json.RawMessage(`{"timedOut":true}`)
		s.finish(rec, runtype.Event{Reason: "TimedOut"})
		return settled
	case TimeoutUndo:
		s.fail(rec, &runtype.Fault{Code: WaitExpired.Code, Message: "waited for " + what + " until " + w.Deadline.Format(time.RFC3339), At: s.now})
		s.undoExpired(rec)
		s.wakeAt(s.now)
	default:
		s.fail(rec, &runtype.Fault{Code: WaitExpired.Code, Message: "waited for " + what + " until " + w.Deadline.Format(time.RFC3339), At: s.now})
	}
	return failed
}

// undoExpired cancels the run with undo because a wait has expired.
func (s *state) undoExpired(rec *runtype.StepRecord) {
	s.run.State.Stop = &runtype.Stop{Verb: runtype.VerbCancel, Mode: runtype.Undo, Actor: "engine", Reason: "the wait of " + rec.Name + " expired", Failed: true, Code: WaitExpired.Code, At: s.now}
	s.run.Phase = runtype.Cancelling
	s.event(runtype.RunCancelling, rec, runtype.Event{Actor: "engine", Code: WaitExpired.Code, Reason: string(runtype.Undo)})
}

// checkWait checks whether the event of a wait block has happened. If so, it settles the step.
func (s walk) checkWait(n *node, inst string, rec *runtype.StepRecord, look bool) visitResult {
	block, w := n.step.Wait, rec.Wait
	if !w.Until.IsZero() && !s.now.Before(w.Until) {
		s.finish(rec, runtype.Event{})
		return settled
	}
	if block.Signal != "" {
		for _, m := range s.mail {
			if m.Name != block.Signal {
				continue
			}
			if block.Schema != nil {
				if err := block.Schema.Check(m.Payload); err != nil {
					s.consume(m.ID)
					s.event(runtype.RequestRefused, rec, runtype.Event{Actor: m.Actor, Reason: m.Name, Code: runtype.InputInvalid.Code, Message: err.Error()})
					return s.checkWait(n, inst, rec, look)
				}
			}
			s.consume(m.ID)
			s.event(runtype.SignalReceived, rec, runtype.Event{Actor: m.Actor, Reason: m.Name, Message: m.ID})
			rec.Output = m.Payload
			s.finish(rec, runtype.Event{})
			return settled
		}
	}
	if block.Condition == nil || !look {
		return busy
	}
	ok, err := s.condition(n, inst)
	if err != nil {
		s.fail(rec, s.expression("wait.condition", err))
		return failed
	}
	if ok {
		s.finish(rec, runtype.Event{})
		return settled
	}
	if block.Every > 0 {
		s.pollAfter(inst, block.Every)
	}
	return busy
}

// pollAfter remembers the next poll of a wait. Only the interval is stored, not the times of the
// polls.
func (s *state) pollAfter(inst string, every time.Duration) {
	if s.nextPoll == nil {
		s.nextPoll = map[string]time.Time{}
	}
	s.nextPoll[inst] = s.now.Add(every)
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// reservedName refuses signal names that are reserved for the engine.
func reservedName(name string) error {
	if strings.HasPrefix(name, reserved) {
		return fmt.Errorf("names of signals must not begin with %s", reserved)
	}
	return nil
}
