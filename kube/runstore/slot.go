package runstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/kube/runstore/format"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// slots lets one run of a subject be active at a time.
type slots struct {
	*shared
	slots    map[string]*slot // by slotKey: the version read or written last
	unused   []unusedSlot     // Leases to delete
	deleting bool             // a goroutine deletes them
	sweptAt  time.Time        // last sweep of all slots
}

const (
	leaseGroup    = "coordination.k8s.io"
	leaseResource = "leases"
)

// slot is the Lease of a subject: the object of the run that holds it, the queued
// runs in order, and the newest queue number. It does not expire: a holder gives it up
// by finishing, and the process that notices passes it on.
type slot struct {
	version uint64 // 0: the Lease does not exist
	holder  string
	last    int64
	queue   []queued
	tracked bool // the Lease has managedFields
	owned   bool // it has an owner and is deleted with it
}

type queued struct {
	name   string
	number int64
}

// slotDecision is the result of admit and promoteNext.
type slotDecision struct {
	next    slot
	write   bool
	number  int64  // in the queue; 0: the run holds the slot
	promote string // the run that holds the slot after the write
}

// admit decides whether a new run gets the slot or a number in its queue. finished
// reports that a run has ended or was deleted.
func (sl slot) admit(name string, finished func(name string) bool) (slotDecision, error) {
	if sl.holder == name {
		return slotDecision{}, nil
	}
	for _, q := range sl.queue {
		if q.name == name {
			return slotDecision{number: q.number}, nil
		}
	}
	v := slotDecision{next: sl, write: true}
	if sl.holder == "" || finished(sl.holder) {
		v.next.holder, v.next.queue = first(sl.queue, finished)
		if v.next.holder == "" {
			v.next.holder = name
			return v, nil
		}
		v.promote = v.next.holder
	}
	if len(v.next.queue) >= runstore.MaxQueued {
		if v.next.queue = unfinished(v.next.queue, finished); len(v.next.queue) >= runstore.MaxQueued {
			return slotDecision{}, runstore.QueueFull.Errorf("%d runs wait already", runstore.MaxQueued)
		}
	}
	v.next.last++
	v.number = v.next.last
	v.next.queue = append(v.next.queue[:len(v.next.queue):len(v.next.queue)], queued{name, v.number})
	return v, nil
}

// promoteNext decides which run holds the slot when its holder may have ended.
func (sl slot) promoteNext(finished func(name string) bool) slotDecision {
	if sl.holder != "" && !finished(sl.holder) {
		return slotDecision{promote: sl.holder}
	}
	next := sl
	next.holder, next.queue = first(sl.queue, finished)
	return slotDecision{next: next, write: next.holder != "", promote: next.holder}
}

// first removes the first run that is not finished from the queue.
func first(queue []queued, finished func(name string) bool) (string, []queued) {
	for i, q := range queue {
		if !finished(q.name) {
			return q.name, queue[i+1:]
		}
	}
	return "", nil
}

func unfinished(queue []queued, finished func(name string) bool) []queued {
	var alive []queued
	for _, q := range queue {
		if !finished(q.name) {
			alive = append(alive, q)
		}
	}
	return alive
}

func (sl slot) text() string {
	parts := make([]string, len(sl.queue))
	for i, q := range sl.queue {
		parts[i] = q.name + "=" + strconv.FormatInt(q.number, 10)
	}
	return strings.Join(parts, ",")
}

func readSlot(l *coordinationv1.Lease) (slot, error) {
	sl := slot{version: format.ParseVersion(l.ResourceVersion), tracked: client.Tracked(l.ManagedFields), owned: len(l.OwnerReferences) > 0}
	if l.Spec.HolderIdentity != nil {
		sl.holder = *l.Spec.HolderIdentity
	}
	var err error
	if text := l.Annotations[format.AnnotationLast]; text != "" {
		if sl.last, err = strconv.ParseInt(text, 10, 64); err != nil {
			return sl, runstore.StoreCorrupt.Errorf("Lease %s/%s: %s: %w", l.Namespace, l.Name, format.AnnotationLast, err)
		}
	}
	for _, part := range strings.Split(l.Annotations[format.AnnotationQueue], ",") {
		if part == "" {
			continue
		}
		name, n, _ := strings.Cut(part, "=")
		number, err := strconv.ParseInt(n, 10, 64)
		if err != nil {
			return sl, runstore.StoreCorrupt.Errorf("Lease %s/%s: %s: %w", l.Namespace, l.Name, format.AnnotationQueue, err)
		}
		sl.queue = append(sl.queue, queued{name, number})
	}
	return sl, nil
}

func slotName(subject string) string { return "pawl-slot-" + format.Digest(subject) }

func slotKey(namespace, subject string) string { return namespace + "\x00" + subject }

