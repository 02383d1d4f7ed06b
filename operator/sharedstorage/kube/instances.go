package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
)

// Instances implements port.Instances with claims and pods. The claim is the record of an
// instance; the pod can be created again.
type Instances struct{ placement *Placement }

var (
	_ port.Instances   = &Instances{}
	_ postgres.Locator = &Instances{}
)

// instanceObjects are the claim and the pod of an instance; either may be nil.
type instanceObjects struct {
	name  string
	claim *corev1.PersistentVolumeClaim
	pod   *corev1.Pod
}

// Ensure implements port.Instances. It creates a new pod for an instance whose pod is gone.
func (i *Instances) Ensure(ctx context.Context, c port.Ref, want port.Instance) (port.Instance, error) {
	s := i.placement
	h, err := s.readInstance(ctx, c, want.Name)
	if err != nil {
		return port.Instance{}, err
	}
	if h.claim == nil && h.pod == nil {
		if h.claim, err = s.create(ctx, c, want); err != nil {
			return port.Instance{}, err
		}
	}
	if h.leaving() {
		return s.observe(ctx, h)
	}
	if h.claim != nil {
		if err := s.retype(ctx, h, want); err != nil {
			return port.Instance{}, err
		}
		if err := s.resume(ctx, h); err != nil {
			return port.Instance{}, err
		}
		if err := s.run(ctx, c, h); err != nil {
			return port.Instance{}, err
		}
	}
	return s.observe(ctx, h)
}

// readInstance reads one instance.
func (s *Placement) readInstance(ctx context.Context, c port.Ref, name string) (*instanceObjects, error) {
	all, err := s.listInstances(ctx, c, s.o.Live, client.MatchingLabels{ClusterLabel: c.Name, ComponentLabel: instanceComponent, InstanceLabel: name})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return &instanceObjects{name: name}, nil
	}
	return all[0], nil
}

// listInstances reads instances, by name. It lists pods first: a pod whose claim is missing after
// that has none, unless the two caches differ.
func (s *Placement) listInstances(ctx context.Context, c port.Ref, from client.Reader, labels client.MatchingLabels) ([]*instanceObjects, error) {
	var claims corev1.PersistentVolumeClaimList
	var pods corev1.PodList
	if err := from.List(ctx, &pods, client.InNamespace(c.Namespace), labels); err != nil {
		return nil, err
	}
	if err := from.List(ctx, &claims, client.InNamespace(c.Namespace), labels); err != nil {
		return nil, err
	}
	var all []*instanceObjects
	find := func(name string) *instanceObjects {
		if n := slices.IndexFunc(all, func(h *instanceObjects) bool { return h.name == name }); n >= 0 {
			return all[n]
		}
		all = append(all, &instanceObjects{name: name})
		return all[len(all)-1]
	}
	for n := range claims.Items {
		find(claims.Items[n].Labels[InstanceLabel]).claim = &claims.Items[n]
	}
	for n := range pods.Items {
		find(pods.Items[n].Labels[InstanceLabel]).pod = &pods.Items[n]
	}
	slices.SortFunc(all, func(a, b *instanceObjects) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// leaving reports whether an instance was removed. One of which somebody else deleted only the
// claim works on until its pod ends.
func (h *instanceObjects) leaving() bool {
	switch {
	case h.claim == nil:
		return h.pod != nil
	case h.claim.DeletionTimestamp != nil:
		return h.pod == nil || h.pod.DeletionTimestamp != nil
	}
	return false
}

// wanted returns the instance as it was last requested, with its present id and type.
func (h *instanceObjects) wanted() (port.Instance, error) {
	w := port.Instance{Name: h.name}
	labels := map[string]string{}
	switch {
	case h.claim != nil:
		labels = h.claim.Labels
		if err := json.Unmarshal([]byte(h.claim.Annotations[wantAnnotation]), &w); err != nil {
			return w, port.StorageFailed.Errorf("the annotation %s of claim %s: %w", wantAnnotation, h.claim.Name, err)
		}
	case h.pod != nil:
		labels = h.pod.Labels
	}
	w.ID, w.Type = labels[IDLabel], port.Type(labels[TypeLabel])
	return w, nil
}

// create creates the claim of an instance, or gives it that of an earlier writer.
func (s *Placement) create(ctx context.Context, c port.Ref, want port.Instance) (*corev1.PersistentVolumeClaim, error) {
	if err := s.checkNode(ctx, want); err != nil {
		return nil, err
	}
	want, err := s.complete(want)
	if err != nil {
		return nil, err
	}
	_, v, err := s.Storage().load(ctx, c)
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, s.Storage().grants(c).lost()
	}
	labels, err := s.recorded(want)
	if err != nil {
		return nil, err
	}
	if want.Type == port.Writer {
		claim, err := s.inherit(ctx, c, labels.claim)
		if claim != nil || err != nil {
			return claim, err
		}
	}
	claim := s.claim(c, PodName(c.Of(want.Name)), instanceComponent, v.Size)
	labels.claim(claim)
	if err := s.o.Client.Create(ctx, claim); err != nil {
		if !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
		if err := s.o.Live.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return nil, err
		}
		if claim.Labels[InstanceLabel] != want.Name || claim.Labels[ClusterLabel] != c.Name {
			return nil, port.StorageFailed.Errorf("there is a claim %s already, which is not of this instance", claim.Name)
		}
	}
	return claim, nil
}

