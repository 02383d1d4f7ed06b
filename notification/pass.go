package notification

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

const (
	batch        = 100 // events that are sent at once
	page         = 1000
	leaseFor     = 30 * time.Second
	recheckEvery = 5 * time.Second // of secrets that cannot be used
	farAhead     = 10              // pages for nobody after which the cursor is saved nonetheless
)

func (s *Sender) pass(ctx context.Context, w *worker) error {
	for ctx.Err() == nil {
		again, err := s.step(ctx, w)
		switch {
		case fault.Of(err) == fault.WriteConflict:
			o, err := s.options.Objects.Get(ctx, w.object.Ref)
			if fault.Of(err) == control.NotFound || err == nil && o.UID != w.object.UID {
				return nil
			}
			if err != nil {
				return err
			}
			w.see(o)
		case err != nil:
			return err
		case !again:
			return nil
		}
	}
	return ctx.Err()
}

// step makes one write at most: of the lease, or of what became of a batch.
func (s *Sender) step(ctx context.Context, w *worker) (again bool, err error) {
	o, now := w.object, s.options.Now()
	if o.Deleting() {
		return false, nil
	}
	if w.broken != nil { // nobody but a sender writes it
		return false, Invalid.Errorf("status of %s: %w", o.Ref, w.broken)
	}
	if w.status.Holder != s.options.Name && w.status.HeldUntil.After(now) {
		return false, nil
	}
	status := w.statusNow()
	token, fresh := status.untested(o), status.ObservedGeneration != o.Generation
	if _, err := w.spec(); err != nil {
		return false, s.refuse(ctx, w, status, err)
	}
	switch {
	case status.State == StateGone && !fresh:
		if token == "" {
			return false, nil
		}
		status.Tested = &Tested{Token: token, At: now.UTC(), Error: Gone.Title}
		return false, s.save(ctx, w, o, status)
	case status.State == StateInvalid && !fresh && token == "" && now.Before(w.recheck):
		return false, nil
	case status.State == StateInvalid || fresh:
		w.recheck = now.Add(recheckEvery)
		if _, err := s.endpoint(ctx, w); err != nil {
			return false, s.refuse(ctx, w, status, err)
		}
	}
	_, paused := o.Annotations[PauseAnnotation]
	state := StateActive
	if paused {
		state = StatePaused
	}
	changed := status.enter(state, o.Generation, now)
	if status.Cursor == "" {
		if _, status.Cursor, err = s.options.History.Events(ctx, "now", 1); err != nil {
			return false, err
		}
		changed = true
	}
	if id := o.Annotations[RedeliverAnnotation]; id != "" {
		o = o.Copy()
		delete(o.Annotations, RedeliverAnnotation)
		status.redeliver(id, now)
		changed = true
	}
	if changed {
		return true, s.save(ctx, w, o, status)
	}
	next := w.statusNow()
	due, err := s.due(ctx, w, &next, paused)
	if err != nil || len(due) == 0 && !w.moved(next) {
		return false, err
	}
	if len(due) > 0 {
		if status.Holder != s.options.Name || status.HeldUntil.Sub(now) < leaseFor/2 {
			status.Holder, status.HeldUntil = s.options.Name, now.Add(leaseFor).UTC()
			return true, s.save(ctx, w, o, status)
		}
		to, err := s.endpoint(ctx, w)
		if err != nil {
			return false, s.refuse(ctx, w, status, err)
		}
		s.deliver(ctx, to, due)
		if ctx.Err() != nil {
			return false, ctx.Err() // what was refused because the server ends is no attempt
		}
	}
	s.settle(w, &next, due)
	return true, s.save(ctx, w, o, next)
}

// refuse tells in the status why nothing is sent.
func (s *Sender) refuse(ctx context.Context, w *worker, status Status, why error) error {
	o, kind := w.object, fault.Of(why)
	token := status.untested(o)
	if token == "" && status.State == StateInvalid && status.Fault != nil && status.Fault.Message == fault.Message(why) && status.ObservedGeneration == o.Generation {
		return nil
	}
	if token != "" {
		status.Tested = &Tested{Token: token, At: s.options.Now().UTC(), Error: cut(fault.Message(why))}
	}
	status.enter(StateInvalid, o.Generation, s.options.Now())
	status.Fault = s.record(kind, fault.Message(why), o)
	s.options.Logger.Warn("a notification cannot be used", "notification", o.Ref.String(), "error", why)
	return s.save(ctx, w, o, status)
}

func (s *Sender) record(kind *fault.Kind, message string, o control.Object) *control.FaultRecord {
	return &control.FaultRecord{Code: kind.Code, Class: kind.Class, Title: kind.Title, Remedy: kind.Remedy, Message: message, ObservedGeneration: o.Generation, At: s.options.Now().UTC()}
}

