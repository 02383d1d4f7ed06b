package runstore

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/kube/runstore/format"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Create stores a new run. See runstore.Store.
func (s *Store) Create(ctx context.Context, r *runtype.Run, events []runtype.Event) (*runtype.Run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	e := s.cache.ids[r.ID]
	s.mu.Unlock()
	created := e == nil
	if created {
		var err error
		if e, err = s.createObject(ctx, r, events); err != nil {
			return nil, err
		}
	}
	if err := s.slots.assignSlot(ctx, e); err != nil {
		if created && fault.Of(err) == runstore.QueueFull {
			s.undoCreate(ctx, e)
		}
		return nil, err
	}
	s.mu.Lock()
	trimmed := e.trimmed
	s.mu.Unlock()
	if trimmed { // it ended long ago
		known, _, err := s.Load(ctx, r.ID)
		return known, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := format.Load(e.Object)
	if err != nil {
		return nil, err
	}
	if l.Run.Owner != "" && created {
		e.claimer, e.epoch = l.Run.Owner, l.Run.Epoch
	}
	if l.Run.Owner == "" && created && l.Run.Phase == runtype.Running {
		s.notify(l.Run.ID)
	}
	return l.Run, nil
}

// createObject creates the object of a run, with the initial status in its spec.
func (s *Store) createObject(ctx context.Context, r *runtype.Run, events []runtype.Event) (*entry, error) {
	if r.Owner != "" {
		if err := s.workers.ensureAlive(ctx, r.Owner, 0); err != nil {
			return nil, err
		}
	}
	if !r.Inline {
		if err := s.checkQueue(r.Subject); err != nil {
			return nil, err
		}
	}
	if e := s.starter.requestedObject(r.RequestID); e != nil {
		return e, s.starter.adopt(ctx, e, r, events)
	}
	o := &format.Object{Name: s.format.Name(r.ID), Namespace: s.namespaceOf(r.Subject), RunID: r.ID, Operator: s.o.Operator, Spec: format.SpecOf(r)}
	if !s.serves(o.Namespace, r.Subject, o.Operator) {
		return nil, runtype.InputInvalid.Errorf("kube/runstore: a run of %s would remain undone: this store does not serve it (Options.Namespaces, Options.Serves)", r.Subject)
	}
	o.Spec.Birth = initialStatus(r, events)
	if !validName(o.Name) {
		return nil, runtype.InputInvalid.Errorf("%q is not the id of a run", r.ID)
	}
	if s.o.Owner != nil {
		if owner := s.o.Owner(r.Subject); owner != nil {
			o.Owners = []metav1.OwnerReference{*owner}
		}
	}
	body, err := s.format.Create(o)
	if err != nil {
		return nil, err
	}
	meta, err := s.client.Post(ctx, s.runRef(o.Namespace, ""), body)
	if client.IsExisting(err) {
		e, err := s.find(ctx, r.ID)
		if err == nil {
			err = s.refresh(ctx, e)
		}
		return e, err
	}
	if err != nil {
		return nil, client.StoreError(ctx, "creating run "+r.ID, err)
	}
	o.UID, o.Version = string(meta.UID), format.ParseVersion(meta.ResourceVersion)
	o.ResolveStatus()
	if s.o.Kind == ConfigMap { // it begins with its status
		o.Fresh = false
	} else if client.Tracked(meta.ManagedFields) {
		s.untrack(ctx, o)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.upsert(o), nil
}

// untrack clears managedFields, which a write of the status cannot do. With that list
// the answer to each save is twice as large. If the request fails, the list stays or the
// next write is a conflict.
func (s *Store) untrack(ctx context.Context, o *format.Object) {
	body, err := client.Encode(format.Tree{"metadata": format.Tree{"resourceVersion": format.VersionText(o.Version), "managedFields": client.Untracked}})
	if err != nil {
		return
	}
	if meta, err := s.client.Patch(ctx, s.runRef(o.Namespace, o.Name), "", body); err == nil {
		o.Version = format.ParseVersion(meta.ResourceVersion)
	}
}

// initialStatus returns the status that a run begins with.
func initialStatus(r *runtype.Run, events []runtype.Event) *api.RunStatus {
	first := *r
	first.Phase, first.Revision, first.Queue, first.Mail = runtype.Running, 1, 0, 0
	if first.Owner == "" && first.NextAt.IsZero() {
		first.NextAt = time.Now().UTC()
	}
	initial := format.HeadOf(&first)
	initial.Steps = map[string]api.RunStep{}
	for _, record := range r.Changed() {
		initial.Steps[record.Name] = format.StepOf(record)
	}
	initial.Events = map[string]api.RunEvent{}
	for i := range events {
		initial.Events[format.Number(events[i].Seq)] = format.EventOf(&events[i], "")
	}
	return &initial
}

// undoCreate deletes a new run that found the queue of its subject full.
func (s *Store) undoCreate(ctx context.Context, e *entry) {
	if err := s.client.Delete(context.WithoutCancel(ctx), s.runRef(e.Namespace, e.Name), e.UID, format.VersionText(e.Version)); err != nil && !client.IsNotFound(err) {
		s.log.Warn("kube/runstore: a refused run could not be deleted", "run", e.ID(), "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(e.key.namespace, e.key.name, 0)
}

// checkQueue refuses a run before anything is written if the cached queue of its subject
// is full. assignSlot checks again.
func (s *Store) checkQueue(subject string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sub := s.cache.subjects[subject]; sub != nil && sub.active > 0 && sub.queued >= runstore.MaxQueued {
		return runstore.QueueFull.Errorf("%d runs of %s wait already", runstore.MaxQueued, subject)
	}
	return nil
}