// record is what is stored about an instance.
type record struct {
	claim func(*corev1.PersistentVolumeClaim)
}

func (s *Placement) recorded(want port.Instance) (record, error) {
	want.Address, want.State, want.Message, want.Since, want.Domain = "", "", "", time.Time{}, ""
	text, err := json.Marshal(want)
	return record{func(claim *corev1.PersistentVolumeClaim) {
		label(claim, map[string]string{
			ComponentLabel: instanceComponent, "app.kubernetes.io/component": instanceComponent,
			InstanceLabel: want.Name, IDLabel: want.ID, TypeLabel: string(want.Type),
		})
		if claim.Annotations == nil {
			claim.Annotations = map[string]string{}
		}
		claim.Annotations[wantAnnotation] = string(text)
	}}, err
}

// inherit gives an instance the claim that an earlier writer has left. nil: there is none.
func (s *Placement) inherit(ctx context.Context, c port.Ref, take func(*corev1.PersistentVolumeClaim)) (*corev1.PersistentVolumeClaim, error) {
	var list corev1.PersistentVolumeClaimList
	if err := s.o.Live.List(ctx, &list, of(c, volumeComponent)...); err != nil {
		return nil, err
	}
	list.Items = slices.DeleteFunc(list.Items, func(claim corev1.PersistentVolumeClaim) bool {
		return claim.DeletionTimestamp != nil || claim.Annotations[ownerAnnotation] != c.UID
	})
	if len(list.Items) == 0 {
		return nil, nil
	}
	slices.SortFunc(list.Items, func(a, b corev1.PersistentVolumeClaim) int { // the newest first
		return strings.Compare(b.Annotations[usedAnnotation], a.Annotations[usedAnnotation])
	})
	claim := &list.Items[0]
	if _, user, ok := strings.Cut(claim.Annotations[usedAnnotation], " "); ok {
		var pod corev1.Pod
		err := s.o.Live.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: PodName(c.Of(user))}, &pod)
		if err == nil {
			return nil, fmt.Errorf("claim %s is taken over when pod %s is gone", claim.Name, user)
		}
		if !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	before := claim.DeepCopy()
	take(claim)
	return claim, s.o.Client.Patch(ctx, claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// retype sets id and type of an instance. The claim is the record and is written last, so that a
// repeated call completes an interrupted one.
func (s *Placement) retype(ctx context.Context, h *instanceObjects, want port.Instance) error {
	add := map[string]string{}
	if want.ID != "" {
		add[IDLabel] = want.ID
	}
	if want.Type != "" {
		add[TypeLabel] = string(want.Type)
	}
	for _, obj := range []client.Object{h.pod, h.claim} {
		if obj == client.Object((*corev1.Pod)(nil)) {
			continue
		}
		differs := false
		for key, value := range add {
			differs = differs || obj.GetLabels()[key] != value
		}
		if !differs {
			continue
		}
		before := obj.DeepCopyObject().(client.Object)
		label(obj, add)
		// With the version that was read: a late patch of an operator that is no longer the leader
		// must fail.
		if err := s.o.Client.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return err
		}
	}
	return nil
}

