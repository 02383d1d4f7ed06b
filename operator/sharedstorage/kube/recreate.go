package kube

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Recreate implements port.Instances: the pod is deleted, and another one is created on the same claim.
// The claim has the record of what is wanted before the pod ends, so that whoever creates the pod again
// makes the wanted one.
func (i *Instances) Recreate(ctx context.Context, c port.Ref, want port.Instance) (port.Instance, error) {
	s := i.placement
	h, err := s.readInstance(ctx, c, want.Name)
	if err != nil {
		return port.Instance{}, err
	}
	if h.claim == nil {
		return port.Instance{}, port.PodLost.Errorf("there is no claim of instance %s", c.Of(want.Name))
	}
	if h.leaving() || h.claim.DeletionTimestamp != nil {
		return s.observe(ctx, h)
	}
	recorded, err := h.wanted()
	if err != nil {
		return port.Instance{}, err
	}
	if !recorded.RunsAs(want) {
		want.ID, want.Type, want.Node = recorded.ID, recorded.Type, "" // another node may take the claim
		if err := s.checkRoom(ctx, c, recorded, want); err != nil {
			return port.Instance{}, err
		}
		if err := s.rewrite(ctx, h.claim, want); err != nil {
			return port.Instance{}, err
		}
	}
	if err := s.resume(ctx, h); err != nil {
		return port.Instance{}, err
	}
	running, err := h.running()
	if err != nil {
		return port.Instance{}, err
	}
	if h.pod != nil && !running.RunsAs(want) {
		s.mu.Lock()
		s.ended[c.Namespace+"/"+h.name] = time.Now()
		s.mu.Unlock()
		if err := s.deletePod(ctx, h.pod); err != nil {
			return port.Instance{}, err
		}
		return s.observe(ctx, h)
	}
	if err := s.run(ctx, c, h); err != nil {
		return port.Instance{}, err
	}
	return s.observe(ctx, h)
}

// recreating reports whether the pod of an instance is gone because Recreate has deleted it.
func (s *Placement) recreating(c port.Ref, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ended := s.ended[c.Namespace+"/"+name]
	if ended && time.Since(at) > time.Minute {
		delete(s.ended, c.Namespace+"/"+name)
	}
	return ended && time.Since(at) <= time.Minute
}

// rewrite records on the claim of an instance how it is to run.
func (s *Placement) rewrite(ctx context.Context, claim *corev1.PersistentVolumeClaim, want port.Instance) error {
	want, err := s.complete(want)
	if err != nil {
		return err
	}
	labels, err := s.recorded(want)
	if err != nil {
		return err
	}
	before := claim.DeepCopy()
	labels.claim(claim)
	// With the version that was read: a late patch of an operator that is no longer the leader must fail.
	return s.o.Client.Patch(ctx, claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// complete fills in what the spec leaves to the adapter.
func (s *Placement) complete(want port.Instance) (port.Instance, error) {
	if want.Image == "" {
		image, err := s.image(want.Version)
		if err != nil {
			return want, err
		}
		want.Image = image
	}
	if want.Port == 0 {
		want.Port = enginePort
	}
	return want, nil
}

// running returns an instance as its pod was made, with the present id and type.
func (h *instanceObjects) running() (port.Instance, error) {
	recorded, err := h.wanted()
	if err != nil || h.pod == nil {
		return recorded, err
	}
	if h.pod.Annotations[wantAnnotation] == "" { // an older operator has made it: the claim may be recorded anew since then
		recorded.Template = ""
		return recorded, nil
	}
	made := port.Instance{}
	if err := json.Unmarshal([]byte(h.pod.Annotations[wantAnnotation]), &made); err != nil {
		return recorded, nil //nolint:nilerr // somebody has edited the annotation: the claim has the record
	}
	made.Name, made.ID, made.Type = recorded.Name, recorded.ID, recorded.Type
	return made, nil
}

// checkRoom reports why an instance could not run as wanted, before its pod is deleted: no node has its
// labels or is large enough, or a quota lacks what it needs more. What other pods use of a node is not
// known here.
func (s *Placement) checkRoom(ctx context.Context, c port.Ref, is, want port.Instance) error {
	if err := s.checkNode(ctx, want); err != nil {
		return err
	}
	more := needsOf(want, 1, 0)
	for name, has := range needsOf(is, 1, 0) {
		need := more[name]
		need.Sub(has)
		more[name] = need
	}
	if err := s.checkQuotas(ctx, c, more, "class "+want.Class.Name+" needs"); err != nil {
		return err
	}
	var nodes corev1.NodeList
	if err := s.o.Client.List(ctx, &nodes); err != nil {
		return err
	}
	needs := resources(want).Requests
	for n := range nodes.Items {
		ready, _ := nodeReady(&nodes.Items[n])
		fits := ready
		for key, value := range want.NodeSelector {
			fits = fits && nodes.Items[n].Labels[key] == value
		}
		for name, need := range needs {
			if has, told := nodes.Items[n].Status.Allocatable[name]; told && has.Cmp(need) < 0 {
				fits = false
			}
		}
		if fits {
			return nil
		}
	}
	return port.NoAvailableNode.Errorf("none of %d nodes is large enough for class %s: cpu %dm, memory %d bytes", len(nodes.Items), want.Class.Name, want.Class.CPU, want.Class.Memory)
}
