package schedule

import (
	"fmt"
	"time"
)

// Grace is how late a tick may be without counting as missed.
const Grace = time.Minute

// Facts are what a decision is made of.
type Facts struct {
	Timetable  *Timetable
	Status     Status
	Generation int64
	CreatedAt  time.Time
	Paused     bool
	Subject    string
	Offset     time.Duration // see Timetable.Offset
	Active     string        // text about a run that has not ended; empty: there is none. Only Due ticks that may not overlap need it
	Now        time.Time
}

// Decision is what becomes of the ticks that are due.
type Decision struct {
	Status Status
	Write  bool      // Status differs from that of the facts: it must be saved before anything is started
	Next   time.Time // when to decide again; zero: when the schedule changes
}

// Due reports whether Decide will decide ticks.
func (f Facts) Due() bool {
	f.Status, _ = f.adopt()
	next := f.next(f.Status.Through)
	return !f.Paused && f.Status.Pending == nil && !next.IsZero() && !next.After(f.Now)
}

// next returns when the tick after a time begins.
func (f Facts) next(through time.Time) time.Time {
	at := f.Timetable.Next(through)
	if at.IsZero() {
		return at
	}
	return at.Add(f.Offset)
}

// adopt begins to count anew where the spec changed, or a pause began or ended: what was before is
// not made up for.
func (f Facts) adopt() (s Status, changed bool) {
	s = f.Status
	since := f.Now.Add(-f.Offset)
	pauseEnds := !f.Paused && !s.PausedSince.IsZero()
	switch {
	case s.Through.IsZero() && s.ObservedGeneration == 0:
		s.Through = f.CreatedAt
	case (s.ObservedGeneration != f.Generation || pauseEnds) && s.Through.Before(since):
		s.Through = since
	}
	state := StateActive
	if f.Paused {
		state = StatePaused
		if s.PausedSince.IsZero() {
			s.PausedSince = f.Now
		}
	} else {
		s.PausedSince = time.Time{}
	}
	s.Fault = nil
	changed = s.enter(state, f.Generation, f.Now)
	return s, changed
}

// Decide decides the ticks after Status.Through that have come. It has no side effects.
//
//	pending ticks    nothing is decided until they are started
//	paused           nothing is decided
//	late by Grace    missed: the newest CatchUp of these count as due, the others are skipped
//	due              by Overlap: of skip and replace only the newest runs
//
// A tick is decided once, whatever the clock does: no time before Through is looked at again.
func Decide(f Facts) Decision {
	s, changed := f.adopt()
	d := Decision{Status: s, Write: changed}
	if f.Paused || s.Pending != nil {
		return d
	}
	if next := f.next(s.Through); next.IsZero() || next.After(f.Now) {
		d.Next = next
		return d
	}
	d.Write = true
	t := f.Timetable
	until := f.Now.Add(-f.Offset)
	ticks, uncounted := t.due(s.Through, until, t.catchUp)
	late := 0
	for late < len(ticks) && until.Sub(ticks[late]) > Grace {
		late++
	}
	missed := max(0, late-t.catchUp)
	switch {
	case !uncounted.IsZero() && missed > 0:
		d.Status.record(Record{Tick: uncounted, Until: ticks[missed-1], Reason: ReasonMissed, Message: f.missed()})
	case !uncounted.IsZero():
		d.Status.record(Record{Tick: uncounted, Until: ticks[0].Add(-1), Reason: ReasonMissed, Message: f.missed()})
	case missed > 0:
		d.Status.skip(ticks[:missed], ReasonMissed, f.missed())
	}
	due := ticks[missed:]
	if len(due) > 0 {
		due = d.Status.overlap(t.Overlap, due, f.Active)
	}
	if len(due) > 0 {
		d.Status.Pending = &Pending{Ticks: due, Flow: t.Flow, Subject: f.Subject, Input: t.Input, Replace: t.Overlap == Replace}
	}
	d.Status.Through = ticks[len(ticks)-1]
	if d.Status.Pending == nil {
		d.Next = f.next(d.Status.Through)
	}
	return d
}

func (f Facts) missed() string {
	return fmt.Sprintf("no server was there in time; catchUp is %d", f.Timetable.catchUp)
}

// overlap returns the ticks that run, and records the others.
func (s *Status) overlap(how Overlap, due []time.Time, active string) []time.Time {
	last := len(due) - 1
	switch {
	case how == Queue:
		return due
	case how == Replace:
		s.skip(due[:last], ReasonReplaced, "a newer tick was due at the same time")
	case active != "":
		s.skip(due, ReasonOverlap, active)
		return nil
	default:
		s.skip(due[:last], ReasonOverlap, "a newer tick was due at the same time")
	}
	return due[last:]
}

func (s *Status) skip(ticks []time.Time, reason, message string) {
	switch len(ticks) {
	case 0:
	case 1:
		s.record(Record{Tick: ticks[0], Reason: reason, Message: message})
	default:
		s.record(Record{Tick: ticks[0], Until: ticks[len(ticks)-1], Count: len(ticks), Reason: reason, Message: message})
	}
}