// run ensures that the pod exists. It removes a pod that has ended on a ready node, so that the
// next call creates it again.
func (s *Placement) run(ctx context.Context, c port.Ref, h *instanceObjects) error {
	if h.pod != nil {
		ended := h.pod.Status.Phase == corev1.PodFailed || h.pod.Status.Phase == corev1.PodSucceeded
		if ended && h.pod.DeletionTimestamp == nil {
			return s.remove(ctx, h.pod)
		}
		return nil
	}
	if h.claim.DeletionTimestamp != nil {
		return nil
	}
	want, err := h.wanted()
	if err != nil {
		return err
	}
	if err := s.rbacRules(ctx, c); err != nil {
		return err
	}
	pod, err := s.pod(c, want, h.claim.Name)
	if err != nil {
		return err
	}
	if err := s.spread(ctx, c, pod, want, h.claim.Spec.VolumeName != ""); err != nil {
		return err
	}
	if _, err := s.createObject(ctx, c, pod); err != nil {
		return err
	}
	h.pod = pod
	return nil
}

// Remove implements port.Instances. The claim of the writer stays with the volume.
func (i *Instances) Remove(ctx context.Context, c port.Ref, name string) error {
	s := i.placement
	h, err := s.readInstance(ctx, c, name)
	if err != nil {
		return err
	}
	// The claim first: until its pod is gone, the deleted claim shows that the removal is wanted.
	if h.claim != nil && h.claim.DeletionTimestamp == nil {
		if err := s.releaseClaim(ctx, c, h.claim, name); err != nil {
			return err
		}
	}
	if h.pod == nil {
		return nil
	}
	return s.deletePod(ctx, h.pod)
}

// releaseClaim deletes the claim of an instance. The claim of the writer stays without the
// instance.
func (s *Placement) releaseClaim(ctx context.Context, c port.Ref, claim *corev1.PersistentVolumeClaim, name string) error {
	grant, err := s.Storage().grants(c).Read(ctx)
	if err != nil {
		return err
	}
	if grant.Writer != name || grant.Epoch == 0 {
		return s.remove(ctx, claim)
	}
	var old corev1.PersistentVolumeClaimList
	if err := s.o.Live.List(ctx, &old, of(c, volumeComponent)...); err != nil {
		return err
	}
	before := claim.DeepCopy()
	label(claim, map[string]string{ComponentLabel: volumeComponent, "app.kubernetes.io/component": volumeComponent, InstanceLabel: "", IDLabel: "", TypeLabel: ""})
	claim.Annotations[usedAnnotation] = fmt.Sprintf("%020d %s", grant.Epoch, name)
	if err := s.o.Client.Patch(ctx, claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	for n := range old.Items { // claims of older epochs
		if err := s.remove(ctx, &old.Items[n]); err != nil {
			return err
		}
	}
	return nil
}

// deletePod deletes a pod. On a node that does not answer nothing would complete the deletion, so
// it is forced there; a writer without its lease has stopped itself.
func (s *Placement) deletePod(ctx context.Context, pod *corev1.Pod) error {
	if pod.DeletionTimestamp == nil {
		return s.remove(ctx, pod)
	}
	if time.Since(pod.DeletionTimestamp.Time) < 30*time.Second {
		return nil
	}
	_, ready, err := s.nodeOf(ctx, pod)
	if err != nil || ready {
		return err
	}
	return client.IgnoreNotFound(s.o.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)))
}

