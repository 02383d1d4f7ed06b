package rollout

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/lease"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/rollout"
)

// turnDuration is how long the turn of a quorum lasts without being extended.
const turnDuration = 60 * time.Second

// turns are the locks by which Rollouts with the same quorum release pods in turn: one Lease for each
// selector of a namespace.
type turns struct {
	config *rest.Config

	mu       sync.Mutex
	backends map[string]*lease.Backend // by namespace
}

func newTurns(config *rest.Config) *turns {
	return &turns{config: config, backends: map[string]*lease.Backend{}}
}

func (t *turns) locker(r *api.Rollout) (lock.Locker, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.backends[r.Namespace]
	if b == nil {
		made, err := lease.New(t.config, r.Namespace)
		if err != nil {
			return lock.Locker{}, err
		}
		b, t.backends[r.Namespace] = made, made
	}
	return lock.Locker{Backend: b, Owner: r.Name + "/" + string(r.UID), Duration: turnDuration}, nil
}

// turnName is the same for all Rollouts of a namespace with one quorum selector.
func turnName(q *rollout.Quorum) string {
	text, err := json.Marshal(q.Selector)
	if err != nil {
		return "quorum"
	}
	sum := sha256.Sum256(text)
	return "quorum/" + hex.EncodeToString(sum[:6])
}

// take asks for the turn, or extends it.
func (t *turns) take(ctx context.Context, r *api.Rollout, q *rollout.Quorum, m *memory, now time.Time) (*rollout.Turn, error) {
	if m.turn.Sub(now) > turnDuration/2 {
		return &rollout.Turn{Mine: true}, nil
	}
	locker, err := t.locker(r)
	if err != nil {
		return nil, err
	}
	d, err := locker.Take(ctx, turnName(q))
	if err != nil {
		return nil, err
	}
	if d.Granted {
		m.turn = now.Add(turnDuration)
		return &rollout.Turn{Mine: true}, nil
	}
	turn := &rollout.Turn{Holder: "another Rollout", Since: now}
	if d.Record != nil {
		turn.Holder, _, _ = strings.Cut(d.Record.Owner, "/")
		turn.Since = d.Record.Start
	}
	return turn, nil
}

// release lets the next Rollout have its turn.
func (t *turns) release(ctx context.Context, r *api.Rollout, q *rollout.Quorum, m *memory) error {
	if m.turn.IsZero() {
		return nil
	}
	locker, err := t.locker(r)
	if err != nil {
		return err
	}
	if _, err := locker.Release(ctx, turnName(q)); err != nil {
		return err
	}
	m.turn = time.Time{}
	return nil
}

// selectorOf is a selector of a plan in the form of Kubernetes.
func selectorOf(s rollout.Selector) (labels.Selector, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var selector metav1.LabelSelector
	if err := json.Unmarshal(text, &selector); err != nil {
		return nil, rollout.PlanInvalid.Errorf("the selector: %w", err)
	}
	made, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return nil, rollout.PlanInvalid.Errorf("the selector: %w", err)
	}
	return made, nil
}