// slot returns the slot of a subject from the cache, or reads it.
func (s *slots) slot(ctx context.Context, namespace, subject string) (slot, error) {
	s.mu.Lock()
	known := s.slots[slotKey(namespace, subject)]
	s.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	var l coordinationv1.Lease
	err := s.client.Get(ctx, client.Ref{Group: leaseGroup, Resource: leaseResource, Namespace: namespace, Name: slotName(subject)}, &l)
	if client.IsNotFound(err) {
		return slot{}, nil
	}
	if err != nil {
		return slot{}, client.StoreError(ctx, "reading the slot of "+subject, err)
	}
	sl, err := readSlot(&l)
	if err == nil {
		s.cacheSlot(namespace, subject, &sl)
	}
	return sl, err
}

func (s *slots) cacheSlot(namespace, subject string, sl *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl == nil {
		delete(s.slots, slotKey(namespace, subject))
		return
	}
	s.slots[slotKey(namespace, subject)] = sl
	s.forgetSlot(namespace, subject) // its last run may have been deleted meanwhile
}

// writeSlot writes a decision over exactly the version that it was made for. It
// returns false if another process has written the slot meanwhile.
func (s *slots) writeSlot(ctx context.Context, namespace, subject string, v slotDecision) (bool, error) {
	r := client.Ref{Group: leaseGroup, Resource: leaseResource, Namespace: namespace, Name: slotName(subject)}
	notes := format.Tree{}
	if v.next.last > 0 {
		notes[format.AnnotationLast], notes[format.AnnotationQueue] = strconv.FormatInt(v.next.last, 10), v.next.text()
	}
	spec := format.Tree{"holderIdentity": v.next.holder}
	var owner *metav1.OwnerReference
	if !v.next.owned {
		owner = s.slotOwner(namespace, subject)
	}
	var written metav1.ObjectMeta
	var err error
	if v.next.version == 0 {
		meta := format.NewMeta(r.Name, namespace, format.Marked(map[string]string{format.LabelKind: "slot"}, s.o.Operator))
		notes[format.AnnotationSubject] = subject
		meta["annotations"] = notes
		if owner != nil {
			meta["ownerReferences"] = []metav1.OwnerReference{*owner}
		}
		written, err = s.client.Post(ctx, r, format.Tree{"apiVersion": leaseGroup + "/v1", "kind": "Lease", "metadata": meta, "spec": spec})
	} else {
		meta := format.Tree{"resourceVersion": format.VersionText(v.next.version)}
		if len(notes) > 0 {
			meta["annotations"] = notes
		}
		if v.next.tracked {
			meta["managedFields"] = client.Untracked
		}
		if owner != nil {
			meta["ownerReferences"] = []metav1.OwnerReference{*owner}
		}
		body, e := client.Encode(format.Tree{"metadata": meta, "spec": spec})
		if e != nil {
			return false, e
		}
		written, err = s.client.Patch(ctx, r, "", body)
	}
	if err != nil {
		s.cacheSlot(namespace, subject, nil) // the result is unknown: read it again
		if client.IsConflict(err) || client.IsExisting(err) || client.IsNotFound(err) && v.next.version != 0 {
			return false, nil
		}
		return false, client.StoreError(ctx, "writing the slot of "+subject, err)
	}
	next := v.next
	next.version, next.tracked, next.owned = format.ParseVersion(written.ResourceVersion), client.Tracked(written.ManagedFields), len(written.OwnerReferences) > 0
	s.cacheSlot(namespace, subject, &next)
	return true, nil
}

