package runstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/kube/runstore/format"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// outbox delivers signals: those that are sent, and those that runs send to others.
type outbox struct{ *shared }

// Send adds a signal to a run with one guarded patch of its spec. See runstore.Store.
func (s *Store) Send(ctx context.Context, id string, sig runtype.Signal) error {
	return s.outbox.send(ctx, id, sig)
}

func (s *outbox) send(ctx context.Context, id string, sig runtype.Signal) error {
	e, err := s.find(ctx, id)
	if err != nil {
		return err
	}
	if !e.lock(ctx.Done()) {
		return ctx.Err()
	}
	defer e.unlock()
	refreshed := false // a refusal is confirmed by a read
	for try := 0; ; try++ {
		s.mu.Lock()
		trimmed := e.removed || e.trimmed
		s.mu.Unlock()
		if trimmed {
			return s.sendEnded(ctx, e, sig)
		}
		s.mu.Lock()
		unread := e.Unread()
		known, full := e.Knows(sig.ID), len(unread) >= runstore.MaxUnread || len(unread) > 0 && mailSize(e.Object)+len(sig.Payload) > mailBytes
		final := e.Phase().Final()
		p := newSignalEdit(e.Object, sig)
		body, err := s.format.PatchSignals(e.Object, p)
		o := *e.Object
		s.mu.Unlock()
		switch {
		case err != nil:
			return err
		case known:
			return nil
		case (final || full) && !refreshed:
			refreshed = true
			if err := s.refresh(ctx, e); err != nil {
				return err
			}
			continue
		case final:
			return runstore.ErrFinal
		case full:
			return runstore.QueueFull.Errorf("run %s has %d unread signals and no space for %d more bytes: the limits are %d signals and %d bytes", id, len(unread), len(sig.Payload), runstore.MaxUnread, mailBytes)
		}
		meta, err := s.client.Patch(ctx, s.runRef(o.Namespace, o.Name), "", body)
		switch wait, throttled := client.RetryAfter(err); {
		case err == nil:
			s.mu.Lock()
			if e.Version == o.Version {
				e.ApplySignals(p, format.ParseVersion(meta.ResourceVersion))
				s.reindex(e)
				s.notify(id)
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
			return client.StoreError(ctx, "sending signal "+sig.ID+" to run "+id, err)
		}
	}
}

// mailBytes is the maximum size of the payloads of a run's unread signals. The rest of
// the object needs space too.
const mailBytes = 256 << 10

func mailSize(o *format.Object) int {
	size := 0
	for key, s := range o.Spec.Signals {
		if _, read := o.Status.Consumed[key]; !read { // the next signal removes the others
			size += len(s.Payload)
		}
	}
	return size
}

// sendEnded answers for a run that has ended: the cache does not have its signals.
func (s *outbox) sendEnded(ctx context.Context, e *entry, sig runtype.Signal) error {
	o, err := s.read(ctx, e.key.namespace, e.key.name)
	switch {
	case err != nil:
		return err
	case o.Knows(sig.ID):
		return nil
	}
	return runstore.ErrFinal
}

// newSignalEdit adds a signal, and removes the consumed signals from the spec.
func newSignalEdit(o *format.Object, sig runtype.Signal) *format.SignalEdit {
	p := &format.SignalEdit{Mail: o.Spec.Mail + 1}
	p.Add = map[string]api.RunSignal{format.Number(p.Mail): format.SignalOf(&sig)}
	for key := range o.Spec.Signals {
		if _, read := o.Status.Consumed[key]; read {
			p.Remove = append(p.Remove, key)
		}
	}
	return p
}

// deliver sends the signals in the outbox of a run. A receiver that has ended or is
// unknown is no error. Failed deliveries are repeated in the background.
func (s *outbox) deliver(ctx context.Context, e *entry) {
	if err := s.emptyOutbox(ctx, e); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.retryOutbox(e)
	}
}

// emptyOutbox delivers the signals in the outbox. It removes them if the run has no
// owner; else the next save of the owner does.
func (s *outbox) emptyOutbox(ctx context.Context, e *entry) error {
	s.mu.Lock()
	mail := map[string]api.RunMail{}
	for key, m := range e.Status.Outbox {
		if !e.delivered[key] {
			mail[key] = m
		}
	}
	s.mu.Unlock()
	for key, m := range mail {
		d := &format.Decoder{}
		err := s.send(ctx, m.To, d.Signal(&m.Signal))
		if err != nil && !errors.Is(err, runstore.ErrFinal) && !errors.Is(err, runstore.ErrNotFound) {
			return err
		}
		s.mu.Lock()
		if e.delivered == nil {
			e.delivered = map[string]bool{}
		}
		e.delivered[key] = true
		s.mu.Unlock()
	}
	err := s.write(ctx, e, "emptying the outbox of run "+e.key.name, func(e *entry) (*format.Edit, error) {
		if e.Status.Owner != "" || len(e.Status.Outbox) == 0 {
			return nil, nil
		}
		ed := &format.Edit{Head: format.Head(&e.Status), Outbox: map[string]*api.RunMail{}}
		for key := range e.Status.Outbox {
			if e.delivered[key] {
				ed.Outbox[key] = nil
			}
		}
		if len(ed.Outbox) == 0 {
			return nil, nil
		}
		return ed, nil
	})
	if errors.Is(err, runstore.ErrNotFound) {
		return nil
	}
	return err
}

// retryOutbox delivers the signals of a run in the background if its worker could not.
// s.mu is held.
func (s *outbox) retryOutbox(e *entry) {
	s.background("outbox of "+e.key.namespace+"/"+e.key.name, time.Second+rand.N(2*time.Second), func(ctx context.Context) error {
		s.mu.Lock()
		owner, waits := e.Status.Owner, false
		for key := range e.Status.Outbox {
			waits = waits || !e.delivered[key]
		}
		waits = waits || len(e.Status.Outbox) > 0 && owner == ""
		s.mu.Unlock()
		if !waits || e.removed {
			return nil
		}
		return s.emptyOutbox(ctx, e)
	})
}
