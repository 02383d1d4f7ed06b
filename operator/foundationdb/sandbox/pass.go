package sandbox

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/outcome"
)

// The kinds of the operator.
const (
	clusterKind = "FoundationDBCluster"
	backupKind  = "FoundationDBBackup"
	restoreKind = "FoundationDBRestore"
)

// reconciler makes one pass over an object.
type reconciler interface {
	Reconcile(ctx context.Context, ref control.Ref) outcome.Outcome
}

const (
	look  = time.Minute // at least so often an object has a pass
	quiet = time.Second // what children report within it is one wake
)

// schedule is when an object has its next pass.
type schedule struct {
	at    time.Time
	fails int // one after the other
	said  string
}

// pass makes the passes that are due. The caller holds the lock.
func (s *Sandbox) pass() {
	for _, ref := range slices.SortedFunc(maps.Keys(s.work), func(a, b control.Ref) int { return strings.Compare(a.String(), b.String()) }) {
		work := s.work[ref]
		if work == nil || work.at.After(s.world.Now()) {
			continue
		}
		work.at = s.world.Now().Add(look)
		out := s.operators[ref.Kind].Reconcile(context.Background(), ref)
		after := look
		switch {
		case out.IsFail():
			after = time.Second << min(work.fails, 6)
			work.fails++
		case out.After() > 0:
			after = min(out.After(), look)
			work.fails = 0
		default:
			work.fails = 0
		}
		if text := out.String(); text != work.said {
			work.said = text
			s.log.Debug("pass", "object", ref.String(), "outcome", text)
		}
		if at := s.world.Now().Add(after); at.Before(work.at) {
			work.at = at // a change meanwhile may have set an earlier time
		}
	}
}

// wake lets an object have a pass within a time.
func (s *Sandbox) wake(ref control.Ref, within time.Duration) {
	at := s.world.Now().Add(within)
	if work := s.work[ref]; work == nil {
		s.work[ref] = &schedule{at: at}
	} else if at.Before(work.at) {
		work.at = at
	}
}

// hear notes a change of an object, and wakes what depends on it. It is called by the world.
func (s *Sandbox) hear(before, now port.Object) {
	s.history.add(before, now)
	close(s.changed)
	s.changed = make(chan struct{})
	is := now
	if is == nil {
		is = before
	}
	ref := refOf(is)
	switch _, ours := s.operators[ref.Kind]; {
	case ours && now == nil:
		delete(s.work, ref)
	case ours && (before == nil || edited(before, now)):
		s.wake(ref, 0)
	}
	if ref.Kind == clusterKind {
		for other := range s.work { // their database
			if other.Kind != clusterKind {
				s.wake(other, quiet)
			}
		}
	}
	if _, isNode := is.(*corev1.Node); isNode {
		for other := range s.work {
			s.wake(other, quiet)
		}
	}
	for _, owner := range is.GetOwnerReferences() {
		parent := control.Ref{Kind: owner.Kind, Namespace: is.GetNamespace(), Name: owner.Name}
		if s.work[parent] != nil {
			s.wake(parent, quiet)
		}
	}
}

// edited reports a change that the operator has not made by saving a status.
func edited(before, now port.Object) bool {
	return before.GetGeneration() != now.GetGeneration() || !maps.Equal(before.GetAnnotations(), now.GetAnnotations()) ||
		!maps.Equal(before.GetLabels(), now.GetLabels()) || before.GetDeletionTimestamp() == nil && now.GetDeletionTimestamp() != nil
}
