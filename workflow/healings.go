package workflow

import (
	"errors"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func (l Limits) filled() Limits {
	if l.Attempts == 0 {
		l.Attempts = 3
	}
	if l.First == 0 {
		l.First = 10 * time.Second
	}
	if l.Longest == 0 {
		l.Longest = 10 * time.Minute
	}
	if l.Within == 0 {
		l.Within = 24 * time.Hour
	}
	return l
}

const healingPrefix = "heal:"

func (s healings) healing(code fault.Code) *runtype.Healing {
	for i := range s.run.State.Healing {
		if s.run.State.Healing[i].Code == code {
			return &s.run.State.Healing[i]
		}
	}
	return nil
}

// beginHealing starts the healer of a fault, unless it has already given up on this run.
func (s healings) beginHealing(f *runtype.Fault) {
	if _, ok := s.healers[f.Code]; !ok {
		return
	}
	h := s.healing(f.Code)
	if h == nil {
		s.run.State.Healing = append(s.run.State.Healing, runtype.Healing{Code: f.Code, Since: s.now, NextAt: s.now})
		return
	}
	if h.Ended == "exhausted" {
		s.exhaust(h)
		return
	}
	limits := s.healers[f.Code].Limits.filled()
	h.Ended, h.Open = "", false
	h.NextAt = s.now
	if h.Attempts > 0 {
		h.NextAt = s.now.Add(s.healDelay(limits, h.Attempts))
	}
}

func (s healings) healDelay(l Limits, attempts int) time.Duration {
	return Retry{First: l.First, Longest: l.Longest, Jitter: -1}.delay(attempts, 0)
}

// heal opens a healing if it is due.
func (s healings) heal() {
	f := s.run.Fault
	if f == nil || s.run.State.Stop != nil && !s.run.State.Stop.Failed {
		return
	}
	h := s.healing(f.Code)
	healer, ok := s.healers[f.Code]
	if h == nil || !ok || h.Ended != "" || s.open[healingPrefix+string(f.Code)] != nil {
		return
	}
	limits := healer.Limits.filled()
	end := h.Since.Add(limits.Within)
	if !h.Open && h.Attempts >= limits.Attempts || !s.now.Before(end) {
		s.exhaust(h)
		return
	}
	if h.NextAt.IsZero() && !s.pollAll || !h.NextAt.IsZero() && s.now.Before(h.NextAt) && !(h.Open && s.pollAll) {
		s.wakeAt(h.NextAt)
		s.wakeAt(end)
		return
	}
	if ok, err := s.acquired(healingPrefix+string(f.Code), healer.StepLimits, s.view(""), time.Time{}); err == nil && !ok { // a key that cannot be computed limits nothing: the run must heal
		s.undecided = s.undecided || s.needs[healingPrefix+string(f.Code)].wait == nil
		s.wakeAt(end)
		return
	}
	s.wakeAt(s.now) // a worker that drains leaves the healing to the next worker
	if s.drains {
		return
	}
	if !h.Open {
		h.Open, h.Begun = true, true
		h.Attempts++
		s.event(runtype.HealingBegun, s.run.Step(f.Step), runtype.Event{Code: f.Code, Attempt: h.Attempts})
	}
	rec := &runtype.StepRecord{Name: healingPrefix + string(f.Code), Phase: runtype.StepRunning, Attempt: h.Attempts, AttemptAt: s.now}
	s.opens = append(s.opens, opening{node: healNode, rec: rec, heal: &healer, code: f.Code})
}

var healNode = &node{kind: leafNode, step: &Step{Name: "heal"}}

func (s healings) exhaust(h *runtype.Healing) {
	h.Ended, h.Open, h.NextAt = "exhausted", false, time.Time{}
	if s.run.Fault != nil {
		s.run.Fault.Healer = string(HealerExhausted.Code)
	}
	s.event(runtype.HealingEnded, nil, runtype.Event{Code: HealerExhausted.Code, Reason: string(h.Code), Attempt: h.Attempts})
}

// stopHealing ends the healing because a person has taken over.
func (s healings) stopHealing() {
	for i := range s.run.State.Healing {
		h := &s.run.State.Healing[i]
		if h.Ended == "" && (h.Open || !h.NextAt.IsZero()) {
			h.Ended, h.Open, h.Begun, h.NextAt = "stopped", false, false, time.Time{}
			s.changed = true
		}
	}
}

// applyHealing applies the outcome of a healing.
func (s healings) applyHealing(r result) {
	h := s.healing(r.attempt.code)
	if h == nil || h.Ended != "" || !h.Open || s.run.Phase != runtype.Paused {
		return
	}
	for _, id := range r.taken {
		s.consume(id)
	}
	healer, o := r.attempt.heal, r.outcome
	begun := h.Begun
	if begun {
		h.Begun, s.changed = false, true
	}
	switch {
	case o.IsDone():
		h.Open, h.NextAt = false, time.Time{}
		s.event(runtype.HealingEnded, nil, runtype.Event{Code: h.Code, Attempt: h.Attempts, Reason: runtype.Healed})
		by := Actor{Name: "healer", Reason: "healed " + string(h.Code)}
		if healer.Undo {
			s.requests().applyCancel(RunRequest{Actor: by, Mode: runtype.Undo})
			s.run.State.Stop.Code = h.Code
			return
		}
		s.requests().resume(RunRequest{Actor: by, From: healer.From})
	case o.IsFail():
		if errors.Is(r.cause, ErrDraining) || errors.Is(r.cause, ErrLeaseLost) { // the worker ends: another worker continues the healing
			if begun { // and counts the attempt
				h.Open, h.Attempts = false, h.Attempts-1
			}
			return
		}
		s.healingFailed(h, healer.Limits.filled(), o.Err())
	default:
		next := time.Time{}
		if o.After() > 0 {
			next = s.now.Add(o.After())
		}
		h.NextAt, s.changed = next, true
	}
}

func (s healings) healingFailed(h *runtype.Healing, limits Limits, err error) {
	h.Open, h.Begun = false, false
	s.event(runtype.HealingEnded, nil, runtype.Event{Code: fault.Of(err).Code, Attempt: h.Attempts, Message: fault.Message(err)})
	if h.Attempts >= limits.Attempts {
		s.exhaust(h)
		return
	}
	h.NextAt = s.now.Add(s.healDelay(limits, h.Attempts))
}

// healingLost counts an attempt of a healer that was open when its worker died. So a healer that
// kills its process ends when it reaches its limits.
func (s healings) healingLost() {
	for i := range s.run.State.Healing {
		h := &s.run.State.Healing[i]
		if healer, ok := s.healers[h.Code]; ok && h.Open && h.Begun && s.open[healingPrefix+string(h.Code)] == nil {
			s.healingFailed(h, healer.Limits.filled(), Crashed.Errorf("the process died while it was healed"))
		}
	}
}
