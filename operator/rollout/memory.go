package rollout

import (
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/rollout"
)

// memory is what this process knows of one Rollout beside its status: only what saves calls, or what
// the caches do not show yet. One pass works with it at a time. A process without it reads more.
type memory struct {
	moving atomic.Bool
	// refused is true while the workload is that of another Rollout.
	refused atomic.Bool
	// heard is when the first event came that no pass has looked at yet, in nanoseconds; 0: none.
	heard atomic.Int64
	// rested is what the last pass has seen that ended at rest; the same again needs no pass.
	rested string
	// written is the newest version of a workload that this process wrote, by its UID.
	written map[types.UID]uint64
	acted   time.Time // when that was
	// removed are the pods that were evicted or deleted, and are not seen terminating yet.
	removed map[string]bool
	// saved is when the status was written last.
	saved time.Time
	// postponed is since when the status is not written because only what passes by itself has changed;
	// zero: it is written.
	postponed time.Time
	// behind is how many passes in turn have found that the cache does not have that.
	behind int
	// turn is until when the turn of the quorum is held; sought is the batch in which a process that
	// did not hold it has looked whether it does.
	turn   time.Time
	sought batchOf
	// suspected is since when a watch cannot be had again: whether the API server answers is seen by
	// asking.
	suspected atomic.Pointer[time.Time]
	// away is since when the API server does not answer; unavailable is how long it did not in the
	// rollout of the number.
	away        time.Time
	unavailable time.Duration
	number      int
	// since is when the first pass was; zero: there was none.
	since time.Time
	asked *asked
	// templates are those of named revisions, with the defaults of the API server.
	templates map[string]*corev1.PodTemplateSpec
	// revisions keeps which revision the workload's template has.
	revisions workload.RevisionCache
}

// batchOf names a batch of one movement of a Rollout.
type batchOf struct {
	number, batch int
	back          bool
}

// inTouch reports whether the API server may be believed to answer.
func (m *memory) inTouch() bool { return m.away.IsZero() && m.suspected.Load() == nil }

// lost notes that the API server does not answer, and reports whether it did before.
func (m *memory) lost(now time.Time) bool {
	if !m.away.IsZero() {
		return false
	}
	if m.away = now; m.suspected.Load() != nil {
		m.away = *m.suspected.Load()
	}
	return true
}

// found notes that the API server answers: no deadline counts the time that it did not.
func (m *memory) found(now time.Time) {
	m.lost(now)
	m.unavailable += now.Sub(m.away)
	m.away = time.Time{}
	m.suspected.Store(nil)
}

// enter begins to count anew with each rollout. A process that takes over adds to what others have seen.
func (m *memory) enter(at rollout.Position, now time.Time) {
	switch {
	case m.since.IsZero():
		m.since = now
		m.unavailable += time.Duration(at.Outage)
	case m.number != at.Number:
		m.unavailable = time.Duration(at.Outage)
	}
	m.number = at.Number
}

// seen completes the pods: one that was removed a moment ago is terminating, whatever the cache says.
func (m *memory) seen(pods []rollout.Pod) {
	there := map[string]bool{}
	for i := range pods {
		p := &pods[i]
		if !m.removed[p.UID] {
			continue
		}
		if p.Terminating {
			continue
		}
		there[p.UID] = true
		p.Terminating = true
	}
	m.removed = there
}
