package workload

import (
	"cmp"
	"context"
	"errors"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/rollout"
)

func groupVersionKind(apiVersion, kind string) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(apiVersion, kind)
}

// Apply does one write. The fault is WRITE_CONFLICT when the workload or the pod is not the one of
// the facts any more: observe and decide again. An eviction that a PodDisruptionBudget refuses is
// WORKLOAD_BUSY.
func (w *Workload) Apply(ctx context.Context, a rollout.Act) error {
	switch {
	case a.Evict != nil:
		return w.evict(ctx, *a.Evict)
	case a.Delete != nil:
		return w.delete(ctx, *a.Delete)
	}
	o, l, err := w.find(ctx, a)
	if err != nil {
		return err
	}
	before := o.DeepCopy()
	if err := w.edit(ctx, o, l, a); err != nil {
		return err
	}
	return w.write(ctx, before, o)
}

// find reads the workload of an act, and refuses one that is not that of the facts.
func (w *Workload) find(ctx context.Context, a rollout.Act) (*unstructured.Unstructured, layout, error) {
	for _, ref := range w.Refs() {
		o, l, err := w.read(ctx, w.Client, ref)
		switch {
		case err != nil:
			return nil, l, err
		case o == nil || string(o.GetUID()) != a.Workload:
			continue
		case o.GetGeneration() != a.Generation:
			return nil, l, fault.WriteConflict.Errorf("%s %s has generation %d, the write expects %d", ref.Kind, ref.Name, o.GetGeneration(), a.Generation)
		}
		return o, l, nil
	}
	return nil, layout{}, fault.WriteConflict.Errorf("there is no workload %s with the UID %s", a.Name, a.Workload)
}

// edit changes the object as the act says.
func (w *Workload) edit(ctx context.Context, o *unstructured.Unstructured, l layout, a rollout.Act) error {
	if a.Claim != "" {
		if err := w.editOwners(ctx, o, a.Claim); err != nil {
			return err
		}
	}
	if a.Held != nil {
		editLabel(o, HeldLabel, map[bool]string{true: "true"}[*a.Held])
	}
	set := func(path []string, value any) error {
		if path == nil {
			return rollout.FieldNotHonoured.Errorf("%s has no such field", l.kind)
		}
		return unstructured.SetNestedField(o.Object, value, path...)
	}
	if a.Template != "" {
		if err := w.editTemplate(ctx, o, a.Template); err != nil {
			return err
		}
	}
	if a.Replicas != nil {
		if err := set([]string{"spec", "replicas"}, int64(*a.Replicas)); err != nil {
			return err
		}
	}
	if l.replacesType() && (a.UpdateType != "" || text(o.Object, l.updateType...) == rollout.OnDelete) {
		return editType(o, l, a)
	}
	if a.First != nil || a.Strategy != "" {
		if err := l.editPriority(o, a); err != nil {
			return err
		}
	}
	if a.Partition != nil && l.readPartition(o.Object, number(o.Object, []string{"spec", "replicas"}, 1)) != *a.Partition {
		if err := set(l.partition, l.partitionValue(*a.Partition)); err != nil {
			return err
		}
	}
	if a.Paused != nil {
		if err := set(l.paused, *a.Paused); err != nil {
			return err
		}
	}
	if a.UpdateType != "" {
		if a.UpdateType == rollout.RollingUpdate && l.rolling != "" {
			a.UpdateType = l.rolling
		}
		if err := set(l.updateType, a.UpdateType); err != nil {
			return err
		}
	}
	if a.Reserve != nil {
		var list []any
		for _, ordinal := range a.Reserve {
			list = append(list, ordinalValue(ordinal))
		}
		if err := set(l.reserved, list); err != nil {
			return err
		}
	}
	return nil
}

// editType changes the type and the partition of a set with ordinals together: there is no rollingUpdate
// beside OnDelete, and a set that rolls again keeps all pods unless the act says otherwise. Going back
// restores the strategy that the act brings.
func editType(o *unstructured.Unstructured, l layout, a rollout.Act) error {
	was := text(o.Object, l.updateType...)
	next := cmp.Or(a.UpdateType, was)
	if next == rollout.OnDelete {
		unstructured.RemoveNestedField(o.Object, rollingUpdate...)
		return unstructured.SetNestedField(o.Object, next, l.updateType...)
	}
	partition := rollout.HoldAll
	switch {
	case a.Partition != nil:
		partition = *a.Partition
	case was != rollout.OnDelete:
		partition = l.readPartition(o.Object, number(o.Object, []string{"spec", "replicas"}, 1))
	}
	if was == rollout.OnDelete && a.Strategy != "" {
		original, err := strategyOf(a.Strategy)
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedMap(o.Object, original, updateStrategy...); err != nil {
			return err
		}
	}
	if a.Paused != nil && l.paused != nil {
		if err := unstructured.SetNestedField(o.Object, *a.Paused, l.paused...); err != nil {
			return err
		}
	}
	if err := unstructured.SetNestedField(o.Object, next, l.updateType...); err != nil {
		return err
	}
	return unstructured.SetNestedField(o.Object, l.partitionValue(partition), l.partition...)
}

