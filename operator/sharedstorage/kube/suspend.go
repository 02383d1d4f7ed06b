package kube

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Suspend implements port.Instances. The claim says that the instance is suspended before its pod is
// deleted, so that nobody creates the pod again.
func (i *Instances) Suspend(ctx context.Context, c port.Ref, name string) (port.Instance, error) {
	s := i.placement
	h, err := s.readInstance(ctx, c, name)
	if err != nil {
		return port.Instance{}, err
	}
	if h.claim == nil {
		return port.Instance{}, port.PodLost.Errorf("there is no claim of instance %s", c.Of(name))
	}
	if h.leaving() || h.claim.DeletionTimestamp != nil {
		return s.observe(ctx, h)
	}
	if !h.suspended() {
		if err := s.mark(ctx, h, time.Now().UTC().Format(time.RFC3339)); err != nil {
			return port.Instance{}, err
		}
	}
	if h.pod != nil {
		if err := s.deletePod(ctx, h.pod); err != nil {
			return port.Instance{}, err
		}
	}
	return s.observe(ctx, h)
}

// suspended reports whether an instance is to have no pod.
func (h *instanceObjects) suspended() bool {
	return h.claim != nil && h.claim.Annotations[suspendedAnnotation] != ""
}

// resume lets an instance have a pod again.
func (s *Placement) resume(ctx context.Context, h *instanceObjects) error {
	if !h.suspended() {
		return nil
	}
	return s.mark(ctx, h, "")
}

// mark sets since when an instance is suspended; empty: it is not.
func (s *Placement) mark(ctx context.Context, h *instanceObjects, since string) error {
	before := h.claim.DeepCopy()
	if h.claim.Annotations == nil {
		h.claim.Annotations = map[string]string{}
	}
	if h.claim.Annotations[suspendedAnnotation] = since; since == "" {
		delete(h.claim.Annotations, suspendedAnnotation)
	}
	// With the version that was read: a late patch of an operator that is no longer the leader must fail.
	return s.o.Client.Patch(ctx, h.claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