// finished returns a function that reports whether a run of the namespace has ended.
// It reads runs that are not in the cache and stores an error in err.
func (s *slots) finished(ctx context.Context, namespace string, err *error) func(name string) bool {
	return func(name string) bool {
		s.mu.Lock()
		e := s.cache.objects[objectKey{namespace, name}]
		final := e != nil && e.Phase().Final()
		s.mu.Unlock()
		if e != nil || *err != nil {
			return final
		}
		o, e2 := s.read(ctx, namespace, name)
		if errors.Is(e2, runstore.ErrNotFound) {
			return true
		}
		if e2 != nil {
			*err = e2
			return false
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.upsert(o).Phase().Final()
	}
}

// assignSlot decides whether a new run holds the slot of its subject or is queued. Any
// process may repeat it: if the creator of a run dies before, the process that claims
// the run does it.
func (s *slots) assignSlot(ctx context.Context, e *entry) error {
	s.mu.Lock()
	done := e.removed || e.slotTaken || !e.SlotPending || e.Spec.Inline
	namespace, name, subject := e.key.namespace, e.key.name, e.Subject()
	s.mu.Unlock()
	if done {
		return nil
	}
	n, err := s.takeSlot(ctx, namespace, name, subject)
	if err != nil {
		return err
	}
	if n == 0 {
		s.mu.Lock()
		e.slotTaken = true
		s.mu.Unlock()
		return nil
	}
	return s.write(ctx, e, "queueing run "+name, func(e *entry) (*format.Edit, error) {
		if !e.SlotPending {
			return nil, nil // it was promoted meanwhile
		}
		h := format.Head(&e.Status)
		queue(&h, n)
		return &format.Edit{Head: h}, nil
	})
}

// queue sets a status to that of a queued run.
func queue(h *api.RunStatus, n int64) {
	h.Phase, h.Queue, h.Owner, h.Epoch, h.NextAt = string(runtype.Queued), n, "", 0, ""
}

// takeSlot takes the slot of a subject for a run, or a number in its queue; 0: the run
// holds the slot.
func (s *slots) takeSlot(ctx context.Context, namespace, name, subject string) (int64, error) {
	for try := 0; ; try++ {
		sl, err := s.slot(ctx, namespace, subject)
		if err != nil {
			return 0, err
		}
		var asked error
		v, err := sl.admit(name, s.finished(ctx, namespace, &asked))
		if asked != nil {
			return 0, asked
		}
		if err != nil && sl.version > 0 && try == 0 { // confirm a refusal by a read
			s.cacheSlot(namespace, subject, nil)
			continue
		}
		if err != nil {
			return 0, err
		}
		if v.write {
			ok, err := s.writeSlot(ctx, namespace, subject, v)
			if err != nil {
				return 0, err
			}
			if !ok {
				if try >= tries || !sleep(ctx, time.Duration(rand.Int64N(int64(try+1)*int64(5*time.Millisecond)))) {
					return 0, runstore.StoreUnavailable.Errorf("the slot of %s changes faster than it can be written", subject)
				}
				continue
			}
		}
		if v.promote != "" {
			if _, err := s.promote(ctx, namespace, v.promote); err != nil {
				return 0, err
			}
		}
		return v.number, nil
	}
}

// passOn passes the slot of a run that has ended to the next queued run, if there is
// one. If that fails, it is repeated in the background.
func (s *slots) passOn(ctx context.Context, e *entry) {
	s.mu.Lock()
	subject := e.Subject()
	sub := s.cache.subjects[subject]
	waits := sub != nil && sub.queued > 0
	s.mu.Unlock()
	if !waits {
		return // the next run will find the holder finished
	}
	if err := s.pass(ctx, e.key.namespace, subject); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.repairSlot(subject)
	}
}

func (s *slots) pass(ctx context.Context, namespace, subject string) error {
	for try := 0; ; try++ {
		sl, err := s.slot(ctx, namespace, subject)
		if err != nil {
			return err
		}
		var asked error
		v := sl.promoteNext(s.finished(ctx, namespace, &asked))
		if asked != nil {
			return asked
		}
		if v.write {
			ok, err := s.writeSlot(ctx, namespace, subject, v)
			if err != nil {
				return err
			}
			if !ok {
				if try >= tries {
					return fmt.Errorf("the slot of %s changes faster than it can be written", subject)
				}
				continue
			}
		}
		if v.promote == "" {
			// The cached queue may be old.
			if try == 0 {
				s.cacheSlot(namespace, subject, nil)
				continue
			}
			return nil
		}
		ended, err := s.promote(ctx, namespace, v.promote)
		if err != nil || !ended || try >= tries {
			return err
		}
	}
}

// promote makes a queued run Running. It returns true if the run has ended in the queue
// or was deleted.
func (s *slots) promote(ctx context.Context, namespace, name string) (ended bool, err error) {
	s.mu.Lock()
	e := s.cache.objects[objectKey{namespace, name}]
	s.mu.Unlock()
	if e == nil {
		o, err := s.read(ctx, namespace, name)
		if errors.Is(err, runstore.ErrNotFound) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		s.mu.Lock()
		e = s.upsert(o)
		s.mu.Unlock()
	}
	err = s.write(ctx, e, "promoting run "+name, func(e *entry) (*format.Edit, error) {
		ended = e.Phase().Final()
		if !e.Accepted() || e.Phase() != runtype.Queued && !e.SlotPending || e.slotTaken {
			return nil, nil
		}
		h := format.Head(&e.Status)
		if e.SlotPending {
			h.Owner, h.Epoch = "", 0
		} else {
			h.Revision++
		}
		h.Phase, h.Queue, h.NextAt = string(runtype.Running), 0, format.TimeText(time.Now())
		return &format.Edit{Head: h}, nil
	})
	if errors.Is(err, runstore.ErrNotFound) {
		return true, nil
	}
	return ended, err
}

// repairSlot passes on a slot that has queued runs and no active one. The process that
// ended the run does this at once; repairSlot is for the case that it could not. s.mu
// is held.
func (s *slots) repairSlot(name string) {
	sub := s.cache.subjects[name]
	if sub == nil || sub.queued == 0 || sub.active > 0 {
		return
	}
	s.background("slot of "+name, 200*time.Millisecond+rand.N(800*time.Millisecond), func(ctx context.Context) error {
		s.mu.Lock()
		var namespace string
		sub := s.cache.subjects[name]
		wanted := sub != nil && sub.queued > 0 && sub.active == 0
		if wanted {
			for e := range sub.runs {
				if e.slotState == slotQueued {
					namespace = e.key.namespace
				}
			}
			delete(s.slots, slotKey(namespace, name))
		}
		s.mu.Unlock()
		if !wanted {
			return nil
		}
		return s.pass(ctx, namespace, name)
	})
}