// due returns what is to be sent now, and writes into status how far was read then.
func (s *Sender) due(ctx context.Context, w *worker, status *Status, paused bool) (due []*attempt, err error) {
	o, now := w.object, s.options.Now()
	if token := status.untested(o); token != "" {
		e := Event{Type: Test, Time: now.UTC(), Message: o.Ref.String()}
		due = append(due, &attempt{test: token, Delivery: Delivery{ID: "msg_" + o.UID + "_test_" + token, Event: e}})
	}
	if paused {
		return due, nil
	}
	for _, d := range status.Waiting {
		if len(due) < batch && !d.Next.After(now) {
			due = append(due, &attempt{Delivery: d})
		}
	}
	limit := len(due) + min(batch-len(due), MaxWaiting-len(status.Waiting))
	for _, more := range []func(context.Context, *worker, *Status, int) ([]*attempt, error){s.dueRuns, s.dueObjects, s.dueClusters} {
		if len(due) >= limit {
			break
		}
		found, err := more(ctx, w, status, limit-len(due))
		if err != nil {
			return nil, err
		}
		due = append(due, found...)
	}
	return due, nil
}

// dueRuns reads the history of the runs until something is found.
func (s *Sender) dueRuns(ctx context.Context, w *worker, status *Status, room int) (due []*attempt, err error) {
	if w.saved != status.Cursor {
		w.saved, w.read, w.pages = status.Cursor, status.Cursor, 0
	}
	for {
		events, next, err := s.read(ctx, w.target, w.read, room)
		if err != nil {
			return nil, err
		}
		found, err := s.wanted(ctx, w.object.UID, w.target, events)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 || w.pages >= farAhead {
			status.Cursor = next
			return found, nil
		}
		if next == w.read {
			return nil, nil
		}
		w.read, w.pages = next, w.pages+1
	}
}

// read reads a page of the history: the events of the types that the notification wants, as many as there is room for.
func (s *Sender) read(ctx context.Context, t *Target, cursor string, room int) (events []runtype.Event, next string, err error) {
	wants := func(e runtype.Event) bool {
		kind := typeOf(e)
		return kind != "" && among(t.Events, kind)
	}
	from := s.reading()
	if h, ok := s.options.History.(selective); ok {
		events, next, err = from.EventsOf(ctx, h, cursor, room)
	} else if events, next, err = from.Events(ctx, cursor, page); err == nil {
		left := room
		for i, e := range events {
			if wants(e) {
				left--
			}
			if left == 0 && i+1 < len(events) { // the cursor tells nothing smaller than a page
				events, next, err = from.Events(ctx, cursor, i+1)
				break
			}
		}
	}
	var wanted []runtype.Event // other notifications have the same events
	for _, e := range events {
		if wants(e) {
			wanted = append(wanted, e)
		}
	}
	return wanted, next, err
}

// wanted returns those events that the filter lets through. A run that retention has removed is told of no more.
func (s *Sender) wanted(ctx context.Context, uid string, t *Target, events []runtype.Event) (due []*attempt, err error) {
	if len(events) == 0 {
		return nil, nil
	}
	runs, err := s.reading().Runs(ctx, events)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		if r := runs[e.Run]; r != nil {
			if e := eventOf(e, r); t.Wants(e) {
				due = append(due, &attempt{Delivery: Delivery{ID: e.ID(uid), Event: e}})
			}
		}
	}
	return due, nil
}

// settle writes into a status what became of a batch.
func (s *Sender) settle(w *worker, status *Status, done []*attempt) {
	now := s.options.Now()
	for _, a := range done {
		if a.test != "" {
			status.Tested = &Tested{Token: a.test, ID: a.ID, At: now.UTC()}
			if a.err != nil {
				status.Tested.Error = cut(a.err.Error())
			}
		} else {
			s.settleEvent(w.target, status, a, now)
		}
		if a.gone {
			status.enter(StateGone, w.object.Generation, now)
			status.Fault = s.record(Gone, Gone.Title, w.object)
		}
	}
}

func (s *Sender) settleEvent(t *Target, status *Status, a *attempt, now time.Time) {
	status.Waiting = slices.DeleteFunc(status.Waiting, func(d Delivery) bool { return d.ID == a.ID })
	delay := now.Sub(a.Event.Time)
	if a.err == nil {
		status.Sent++
		status.LastSent = now.UTC()
		s.options.Observe("sent", delay)
		return
	}
	status.Failed++
	s.options.Observe("failed", delay)
	d := a.Delivery
	d.Error = cut(a.err.Error())
	if !a.gone {
		d.Attempts++
	}
	if d.Attempts >= t.Attempts {
		status.giveUp(d, now)
		s.options.Observe("dead", delay)
		return
	}
	d.Next = now.Add(Delay(max(1, d.Attempts), rand.Float64(), a.asked)).UTC() //nolint:gosec // jitter is no secret
	status.Waiting = append(status.Waiting, d)
}

// save writes a status. Where a person changed the object meanwhile, the status goes onto the
// change: only a sender with the lease writes more than that.
func (s *Sender) save(ctx context.Context, w *worker, o control.Object, status Status) error {
	data, err := json.Marshal(status)
	if err != nil {
		return err
	}
	before := o.Status
	next := o.Copy()
	next.Status = data
	next, err = s.options.Objects.Update(ctx, next)
	for fault.Of(err) == fault.WriteConflict {
		now, getErr := s.options.Objects.Get(ctx, o.Ref)
		if getErr != nil {
			return getErr
		}
		if now.UID != o.UID || !bytes.Equal(now.Status, before) {
			return err
		}
		now.Status = data
		next, err = s.options.Objects.Update(ctx, now)
	}
	if err == nil {
		w.see(next)
	}
	return err
}