// ordinalValue is a number where the ordinal is one, and a text for a range.
func ordinalValue(text string) any {
	if n := ordinalOf("-" + text); n >= 0 {
		return int64(n)
	}
	return text
}

func editLabel(o *unstructured.Unstructured, key, value string) {
	all := o.GetLabels()
	if value == "" {
		delete(all, key)
	} else {
		if all == nil {
			all = map[string]string{}
		}
		all[key] = value
	}
	o.SetLabels(all)
}

// LeftAnnotation says on a workload what a Rollout has left that was deleted in the middle.
const LeftAnnotation = "pawl.dev/left"

// Label marks a workload as that of a Rollout, if it is the version that was read.
func (w *Workload) Label(ctx context.Context, o *unstructured.Unstructured, name string) error {
	before := o.DeepCopy()
	editLabel(o, RolloutLabel, name)
	return w.write(ctx, before, o)
}

// Unlabel takes the mark away; left says what remains to be done, empty: nothing.
func (w *Workload) Unlabel(ctx context.Context, o *unstructured.Unstructured, left string) error {
	before := o.DeepCopy()
	editLabel(o, RolloutLabel, "")
	if left != "" {
		all := o.GetAnnotations()
		if all == nil {
			all = map[string]string{}
		}
		all[LeftAnnotation] = left
		o.SetAnnotations(all)
	}
	return w.write(ctx, before, o)
}

// write patches what has changed of an object.
func (w *Workload) write(ctx context.Context, before, after *unstructured.Unstructured) error {
	patch, err := difference(before, after)
	if err != nil || patch == nil {
		return err
	}
	err = w.Client.Patch(ctx, after, patch, client.FieldOwner(FieldOwner))
	if err != nil && isStale(err) && w.changed(ctx, before) {
		return fault.WriteConflict.Errorf("%s %s was changed: %w", before.GetKind(), before.GetName(), err)
	}
	return controller.Fault(err)
}

// editOwners takes or releases the controller reference and the anchor together.
func (w *Workload) editOwners(ctx context.Context, o *unstructured.Unstructured, claim rollout.ClaimChange) error {
	refs := slices.DeleteFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return r.UID == w.Rollout.UID || r.Kind == "ConfigMap" && r.Name == AnchorName
	})
	if claim == rollout.ReleaseClaim {
		o.SetOwnerReferences(refs)
		if len(refs) == 0 {
			unstructured.RemoveNestedField(o.Object, "metadata", "ownerReferences")
		}
		return nil
	}
	for i := 0; i < len(refs); i++ {
		if refs[i].Controller == nil || !*refs[i].Controller {
			continue
		}
		gone, err := w.gone(ctx, refs[i])
		if err != nil {
			return err
		}
		if !gone {
			return rollout.ClaimedByOther.Errorf("%s %s belongs to %s %s", o.GetKind(), o.GetName(), refs[i].Kind, refs[i].Name)
		}
		refs = slices.Delete(refs, i, i+1)
		i--
	}
	anchor, err := w.ensureAnchor(ctx)
	if err != nil {
		return err
	}
	o.SetOwnerReferences(append(refs,
		metav1.OwnerReference{
			APIVersion: w.Rollout.apiVersion(), Kind: w.Rollout.kind(), Name: w.Rollout.Name, UID: w.Rollout.UID,
			Controller: new(true), BlockOwnerDeletion: new(false),
		},
		metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: AnchorName, UID: anchor.UID}))
	editLabel(o, RolloutLabel, w.Rollout.Name)
	if all := o.GetAnnotations(); all[LeftAnnotation] != "" { // it is this Rollout's matter now
		delete(all, LeftAnnotation)
		o.SetAnnotations(all)
	}
	return nil
}

// ensureAnchor returns the anchor of the namespace, and makes it if there is none.
func (w *Workload) ensureAnchor(ctx context.Context) (*corev1.ConfigMap, error) {
	anchor, err := w.anchor(ctx)
	if err != nil || anchor != nil {
		return anchor, err
	}
	anchor = &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Rollout.Namespace, Name: AnchorName},
		Data:       map[string]string{"about": "Workloads that a Rollout of Pawl holds have this object as a second owner, so that deleting the Rollout in the foreground does not delete them."},
	}
	err = w.Client.Create(ctx, anchor)
	if apierrors.IsAlreadyExists(err) { // the cache is behind
		err = w.live().Get(ctx, client.ObjectKeyFromObject(anchor), anchor)
	}
	return anchor, controller.Fault(err)
}

