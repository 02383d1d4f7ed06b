package rollout

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/rollout"
)

// memory is what this process knows of one Rollout beside its status: only what saves calls, or what
// the caches do not show yet. One pass works with it at a time. A process without it reads more.
type memory struct {
	moving atomic.Bool
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
	// turn is until when the turn of the quorum is held.
	turn time.Time
	// away is since when the API server does not answer; unavailable is how long it did not in the
	// batch.
	away        time.Time
	unavailable time.Duration
	batch       [2]int
	asked       *asked
}

func (o *Operator) memoryOf(key client.ObjectKey) *memory {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.known[key]
	if m == nil {
		m = &memory{written: map[types.UID]uint64{}, removed: map[string]bool{}, asked: newAsked()}
		o.known[key] = m
	}
	return m
}

// forget drops what is known of a Rollout that does not exist any more.
func (o *Operator) forget(key client.ObjectKey) {
	o.dependents.Release(key)
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.known, key)
}

// outage counts how long the API server did not answer while the batch was under way.
func (m *memory) outage(failed bool, at rollout.Position, now time.Time) {
	if batch := [2]int{at.Number, at.CurrentBatch}; m.batch != batch {
		m.batch, m.unavailable = batch, 0
	}
	switch {
	case failed && m.away.IsZero():
		m.away = now
	case !failed && !m.away.IsZero():
		m.unavailable += now.Sub(m.away)
		m.away = time.Time{}
	}
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
