package workflow

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// saving saves what a decision has changed.
type saving struct{ *driver }

func (d *driver) saving() saving { return saving{d} }

// save makes the decision durable before any attempt starts. It retries while the store does not
// answer. ok is false if the worker does not own the run any more.
func (d saving) save(rest bool) (saved, ok bool) {
	s, r := d.s, d.s.run
	if rest && d.printed { // whoever sees that the run rests sees its lines
		d.printed = false
		d.e.logs.Flush()
	}
	if !s.changed && len(r.Changed()) == 0 && len(s.consumed) == 0 {
		return false, true
	}
	d.mu.Lock()
	r.Owner = d.e.options.Worker
	if rest {
		r.Owner = ""
	}
	if s.starved || !rest && r.Phase == runtype.Waiting && r.NextAt.IsZero() {
		r.NextAt = s.now // a poll is open: the next owner of the run repeats it
	}
	if r.Phase.Final() {
		r.NextAt = time.Time{}
	}
	r.Mail = d.mail // signals read so far: the store makes the run due if there are more
	d.mu.Unlock()
	w := &runstore.Save{Run: r, Consumed: s.consumed, Events: s.events, Mail: s.outbox}
	want := r.Revision
	for try := 0; ; try++ {
		d.mu.Lock() // the store raises the revision and clears Changed
		err := d.e.store.Save(d.saveCtx, w)
		d.mu.Unlock()
		if errors.Is(err, runstore.ErrConflict) && try > 0 {
			err = d.confirmSave(want)
		}
		if err == nil {
			break
		}
		if errors.Is(err, runstore.ErrConflict) || errors.Is(err, runstore.ErrFenced) || errors.Is(err, runstore.ErrNotFound) {
			return false, false
		}
		if errors.Is(err, runtype.OutputTooLarge) && d.pauseTooLarge(err, want) {
			return false, false
		}
		d.e.health.failed(err)
		if try == 0 {
			d.e.health.stuck.Add(1)
			defer d.e.health.stuck.Add(-1)
		}
		if !d.backOff(Retry{First: 50 * time.Millisecond, Longest: 5 * time.Second}.delay(try+1, seed(r.ID, "", try))) {
			return false, false
		}
	}
	d.e.health.answered()
	d.e.publish(r, s.events)
	s.draft.clear()
	return true, true
}

// pauseTooLarge pauses a run that the store refuses because it is too large. A retry would not
// help, and the store is healthy. It pauses the run as it was saved last; the open steps count as
// lost. It returns false if that save failed, too.
func (d saving) pauseTooLarge(why error, want int64) bool {
	r, signals, err := d.e.store.Load(d.saveCtx, d.s.run.ID)
	if err != nil || r.Revision != want || r.Epoch != d.s.run.Epoch || r.Phase == runtype.Paused || r.Phase == runtype.Queued || r.Phase.Final() {
		return false
	}
	s := newState(r, d.s.plan, signals)
	s.now = now()
	f := s.faultOf(why)
	most := -1
	for _, rec := range d.s.run.Changed() { // the record with the largest output
		if len(rec.Output) > most {
			most, f.Step, f.Attempt = len(rec.Output), rec.Name, rec.Attempt
		}
	}
	for rec := range r.Steps() {
		if rec.Phase == runtype.StepRunning {
			rec.Phase, rec.NextAt = runtype.StepRetrying, s.now
			s.put(rec)
		}
	}
	s.healers = d.s.healers
	s.pause(f, runtype.Event{Actor: "engine"})
	r.Owner, r.NextAt = "", s.soonest
	if err := d.e.store.Save(d.saveCtx, &runstore.Save{Run: r, Consumed: s.consumed, Events: s.events, Mail: s.outbox}); err != nil {
		return false
	}
	d.e.publish(r, s.events)
	return true
}

// runLimit returns the largest total size in bytes of the input and the outputs of a run.
func (e *Engine) runLimit() int {
	if b, ok := e.store.(runstore.Bounded); ok {
		return min(b.RunLimit(), runtype.MaxRun)
	}
	return runtype.MaxRun
}

// confirmSave finds out whether a save with an unknown result succeeded. If not, something else has
// changed the run.
func (d saving) confirmSave(want int64) error {
	r := d.s.run
	stored, _, err := d.e.store.Load(d.saveCtx, r.ID)
	if err != nil {
		return err
	}
	if stored.Revision != want+1 || stored.Epoch != r.Epoch || stored.Seq != r.Seq {
		return runstore.ErrConflict
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

// backOff waits between attempts to save. The outcomes of open attempts are kept meanwhile.
func (d saving) backOff(wait time.Duration) bool {
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

func (d saving) revoked() <-chan struct{} {
	if errors.Is(context.Cause(d.ctx), ErrDraining) {
		return nil
	}
	return d.ctx.Done()
}