// Revive creates the pods again that somebody, or the end of their node, has removed, and whose
// claims still exist.
func (s *Placement) Revive(ctx context.Context, c port.Ref, report Restored) error {
	labels := client.MatchingLabels{ClusterLabel: c.Name, ComponentLabel: instanceComponent}
	all, err := s.listInstances(ctx, c, s.o.Client, labels)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, (*instanceObjects).podLost) {
		if all, err = s.listInstances(ctx, c, s.o.Live, labels); err != nil {
			return err
		}
		for _, h := range all {
			if h.podLost() {
				if h.pod == nil && report != nil && !s.recreating(c, h.name) && time.Since(h.claim.CreationTimestamp.Time) > time.Minute { // a younger instance is still being created
					report("PodRestored", "the pod of instance %s was gone, and is created again", h.name)
				}
				if err := s.run(ctx, c, h); err != nil {
					return err
				}
			}
		}
	}
	return s.protect(ctx, c, all, report) // last: a rejected budget prevents no pod
}

// podLost reports whether an instance has its claim and lost its pod.
func (h *instanceObjects) podLost() bool {
	if h.claim == nil || h.claim.DeletionTimestamp != nil || h.suspended() {
		return false
	}
	return h.pod == nil || h.pod.DeletionTimestamp == nil && (h.pod.Status.Phase == corev1.PodFailed || h.pod.Status.Phase == corev1.PodSucceeded)
}

// List implements port.Instances.
func (i *Instances) List(ctx context.Context, c port.Ref) ([]port.Instance, error) {
	all, err := i.placement.listInstances(ctx, c, i.placement.o.Client, client.MatchingLabels{ClusterLabel: c.Name, ComponentLabel: instanceComponent})
	if err != nil {
		return nil, err
	}
	var found []port.Instance
	for _, h := range all {
		if h.claim == nil { // the cache of claims may be behind that of pods
			if h, err = i.placement.readInstance(ctx, c, h.name); err != nil {
				return nil, err
			}
			if h.claim == nil && h.pod == nil {
				continue
			}
		}
		one, err := i.placement.observe(ctx, h)
		if err != nil {
			return nil, err
		}
		if one.State == port.Leaving && h.pod != nil {
			if err := i.placement.deletePod(ctx, h.pod); err != nil {
				return nil, err
			}
		}
		found = append(found, one)
	}
	return found, nil
}

// Locate implements postgres.Locator.
func (i *Instances) Locate(ctx context.Context, id port.Ref) (postgres.Endpoint, error) {
	var pod corev1.Pod
	err := i.placement.o.Client.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: PodName(id)}, &pod)
	if apierrors.IsNotFound(err) && i.placement.o.Live != client.Reader(i.placement.o.Client) {
		err = i.placement.o.Live.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: PodName(id)}, &pod) // the cache may not have it yet
	}
	switch {
	case apierrors.IsNotFound(err):
		return postgres.Endpoint{}, port.PodLost.Errorf("there is no instance %s", id)
	case err != nil:
		return postgres.Endpoint{}, err
	case pod.Labels[ClusterLabel] != id.Name:
		return postgres.Endpoint{}, port.PodLost.Errorf("pod %s is no instance of cluster %s", PodName(id), id.Name)
	case pod.Status.PodIP == "":
		return postgres.Endpoint{}, port.PodLost.Errorf("the pod of instance %s has no address yet", id)
	}
	node, ready, err := i.placement.nodeOf(ctx, &pod)
	if err != nil {
		return postgres.Endpoint{}, err
	}
	if !ready {
		return postgres.Endpoint{}, port.PodLost.Errorf("node %s of instance %s does not answer", node, id)
	}
	known, err := i.placement.secretsOf(ctx, id, false)
	if err != nil {
		return postgres.Endpoint{}, err
	}
	trust, err := i.placement.authoritiesOf(ctx, id)
	if err != nil {
		return postgres.Endpoint{}, err
	}
	return postgres.Endpoint{
		Trust: trust, Agent: "http://" + join(pod.Status.PodIP, agentPort), Token: known.token, Former: known.former,
		Engine: postgres.Upstream{Name: id.Instance, Host: pod.Status.PodIP, Port: portOf(&pod)},
	}, nil
}

func portOf(pod *corev1.Pod) int32 {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == "engine" {
				return p.ContainerPort
			}
		}
	}
	return enginePort
}
