package runstore

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"

	"github.com/pawl-dev/pawl/fault"
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
	if err := s.assignSlot(ctx, e); err != nil {
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
	l, err := load(e.object)
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
		if err := s.ensureAlive(ctx, r.Owner, 0); err != nil {
			return nil, err
		}
	}
	if !r.Inline {
		if err := s.checkQueue(r.Subject); err != nil {
			return nil, err
		}
	}
	if e := s.requestedObject(r.RequestID); e != nil {
		return e, s.adopt(ctx, e, r, events)
	}
	o := &object{name: s.format.name(r.ID), namespace: s.namespaceOf(r.Subject), runID: r.ID, operator: s.o.Operator, spec: specOf(r)}
	if !s.serves(o.namespace, r.Subject, o.operator) {
		return nil, runtype.InputInvalid.Errorf("kube/runstore: a run of %s would remain undone: this store does not serve it (Options.Namespaces, Options.Serves)", r.Subject)
	}
	o.spec.Birth = initialStatus(r, events)
	if !validName(o.name) {
		return nil, runtype.InputInvalid.Errorf("%q is not the id of a run", r.ID)
	}
	if s.o.Owner != nil {
		if owner := s.o.Owner(r.Subject); owner != nil {
			o.owners = []metav1.OwnerReference{*owner}
		}
	}
	body, err := s.format.create(o)
	if err != nil {
		return nil, err
	}
	meta, err := s.client.Post(ctx, s.runRef(o.namespace, ""), body)
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
	o.uid, o.version = string(meta.UID), parseVersion(meta.ResourceVersion)
	o.resolveStatus()
	if s.o.Kind == ConfigMap { // it begins with its status
		o.fresh = false
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
func (s *Store) untrack(ctx context.Context, o *object) {
	body, err := client.Encode(tree{"metadata": tree{"resourceVersion": versionText(o.version), "managedFields": client.Untracked}})
	if err != nil {
		return
	}
	if meta, err := s.client.Patch(ctx, s.runRef(o.namespace, o.name), "", body); err == nil {
		o.version = parseVersion(meta.ResourceVersion)
	}
}

// initialStatus returns the status that a run begins with.
func initialStatus(r *runtype.Run, events []runtype.Event) *api.RunStatus {
	first := *r
	first.Phase, first.Revision, first.Queue, first.Mail = runtype.Running, 1, 0, 0
	if first.Owner == "" && first.NextAt.IsZero() {
		first.NextAt = time.Now().UTC()
	}
	initial := headOf(&first)
	initial.Steps = map[string]api.RunStep{}
	for _, record := range r.Changed() {
		initial.Steps[record.Name] = stepOf(record)
	}
	initial.Events = map[string]api.RunEvent{}
	for i := range events {
		initial.Events[number(events[i].Seq)] = eventOf(&events[i], "")
	}
	return &initial
}

// undoCreate deletes a new run that found the queue of its subject full.
func (s *Store) undoCreate(ctx context.Context, e *entry) {
	if err := s.client.Delete(context.WithoutCancel(ctx), s.runRef(e.namespace, e.name), e.uid, versionText(e.version)); err != nil && !client.IsNotFound(err) {
		s.log.Warn("kube/runstore: a refused run could not be deleted", "run", e.id(), "error", err)
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
