package workflow

import (
	"context"
	"errors"
	"time"
)

// save makes the decision durable before anything is started. It repeats while
// the store is in trouble; false means that the run is no longer ours.
func (d *driver) save(rest bool) (saved, ok bool) {
	s, r := d.s, d.s.run
	if !s.changed && len(r.Changed()) == 0 && len(s.consumed) == 0 {
		return false, true
	}
	d.mu.Lock()
	r.Owner = d.e.options.Worker
	if rest {
		r.Owner = ""
	}
	if s.starved || !rest && r.Phase == Waiting && r.NextAt.IsZero() {
		r.NextAt = s.now // a look is open: whoever is given the run takes it again
	}
	if r.Phase.Final() {
		r.NextAt = time.Time{}
	}
	r.Mail = d.mail // what was seen: the store makes the run due if there is more
	d.mu.Unlock()
	w := &Save{Run: r, Consumed: s.consumed, Events: s.events, Mail: s.outbox}
	want := r.Revision
	for try := 0; ; try++ {
		d.mu.Lock() // the store raises the revision and clears marks
		err := d.e.store.Save(d.saveCtx, w)
		d.mu.Unlock()
		if errors.Is(err, ErrConflict) && try > 0 {
			err = d.confirmSave(want)
		}
		if err == nil {
			break
		}
		if errors.Is(err, ErrConflict) || errors.Is(err, ErrFenced) || errors.Is(err, ErrNotFound) {
			return false, false
		}
		if errors.Is(err, OutputTooLarge) && d.pauseTooLarge(err, want) {
			return false, false
		}
		d.e.storeFailed(err)
		if try == 0 {
			d.e.stuck.Add(1)
			defer d.e.stuck.Add(-1)
		}
		if !d.backOff(Retry{First: 50 * time.Millisecond, Longest: 5 * time.Second}.delay(try+1, seed(r.ID, "", try))) {
			return false, false
		}
	}
	d.e.storeRecovered()
	d.e.publish(r, s.events)
	s.events, s.consumed, s.outbox, s.changed = s.events[:0], s.consumed[:0], s.outbox[:0], false
	return true, true
}

// tooLarge pauses a run that the store refuses to hold with what was to be saved:
// trying again would not help, and is no trouble of the store. What is paused is
// the run as it was saved last; the steps under way there count as lost. false: that could
// not be saved either.
func (d *driver) pauseTooLarge(why error, want int64) bool {
	r, signals, err := d.e.store.Load(d.saveCtx, d.s.run.ID)
	if err != nil || r.Revision != want || r.Epoch != d.s.run.Epoch || r.Phase == Paused || r.Phase == Queued || r.Phase.Final() {
		return false
	}
	s := newState(r, d.s.plan, signals)
	s.now = now()
	f := s.faultOf(why)
	most := -1
	for _, rec := range d.s.run.Changed() { // the one that says most
		if len(rec.Output) > most {
			most, f.Step, f.Attempt = len(rec.Output), rec.Name, rec.Attempt
		}
	}
	for rec := range r.Steps() {
		if rec.Phase == StepRunning {
			rec.Phase, rec.NextAt = StepRetrying, s.now
			s.put(rec)
		}
	}
	s.healers = d.s.healers
	s.pause(f, Event{Actor: "engine"})
	r.Owner, r.NextAt = "", s.soonest
	if err := d.e.store.Save(d.saveCtx, &Save{Run: r, Consumed: s.consumed, Events: s.events, Mail: s.outbox}); err != nil {
		return false
	}
	d.e.publish(r, s.events)
	return true
}

// runLimit is how many bytes input and outputs of a run may have.
func (e *Engine) runLimit() int {
	if b, ok := e.store.(Bounded); ok {
		return min(b.RunLimit(), MaxRun)
	}
	return MaxRun
}

// happened finds out whether a save with an unknown result was made; if not,
// the run was changed by someone else.
func (d *driver) confirmSave(want int64) error {
	r := d.s.run
	stored, _, err := d.e.store.Load(d.saveCtx, r.ID)
	if err != nil {
		return err
	}
	if stored.Revision != want+1 || stored.Epoch != r.Epoch || stored.Seq != r.Seq {
		return ErrConflict
	}
	r.Revision, r.Mail, r.Handle = stored.Revision, stored.Mail, stored.Handle
	for _, rec := range r.Changed() {
		if other := stored.Step(rec.Name); other != nil {
			rec.Row = other.Row
		}
	}
	r.Clean()
	return nil
}

// pauseFor waits between tries at the store; outcomes of open attempts are kept meanwhile.
func (d *driver) backOff(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-d.saveCtx.Done():
		return false
	case <-d.revoked():
		return false
	}
}

func (d *driver) revoked() <-chan struct{} {
	if errors.Is(context.Cause(d.ctx), ErrDraining) {
		return nil
	}
	return d.ctx.Done()
}
