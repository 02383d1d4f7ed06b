package kube

import (
	"context"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// budget requires this many healthy instances of a cluster. It is a number, because the disruption
// controller resolves maxUnavailable only for pods of its own kinds and of scalable owners, and
// refuses every eviction otherwise.
func budget(c port.Ref, healthy int) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: meta(c, c.Name, ""), Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: ptr(intstr.FromInt(healthy)),
		Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{ClusterLabel: c.Name, ComponentLabel: instanceComponent}},
	}}
}

// protect updates the budget, so that a drain may evict one of the present instances.
func (s *Placement) protect(ctx context.Context, c port.Ref, all []*instanceObjects, report Restored) error {
	healthy := -1
	for _, h := range all {
		if !h.leaving() {
			healthy++
		}
	}
	if healthy < 0 {
		return nil
	}
	want := budget(c, healthy)
	s.applied.mu.Lock()
	_, before := s.applied.version[s.keyOf(want)]
	s.applied.mu.Unlock()
	done, err := s.restoreObject(ctx, c, want)
	if done == wasGone && before && report != nil {
		report("Restored", "PodDisruptionBudget %s was gone, and is created again", want.Name)
	}
	return err
}
