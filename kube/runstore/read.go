package runstore

import (
	"context"
	"errors"
	"sort"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/kube/runstore/format"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// read reads the newest version of an object from the API server. ErrNotFound.
func (s *shared) read(ctx context.Context, namespace, name string) (*format.Object, error) {
	into := s.format.NewObject()
	if err := s.client.Get(ctx, s.runRef(namespace, name), into); err != nil {
		if client.IsNotFound(err) {
			return nil, runstore.ErrNotFound
		}
		return nil, client.StoreError(ctx, "reading run "+namespace+"/"+name, err)
	}
	return s.format.Decode(into)
}

// refresh reads the object of an entry. It removes the entry if the object was deleted.
func (s *shared) refresh(ctx context.Context, e *entry) error {
	o, err := s.read(ctx, e.key.namespace, e.key.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, runstore.ErrNotFound) {
		s.forget(e.key.namespace, e.key.name, 0)
		return err
	}
	if err != nil {
		return err
	}
	if e.foreign && e.UID == o.UID {
		e.Object = o
		return nil
	}
	if now := s.upsert(o); now != e {
		return runstore.ErrNotFound // another run of the same name
	}
	return nil
}

// find returns the entry of a run: from the cache, or from the API server if the watch
// has not reported it yet. ErrNotFound.
func (s *shared) find(ctx context.Context, id string) (*entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	e := s.cache.ids[id]
	s.mu.Unlock()
	if e != nil {
		return e, nil
	}
	if !validName(s.format.Name(id)) {
		return nil, runstore.ErrNotFound
	}
	list := s.format.NewList()
	_, _, selector, _ := s.format.Resource()
	err := s.client.List(ctx, s.runRef(s.watchNamespace(), ""), metav1.ListOptions{FieldSelector: "metadata.name=" + s.format.Name(id), LabelSelector: selector}, list)
	if err != nil {
		return nil, client.StoreError(ctx, "looking for run "+id, err)
	}
	for _, item := range s.format.Items(list) {
		o, err := s.format.Decode(item)
		if err != nil {
			return nil, err
		}
		if o.ID() == id && o.Accepted() {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.upsert(o), nil
		}
	}
	return nil, runstore.ErrNotFound
}

// validName reports whether a text is a valid name of an object.
func validName(name string) bool {
	return name != "" && len(name) <= 253 && !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.'
	})
}

// Load reads a run and its unread signals from the API server. See runstore.Store.
func (s *Store) Load(ctx context.Context, id string) (*runtype.Run, []runtype.Signal, error) {
	e, err := s.find(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	o, err := s.read(ctx, e.key.namespace, e.key.name)
	if errors.Is(err, runstore.ErrNotFound) {
		s.mu.Lock()
		s.forget(e.key.namespace, e.key.name, 0)
		s.mu.Unlock()
	}
	if err != nil {
		return nil, nil, err
	}
	if o.ID() != id {
		return nil, nil, runstore.ErrNotFound
	}
	l, err := format.Load(o) // before upsert, which may trim o
	s.mu.Lock()
	defer s.mu.Unlock()
	if e = s.upsert(o); e.Version > o.Version && !e.trimmed && e.ID() == id {
		l, err = format.Load(e.Object)
	}
	return l.Run, l.Signals, err
}

// List returns runs without their step records. See runstore.Lister.
func (s *Store) List(ctx context.Context, q runstore.Query) ([]*runtype.Run, string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pool := s.cache.byCreation()
	limit := q.PageSize()
	from, step := len(pool)-1, -1
	if q.OldestFirst {
		from, step = 0, 1
	}
	if q.Cursor != "" {
		created, id, err := parseCursor(q.Cursor)
		if err != nil {
			return nil, "", err
		}
		mark := &entry{Object: &format.Object{RunID: id}, created: created}
		if q.OldestFirst {
			from = sort.Search(len(pool), func(i int) bool { return pool[i].after(mark) })
		} else {
			from = sort.Search(len(pool), func(i int) bool { return !mark.after(pool[i]) }) - 1
		}
	}
	var found []*runtype.Run
	var last *entry
	for i := from; i >= 0 && i < len(pool); i += step {
		e := pool[i]
		if e.removed || !matches(&q, e) {
			continue
		}
		if len(found) == limit {
			return found, strconv.FormatInt(last.created, 10) + "." + last.ID(), nil
		}
		last = e
		r, err := listed(e.Object)
		if err != nil {
			return nil, "", err
		}
		found = append(found, r)
	}
	return found, "", nil
}

// Count counts runs. See runstore.Lister.
func (s *Store) Count(ctx context.Context, q runstore.Query) ([]runstore.RunCount, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var counter runstore.Counter
	for _, e := range s.cache.sorted {
		if e.removed {
			continue
		}
		if head := headOf(e); q.Matches(&head) {
			counter.Add(&head)
		}
	}
	return counter.Counts(), nil
}

// matches applies a query to an object before it is decoded.
func matches(q *runstore.Query, e *entry) bool {
	head := headOf(e)
	return q.Matches(&head)
}

// headOf returns the fields that a query names.
func headOf(e *entry) runtype.Run {
	head := runtype.Run{ID: e.ID(), Phase: e.Phase(), Flow: e.Spec.Flow, Subject: e.Subject(), Hash: e.Status.Hash, Parent: e.Spec.Parent, Labels: e.Spec.Labels,
		CreatedAt: time.Unix(0, e.created)}
	if head.Phase == runtype.Paused && e.Status.Fault != nil {
		head.Fault = &runtype.Fault{Code: fault.Code(e.Status.Fault.Code)}
	}
	return head
}

// listed decodes a run with only the record of its current step.
func listed(o *format.Object) (*runtype.Run, error) {
	d := &format.Decoder{}
	r := d.Run(o)
	var records []*runtype.StepRecord
	for name, s := range o.Status.Steps {
		switch runtype.StepPhase(s.Phase) {
		case runtype.StepFailed, runtype.StepRunning, runtype.StepRetrying, runtype.StepWaiting:
			records = append(records, d.Step(name, &s))
		}
	}
	r.Restore(records)
	if current := r.Current(); current != nil {
		r.Restore([]*runtype.StepRecord{current})
	}
	if d.Err != nil {
		return nil, runstore.StoreCorrupt.Errorf("run %s: %w", r.ID, d.Err)
	}
	return r, nil
}

func parseCursor(cursor string) (int64, string, error) {
	created, id, ok := strings.Cut(cursor, ".")
	n, err := strconv.ParseInt(created, 10, 64)
	if !ok || err != nil {
		return 0, "", runtype.InputInvalid.Errorf("cursor %q is not from an earlier answer", cursor)
	}
	return n, id, nil
}
