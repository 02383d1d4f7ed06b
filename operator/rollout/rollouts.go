package rollout

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/workload"
)

// rollouts are the Rollouts that this process works with, and the way to wake them.
type rollouts struct {
	now func() time.Time

	mu       sync.Mutex
	memories map[types.NamespacedName]*memory
	add      func(control.Ref)
}

func newRollouts(now func() time.Time) *rollouts {
	return &rollouts{now: now, memories: map[types.NamespacedName]*memory{}}
}

func (k *rollouts) memory(key client.ObjectKey) *memory {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := k.memories[key]
	if m == nil {
		m = &memory{written: map[types.UID]uint64{}, removed: map[string]bool{}, asked: newAsked(), templates: map[string]*corev1.PodTemplateSpec{}}
		k.memories[key] = m
	}
	return m
}

func (k *rollouts) drop(key client.ObjectKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.memories, key)
}

func (k *rollouts) labelledRollout(_ context.Context, obj client.Object) []types.NamespacedName {
	name := obj.GetLabels()[workload.RolloutLabel]
	if name == "" {
		return nil
	}
	key := types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}
	k.hear(key)
	return []types.NamespacedName{key}
}

// hear notes when an event came, for the release delay.
func (k *rollouts) hear(key types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m := k.memories[key]; m != nil {
		m.heard.CompareAndSwap(0, k.now().UnixNano())
	}
}

// movingIn are the Rollouts of a namespace that this process moves.
func (k *rollouts) movingIn(_ context.Context, obj client.Object) []types.NamespacedName {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []types.NamespacedName
	for key, m := range k.memories {
		if key.Namespace == obj.GetNamespace() && m.moving.Load() {
			all = append(all, key)
		}
	}
	return all
}

// claimants are the Rollouts of a namespace that wait for a workload of another one.
func (k *rollouts) claimants(_ context.Context, obj client.Object) (all []types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, m := range k.memories {
		if key.Namespace == obj.GetNamespace() && key.Name != obj.GetName() && m.refused.Load() {
			all = append(all, key)
		}
	}
	return all
}

// suspect lets all Rollouts that move ask whether the API server answers.
func (k *rollouts) suspect() {
	now := k.now().UTC()
	k.mu.Lock()
	var all []client.ObjectKey
	for key, m := range k.memories {
		if m.moving.Load() && m.suspected.CompareAndSwap(nil, &now) {
			all = append(all, key)
		}
	}
	k.mu.Unlock()
	for _, key := range all {
		k.wake(key)
	}
}

// listen hands what dependents see to the controller.
func (k *rollouts) listen(ctx context.Context, add func(control.Ref)) {
	k.mu.Lock()
	k.add = add
	k.mu.Unlock()
	<-ctx.Done()
}

func (k *rollouts) wake(key types.NamespacedName) {
	k.hear(key)
	k.mu.Lock()
	add := k.add
	k.mu.Unlock()
	if add != nil {
		add(control.Ref{Kind: Kind, Namespace: key.Namespace, Name: key.Name})
	}
}
