package runstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/kube/runstore/format"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Limits of the history in a run's object. When it has more than
// keepEvents+historyEvents events, the oldest historyEvents move to an object of their
// own.
const (
	keepEvents    = 50
	historyEvents = 100
	historyBytes  = 512 << 10
	eventBytes    = 128 << 10 // when the events in the object are larger, the older half moves
)

// write changes the status of a run. decide gets the newest known object and returns
// the edit; nil: no write. If the object has changed meanwhile, write reads it and calls
// decide again: it writes only over the version that decide has seen.
func (s *shared) write(ctx context.Context, e *entry, what string, decide func(e *entry) (*format.Edit, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !e.lock(ctx.Done()) {
		return ctx.Err()
	}
	defer e.unlock()
	return s.writeLocked(ctx, e, what, decide)
}

// errStale is returned by a decide function if the cache is older than the version that
// the caller has seen.
var errStale = errors.New("the cache is behind")

// tries is how often a write is repeated after conflicts.
const tries = 20

func (s *shared) writeLocked(ctx context.Context, e *entry, what string, decide func(e *entry) (*format.Edit, error)) error {
	for try := 0; ; try++ {
		s.mu.Lock()
		if e.removed || e.trimmed {
			s.mu.Unlock()
			if err := s.refreshWhole(ctx, e); err != nil {
				return err
			}
			s.mu.Lock()
		}
		ed, err := decide(e)
		var body []byte
		if err == nil && ed != nil {
			ed.AddInitial(e.Object)
			body, err = s.format.Save(e.Object, ed)
		}
		o := *e.Object
		s.mu.Unlock()
		if errors.Is(err, errStale) && try < tries {
			if err := s.refresh(ctx, e); err != nil {
				return err
			}
			continue
		}
		if err != nil || ed == nil {
			return err
		}
		version, err := s.saveRun(ctx, &o, body)
		switch wait, throttled := client.RetryAfter(err); {
		case err == nil:
			s.mu.Lock()
			if e.Version == o.Version { // or the watch was faster
				e.Apply(ed, version)
				s.reindex(e)
			}
			s.mu.Unlock()
			return nil
		case client.IsNotFound(err):
			s.mu.Lock()
			s.forget(e.key.namespace, e.key.name, 0)
			s.mu.Unlock()
			return runstore.ErrNotFound
		case client.IsConflict(err) && try < tries:
			if err := s.refresh(ctx, e); err != nil {
				return err
			}
		case throttled && try < tries:
			if !sleep(ctx, wait) {
				return ctx.Err()
			}
		default:
			return client.StoreError(ctx, what, err)
		}
	}
}

// refreshWhole reads the object of an entry that is removed or trimmed.
func (s *shared) refreshWhole(ctx context.Context, e *entry) error {
	o, err := s.read(ctx, e.key.namespace, e.key.name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.removed {
		return runstore.ErrNotFound
	}
	e.Object, e.trimmed = o, false
	s.reindex(e)
	return nil
}

// Save writes what changed of a run: one merge patch. See runstore.Store.
func (s *Store) Save(ctx context.Context, w *runstore.Save) error {
	r := w.Run
	e, err := s.find(ctx, r.ID)
	if err != nil {
		return err
	}
	if err := s.history.moveHistory(ctx, e); err != nil {
		return err
	}
	var before runtype.Phase
	var mail int64
	refreshed := false
	err = s.write(ctx, e, "saving run "+r.ID, func(e *entry) (*format.Edit, error) {
		if e.Status.Revision < r.Revision && !refreshed {
			refreshed = true
			return nil, errStale
		}
		if err := checkCurrent(e.Object, r); err != nil {
			return nil, err
		}
		before, mail = e.Phase(), e.Spec.Mail
		return editOf(e, w), nil
	})
	if err != nil {
		return err
	}
	r.Revision, r.Mail = r.Revision+1, mail
	r.Clean()
	s.history.announce(e, r, w.Events)
	if len(w.Mail) > 0 {
		s.outbox.deliver(ctx, e)
	}
	if r.Phase.Final() && !before.Final() && before != runtype.Queued && !r.Inline {
		s.slots.passOn(ctx, e)
	}
	s.mu.Lock()
	if r.Owner == "" && !r.Phase.Final() && e.Spec.Mail > e.Status.Seen {
		s.notify(r.ID)
	}
	s.mu.Unlock()
	return nil
}

// checkCurrent returns an error unless a save replaces exactly the version that its
// caller has seen.
func checkCurrent(o *format.Object, r *runtype.Run) error {
	switch {
	case !o.Accepted() || o.ID() != r.ID:
		return runstore.ErrNotFound
	case o.Status.Epoch > r.Epoch:
		return runstore.ErrFenced
	case o.Status.Revision != r.Revision:
		return runstore.ErrConflict
	case o.Phase() == runtype.Queued && r.Phase != runtype.Queued && !r.Phase.Final():
		return fmt.Errorf("%w: %s is queued behind another run of %s and may only end", runstore.ErrConflict, r.ID, r.Subject)
	}
	return nil
}

// editOf returns the edit for a save.
func editOf(e *entry, w *runstore.Save) *format.Edit {
	r, o := w.Run, e.Object
	next := format.HeadOf(r)
	next.Revision = r.Revision + 1
	next.ID, next.Message, next.LastRequest = o.Status.ID, o.Status.Message, o.Status.LastRequest
	next.InputText, next.RequestID, next.CreatedAt = o.Status.InputText, o.Status.RequestID, o.Status.CreatedAt
	if r.Phase.Final() {
		next.Owner, next.NextAt, next.Queue = "", "", 0
	}
	ed := &format.Edit{Head: next}
	if changed := r.Changed(); len(changed) > 0 {
		ed.Steps = make(map[string]api.RunStep, len(changed))
		for _, record := range changed {
			ed.Steps[record.Name] = format.StepOf(record)
		}
	}
	ed.Events = map[string]*api.RunEvent{}
	for i := range w.Events {
		after := ""
		if i == 0 {
			after = format.VersionText(o.Version)
		}
		event := format.EventOf(&w.Events[i], after)
		ed.Events[format.Number(w.Events[i].Seq)] = &event
	}
	for _, seq := range movedEvents(e) {
		ed.Events[format.Number(seq)] = nil
	}
	ed.Consume(o, w.Consumed)
	for key := range o.Status.Outbox {
		if e.delivered[key] {
			if ed.Outbox == nil {
				ed.Outbox = map[string]*api.RunMail{}
			}
			ed.Outbox[key] = nil
		}
	}
	for i, post := range w.Mail {
		if ed.Outbox == nil {
			ed.Outbox = map[string]*api.RunMail{}
		}
		ed.Outbox[strconv.FormatInt(next.Revision, 10)+"-"+strconv.Itoa(i)] = &api.RunMail{To: post.To, Signal: format.SignalOf(&post.Signal)}
	}
	return ed
}

// sizeOf estimates the size of events in an object, in bytes.
func sizeOf(events map[string]api.RunEvent) int {
	size := 0
	for _, event := range events {
		size += eventSize(&event)
	}
	return size
}

func eventSize(e *api.RunEvent) int { return len(e.Data) + len(e.Message) + 300 }

// movedEvents returns the numbers of the events that are still in the run although a
// history object has them.
func movedEvents(e *entry) []int64 {
	if e.movedSeq == 0 {
		return nil
	}
	var list []int64
	for key := range e.Status.Events {
		d := &format.Decoder{}
		if seq := d.Number(key); seq <= e.movedSeq {
			list = append(list, seq)
		}
	}
	return list
}

// moveHistory copies the oldest events of a run that has too many to an object of their
// own. The next save removes them from the run.
func (s *history) moveHistory(ctx context.Context, e *entry) error {
	s.mu.Lock()
	st := &e.Status
	many, large := len(st.Events) >= keepEvents+historyEvents, len(st.Events) > 1 && sizeOf(st.Events) > eventBytes
	if !many && !large || e.movedSeq > 0 && len(movedEvents(e)) > 0 || e.Fresh {
		s.mu.Unlock()
		return nil
	}
	keys := slices.SortedFunc(maps.Keys(st.Events), format.ByNumber)
	if many {
		keys = keys[:historyEvents]
	} else {
		keys = keys[:len(keys)/2]
	}
	d := &format.Decoder{}
	var events []runtype.Event
	size := 0
	for _, key := range keys {
		event := st.Events[key]
		if size += eventSize(&event); size > historyBytes/2 && len(events) > 0 {
			break
		}
		events = append(events, d.Event(e.ID(), d.Number(key), &event))
	}
	o := *e.Object
	s.mu.Unlock()
	if d.Err != nil {
		return runstore.StoreCorrupt.Errorf("run %s: %w", o.ID(), d.Err)
	}
	body, err := s.format.NewHistory(&o, events)
	if err != nil {
		return err
	}
	group, resource := s.format.HistoryResource()
	if _, err := s.client.Post(ctx, client.Ref{Group: group, Resource: resource, Namespace: o.Namespace}, body); err != nil && !client.IsExisting(err) {
		return client.StoreError(ctx, "moving the history of run "+o.ID(), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Object != nil && e.UID == o.UID {
		e.movedSeq = max(e.movedSeq, events[len(events)-1].Seq)
	}
	return nil
}