// editTemplate writes the template of a named revision, or the one that a ControllerRevision keeps.
func (w *Workload) editTemplate(ctx context.Context, o *unstructured.Unstructured, revision string) error {
	if raw := w.Templates.raw(revision); raw != nil {
		return unstructured.SetNestedMap(o.Object, raw, "spec", "template")
	}
	revisions, err := w.revisions(ctx, o)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(revisions, func(r appsv1.ControllerRevision) bool { return r.Name == revision })
	if i < 0 {
		return rollout.TargetRevisionMissing.Errorf("%s %s has no revision %s any more", o.GetKind(), o.GetName(), revision)
	}
	raw, err := rawTemplate(revisions[i])
	if err != nil {
		return err
	}
	return unstructured.SetNestedField(o.Object, raw, "spec", "template")
}

// difference is a patch of what has changed, that tests UID and generation, and the resourceVersion
// where owners or labels change. nil: nothing has changed.
func difference(before, after *unstructured.Unstructured) (client.Patch, error) {
	var ops []controller.Operation
	meta := false
	for _, field := range []string{"ownerReferences", "labels", "annotations"} {
		was, had, _ := unstructured.NestedFieldNoCopy(before.Object, "metadata", field)
		is, has, _ := unstructured.NestedFieldNoCopy(after.Object, "metadata", field)
		switch {
		case equality.Semantic.DeepEqual(was, is):
			continue
		case !has:
			ops = append(ops, controller.Operation{Op: "remove", Path: "/metadata/" + field})
		case had:
			ops = append(ops, controller.Operation{Op: "replace", Path: "/metadata/" + field, Value: is})
		default:
			ops = append(ops, controller.Operation{Op: "add", Path: "/metadata/" + field, Value: is})
		}
		meta = true
	}
	was, _, _ := unstructured.NestedMap(before.Object, "spec")
	is, _, _ := unstructured.NestedMap(after.Object, "spec")
	for _, key := range changedKeys(was, is) {
		op := controller.Operation{Op: "add", Path: "/spec/" + key, Value: is[key]}
		if _, has := is[key]; !has {
			op = controller.Operation{Op: "remove", Path: "/spec/" + key}
		}
		ops = append(ops, op)
	}
	if ops == nil {
		return nil, nil
	}
	if meta {
		ops = append([]controller.Operation{{Op: "test", Path: "/metadata/resourceVersion", Value: before.GetResourceVersion()}}, ops...)
	}
	return controller.SameSpec(before, ops...)
}

func changedKeys(was, is map[string]any) []string {
	var keys []string
	for key := range was {
		if _, ok := is[key]; !ok {
			keys = append(keys, key)
		}
	}
	for key, value := range is {
		if !equality.Semantic.DeepEqual(was[key], value) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// changed reports whether a live read shows another object than the one that was patched.
func (w *Workload) changed(ctx context.Context, before *unstructured.Unstructured) bool {
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(before.GroupVersionKind())
	if err := w.live().Get(ctx, client.ObjectKeyFromObject(before), now); err != nil {
		return apierrors.IsNotFound(err)
	}
	return now.GetUID() != before.GetUID() || now.GetGeneration() != before.GetGeneration() || now.GetResourceVersion() != before.GetResourceVersion()
}

func (w *Workload) podRef(ref rollout.PodRef) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Rollout.Namespace, Name: ref.Name}}
}

// evict asks for the eviction of one pod: PodDisruptionBudgets may refuse it.
func (w *Workload) evict(ctx context.Context, ref rollout.PodRef) error {
	uid := types.UID(ref.UID)
	eviction := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}}
	err := w.Client.SubResource("eviction").Create(ctx, w.podRef(ref), eviction)
	switch {
	case apierrors.IsTooManyRequests(err):
		return rollout.WorkloadBusy.Errorf("the eviction of pod %s is refused: %w%s", ref.Name, err, causes(err))
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return fault.WriteConflict.Errorf("pod %s is another one now: %w", ref.Name, err)
	}
	return controller.Fault(err)
}

// causes are what the API server says beside its message: the name of a PodDisruptionBudget.
func causes(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}
	text := ""
	for _, c := range status.Status().Details.Causes {
		text += " " + c.Message
	}
	return text
}

// delete deletes one pod that is not ready, as it was seen.
func (w *Workload) delete(ctx context.Context, ref rollout.PodRef) error {
	uid := types.UID(ref.UID)
	err := w.Client.Delete(ctx, w.podRef(ref), client.Preconditions{UID: &uid, ResourceVersion: &ref.ResourceVersion})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return fault.WriteConflict.Errorf("pod %s is another one now: %w", ref.Name, err)
	}
	return controller.Fault(err)
}
