package runstore

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/kube/runstore/format"
)

// unusedSlot names the slot of a subject that has no runs any more.
type unusedSlot struct{ namespace, subject string }

// slotOwner returns the object that the subject names as the owner of its slot; nil:
// none. The subject must contain the uid. Otherwise a slot that Kubernetes deletes late
// could already belong to the next object of the same name.
func (s *slots) slotOwner(namespace, subject string) *metav1.OwnerReference {
	parts := strings.Split(subject, "/")
	if s.o.Owner == nil || len(parts) < 4 || parts[1] != "" && parts[1] != namespace {
		return nil
	}
	owner := s.o.Owner(subject)
	if owner == nil || owner.UID == "" || parts[len(parts)-1] != string(owner.UID) {
		return nil
	}
	return owner
}

// forgetSlot removes the slot of a subject without runs from the cache. It deletes the
// Lease soon after, unless the Lease has an owner or this process works on no runs. s.mu
// is held.
func (s *slots) forgetSlot(namespace, subject string) {
	if s.cache.subjects[subject] != nil {
		return
	}
	key := slotKey(namespace, subject)
	known := s.slots[key]
	delete(s.slots, key)
	ours, owned := s.claims.hasClaimed, false
	if known != nil {
		ours, owned = true, known.owned
	} else if ours {
		owned = s.slotOwner(namespace, subject) != nil
	}
	if ours && !owned {
		s.deleteSlotLater(unusedSlot{namespace, subject})
	}
}

// deleteSlotLater queues the Lease of an unused slot for deletion. One goroutine deletes
// them one after the other. s.mu is held.
func (s *slots) deleteSlotLater(v unusedSlot) {
	if s.o.Client || s.ctx.Err() != nil {
		return
	}
	s.unused = append(s.unused, v)
	if s.deleting {
		return
	}
	s.deleting = true
	s.all.Go(func() {
		sleep(s.ctx, 500*time.Millisecond+rand.N(time.Second)) // another run may come, or another process may delete it
		for {
			s.mu.Lock()
			if len(s.unused) == 0 || s.ctx.Err() != nil {
				s.unused, s.deleting = nil, false
				s.mu.Unlock()
				return
			}
			next := s.unused[0]
			s.unused = s.unused[1:]
			s.mu.Unlock()
			if err := s.deleteUnusedSlot(s.ctx, next); err != nil && s.ctx.Err() == nil {
				s.log.Debug("kube/runstore: the slot of a subject without runs stays until the next sweep", "subject", next.subject, "error", err)
			}
		}
	})
}

// deleteUnusedSlot deletes the Lease of an unused slot in exactly the version that was
// found unused. A process that needs the slot meanwhile has written a newer version, or
// finds the Lease deleted and creates another.
func (s *slots) deleteUnusedSlot(ctx context.Context, v unusedSlot) error {
	s.mu.Lock()
	taken := s.cache.subjects[v.subject] != nil
	s.mu.Unlock()
	if taken {
		return nil
	}
	r := client.Ref{Group: leaseGroup, Resource: leaseResource, Namespace: v.namespace, Name: slotName(v.subject)}
	var l coordinationv1.Lease
	if err := s.client.Get(ctx, r, &l); err != nil {
		return ignoreGone(err)
	}
	sl, err := readSlot(&l)
	if err != nil || sl.owned || sl.holder != "" && !s.format.MatchesName(sl.holder) {
		return err
	}
	var asked error
	finished := s.finished(ctx, v.namespace, &asked)
	if sl.holder != "" && !finished(sl.holder) || len(unfinished(sl.queue, finished)) > 0 || asked != nil {
		return asked
	}
	return ignoreGone(s.client.Delete(ctx, r, "", format.VersionText(sl.version)))
}

// ignoreGone returns nil if another process has deleted or written the object.
func ignoreGone(err error) error {
	if client.IsNotFound(err) || client.IsConflict(err) {
		return nil
	}
	return err
}

// sweepPage is how many slots one list request reads.
const sweepPage = 500

// sweepSlots deletes, every sweepAfter, the slots of subjects whose last run was deleted
// while no process watched.
func (s *slots) sweepSlots(ctx context.Context) {
	s.mu.Lock()
	early := !s.sweptAt.IsZero() && time.Since(s.sweptAt) < sweepAfter
	if !early {
		s.sweptAt = time.Now()
	}
	s.mu.Unlock()
	if early || s.o.Client {
		return
	}
	for _, namespace := range s.namespaces() {
		o := metav1.ListOptions{LabelSelector: format.LabelKind + "=slot", Limit: sweepPage}
		for {
			var page coordinationv1.LeaseList
			if err := s.client.List(ctx, client.Ref{Group: leaseGroup, Resource: leaseResource, Namespace: namespace}, o, &page); err != nil {
				s.log.Debug("kube/runstore: the slots could not be listed", "namespace", namespace, "error", err)
				break
			}
			for i := range page.Items {
				s.sweepSlot(&page.Items[i])
			}
			if o.Continue = page.Continue; o.Continue == "" {
				break
			}
		}
	}
}

func (s *slots) sweepSlot(l *coordinationv1.Lease) {
	subject := l.Annotations[format.AnnotationSubject]
	if subject == "" || l.Name != slotName(subject) || len(l.OwnerReferences) > 0 || !s.serves(l.Namespace, subject, l.Labels[format.LabelOwner]) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cache.subjects[subject] == nil {
		s.deleteSlotLater(unusedSlot{l.Namespace, subject})
	}
}

// namespaces returns the namespaces that keep runs of this store; "": all.
func (s *slots) namespaces() []string {
	if s.o.SingleNamespace || len(s.o.Namespaces) == 0 {
		return []string{s.watchNamespace()}
	}
	namespaces := slices.Clone(s.o.Namespaces)
	if !slices.Contains(namespaces, s.o.Namespace) {
		namespaces = append(namespaces, s.o.Namespace)
	}
	return namespaces
}
