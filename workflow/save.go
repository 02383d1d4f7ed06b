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
		err := d.e.store.Save(d.life, w)
		d.mu.Unlock()
		if errors.Is(err, ErrConflict) && try > 0 {
			err = d.happened(want)
		}
		if err == nil {
			break
		}
		if errors.Is(err, ErrConflict) || errors.Is(err, ErrFenced) || errors.Is(err, ErrNotFound) {
			return false, false
		}
		d.e.trouble(err)
		if try == 0 {
			d.e.stuck.Add(1)
			defer d.e.stuck.Add(-1)
		}
		if !d.pauseFor(Retry{First: 50 * time.Millisecond, Longest: 5 * time.Second}.delay(try+1, seed(r.ID, "", try))) {
			return false, false
		}
	}
	d.e.well()
	d.e.publish(r, s.events)
	s.events, s.consumed, s.outbox, s.changed = s.events[:0], s.consumed[:0], s.outbox[:0], false
	return true, true
}

// happened finds out whether a save with an unknown result was made; if not,
// the run was changed by someone else.
func (d *driver) happened(want int64) error {
	r := d.s.run
	stored, _, err := d.e.store.Load(d.life, r.ID)
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
func (d *driver) pauseFor(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-d.life.Done():
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
