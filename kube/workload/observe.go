package workload

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/rollout"
)

// Observe reads the target, its source, their pods, PodDisruptionBudgets and autoscalers. What the
// Rollout asks for (Wanted), the members of a quorum and the answers are not its matter.
func (w *Workload) Observe(ctx context.Context) (rollout.Facts, error) {
	f := rollout.Facts{
		Now:     time.Now(),
		Rollout: rollout.Identity{Namespace: w.Rollout.Namespace, Name: w.Rollout.Name, UID: string(w.Rollout.UID)},
	}
	target, l, err := w.read(ctx, w.Client, w.Target)
	switch {
	case fault.Of(err) == rollout.KindNotServed:
		f.Unserved = w.Target.Kind + " of " + w.Target.APIVersion
		return f, nil
	case err != nil:
		return f, err
	case target == nil:
		return f, nil
	}
	facts, pods, err := w.observe(ctx, target, l)
	if err != nil {
		return f, err
	}
	f.Target, f.Pods = &facts, pods
	for _, ref := range w.Sources {
		source, l, err := w.read(ctx, w.Client, ref)
		if err != nil {
			return f, err
		}
		if source != nil {
			facts, pods, err := w.observe(ctx, source, l)
			if err != nil {
				return f, err
			}
			f.Sources, f.Pods = append(f.Sources, facts), append(f.Pods, pods...)
		}
	}
	if f.Budgets, err = w.budgets(ctx, f.Pods); err != nil {
		return f, err
	}
	f.Autoscaler, err = w.autoscaler(ctx)
	return f, err
}

// observe reads one workload and its pods.
func (w *Workload) observe(ctx context.Context, o *unstructured.Unstructured, l layout) (rollout.WorkloadFacts, []rollout.Pod, error) {
	replicas := number(o.Object, []string{"spec", "replicas"}, 1)
	facts := rollout.WorkloadFacts{
		Kind: l.kind, Name: o.GetName(), UID: string(o.GetUID()), Generation: o.GetGeneration(), ResourceVersion: o.GetResourceVersion(),
		ObservedGeneration: int64(number(o.Object, []string{"status", "observedGeneration"}, 0)),
		Deleting:           !o.GetDeletionTimestamp().IsZero(),
		Replicas:           replicas,
		StatusReplicas:     number(o.Object, []string{"status", "replicas"}, 0),
		Partition:          l.readPartition(o.Object, replicas),
		UpdateType:         l.readUpdateType(o.Object),
		MinReadySeconds:    number(o.Object, l.minReady, 0),
		FirstOrdinal:       number(o.Object, l.ordinals, 0),
		Reserved:           l.readReserved(o.Object),
		Strategy:           readStrategy(o.Object),
		Label:              o.GetLabels()[RolloutLabel],
		Held:               o.GetLabels()[HeldLabel] != "",
	}
	if l.paused != nil {
		facts.Paused, _, _ = unstructured.NestedBool(o.Object, l.paused...)
	}
	facts.Parallel = l.policy == nil || text(o.Object, l.policy...) == string(appsv1.ParallelPodManagement)
	if l.unordered != nil {
		_, facts.Unordered, _ = unstructured.NestedFieldNoCopy(o.Object, l.unordered...)
	}
	facts.First, facts.Priority = l.readPriority(o)
	if err := w.owners(ctx, o, &facts); err != nil {
		return facts, nil, err
	}
	pods, err := w.podsOf(ctx, o)
	if err != nil {
		return facts, nil, err
	}
	if l.kind == rollout.Deployment {
		return w.withReplicaSets(ctx, o, facts, pods)
	}
	return w.withRevisions(ctx, o, l, facts, pods)
}

// owners reads who controls the workload, and whether the anchor keeps it.
func (w *Workload) owners(ctx context.Context, o *unstructured.Unstructured, facts *rollout.WorkloadFacts) error {
	for _, ref := range o.GetOwnerReferences() {
		if ref.Kind == "ConfigMap" && ref.Name == AnchorName {
			anchor, err := w.anchor(ctx)
			if err != nil {
				return err
			}
			facts.Anchored = anchor != nil && anchor.UID == ref.UID
		}
		if ref.Controller == nil || !*ref.Controller {
			continue
		}
		facts.Controller = &rollout.Owner{Kind: ref.Kind, Name: ref.Name, UID: string(ref.UID)}
		if ref.UID == w.Rollout.UID {
			continue
		}
		gone, err := w.gone(ctx, ref)
		if err != nil {
			return err
		}
		facts.Controller.Gone = gone
	}
	return nil
}

// gone reports whether a live read proves that an owner does not exist any more. Only Rollouts are
// looked for: a claim of another controller is never taken over.
func (w *Workload) gone(ctx context.Context, ref metav1.OwnerReference) (bool, error) {
	if ref.APIVersion != w.Rollout.apiVersion() || ref.Kind != w.Rollout.kind() {
		return false, nil
	}
	owner := &metav1.PartialObjectMetadata{}
	owner.SetGroupVersionKind(groupVersionKind(ref.APIVersion, ref.Kind))
	err := w.live().Get(ctx, client.ObjectKey{Namespace: w.Rollout.Namespace, Name: ref.Name}, owner)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, controller.Fault(fmt.Errorf("the owner %s %s: %w", ref.Kind, ref.Name, err))
	}
	return owner.UID != ref.UID, nil
}

func (w *Workload) anchor(ctx context.Context) (*corev1.ConfigMap, error) {
	anchor := &corev1.ConfigMap{}
	err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.Rollout.Namespace, Name: AnchorName}, anchor)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return anchor, controller.Fault(err)
}

func (w *Workload) podsOf(ctx context.Context, o *unstructured.Unstructured) ([]corev1.Pod, error) {
	selector, err := SelectorOf(o)
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	if err := w.Client.List(ctx, &list, client.InNamespace(o.GetNamespace()), client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, controller.Fault(err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// SelectorOf returns the selector of the pods of a workload.
func SelectorOf(o *unstructured.Unstructured) (labels.Selector, error) {
	raw, _, _ := unstructured.NestedMap(o.Object, "spec", "selector")
	var s metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &s); err != nil {
		return nil, rollout.UnsupportedWorkload.Errorf("the selector of %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	selector, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		return nil, rollout.UnsupportedWorkload.Errorf("the selector of %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return selector, nil
}

// SelectorOfAll returns a selector of the pods of several workloads of one rollout, the target first. It
// names what their selectors have in common: a key with one value for all, or with one of several. Where
// they have no key in common, or are no plain labels, it is that of the target.
func SelectorOfAll(target *unstructured.Unstructured, others ...*unstructured.Unstructured) (labels.Selector, error) {
	own, err := SelectorOf(target)
	if err != nil || len(others) == 0 {
		return own, err
	}
	values := map[string]sets.Set[string]{}
	for i, o := range append([]*unstructured.Unstructured{target}, others...) {
		plain, ok := plainLabels(o)
		if !ok {
			return own, nil
		}
		for key, value := range plain {
			if i == 0 {
				values[key] = sets.New[string]()
			}
			if values[key] != nil {
				values[key].Insert(value)
			}
		}
		maps.DeleteFunc(values, func(key string, _ sets.Set[string]) bool { _, has := plain[key]; return !has })
	}
	all := labels.NewSelector()
	for key, some := range values {
		requirement, err := labels.NewRequirement(key, selection.In, sets.List(some))
		if some.Len() == 1 {
			requirement, err = labels.NewRequirement(key, selection.Equals, sets.List(some))
		}
		if err != nil {
			return own, nil //nolint:nilerr // the API server has let it pass for a selector
		}
		all = all.Add(*requirement)
	}
	if all.Empty() {
		return own, nil
	}
	return all, nil
}

// plainLabels are those of a selector that has nothing else.
func plainLabels(o *unstructured.Unstructured) (map[string]string, bool) {
	more, _, _ := unstructured.NestedSlice(o.Object, "spec", "selector", "matchExpressions")
	plain, _, err := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
	return plain, err == nil && len(more) == 0
}

func controlledBy(o metav1.Object, uid string) bool {
	ref := metav1.GetControllerOf(o)
	return ref != nil && string(ref.UID) == uid
}

// withRevisions completes a workload whose revisions are ControllerRevisions.
func (w *Workload) withRevisions(ctx context.Context, o *unstructured.Unstructured, l layout, facts rollout.WorkloadFacts, pods []corev1.Pod) (rollout.WorkloadFacts, []rollout.Pod, error) {
	facts.CurrentRevision, facts.UpdateRevision = text(o.Object, "status", "currentRevision"), text(o.Object, "status", "updateRevision")
	revisions, err := w.revisions(ctx, o)
	if err != nil {
		return facts, nil, err
	}
	if facts.Template, err = w.RevisionCache.revisionOf(o, revisions); err != nil {
		return facts, nil, err
	}
	if facts.Template, err = w.Templates.observe(ctx, w.Client, o, revisions, facts.Template); err != nil {
		return facts, nil, err
	}
	var all []rollout.Pod
	for i := range pods {
		p := &pods[i]
		if !controlledBy(p, facts.UID) {
			continue
		}
		pod := w.pod(p, facts.UID, revisionName(p.Labels[appsv1.ControllerRevisionHashLabelKey], revisions))
		if l.kind == rollout.StatefulSet || l.kind == rollout.AdvancedStatefulSet {
			pod.Ordinal = ordinalOf(p.Name)
		}
		all = append(all, pod)
	}
	return facts, all, nil
}

// revisions are the ControllerRevisions of a workload, the oldest first.
func (w *Workload) revisions(ctx context.Context, o *unstructured.Unstructured) ([]appsv1.ControllerRevision, error) {
	selector, err := SelectorOf(o)
	if err != nil {
		return nil, err
	}
	var list appsv1.ControllerRevisionList
	if err := w.Client.List(ctx, &list, client.InNamespace(o.GetNamespace()), client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, controller.Fault(err)
	}
	own := slices.DeleteFunc(list.Items, func(r appsv1.ControllerRevision) bool { return !controlledBy(&r, string(o.GetUID())) })
	slices.SortFunc(own, func(a, b appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	return own, nil
}

// revisionName is the revision that the label of a pod means: its name, or the part behind the last
// dash.
func revisionName(label string, revisions []appsv1.ControllerRevision) string {
	for _, r := range revisions {
		if r.Name == label || label != "" && strings.HasSuffix(r.Name, "-"+label) {
			return r.Name
		}
	}
	return label
}

func templateOf(o map[string]any) (*corev1.PodTemplateSpec, error) {
	raw, _, err := unstructured.NestedMap(o, "spec", "template")
	if err != nil {
		return nil, rollout.UnsupportedWorkload.Errorf("the pod template: %w", err)
	}
	var t corev1.PodTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &t); err != nil {
		return nil, rollout.UnsupportedWorkload.Errorf("the pod template: %w", err)
	}
	return &t, nil
}

// rawTemplate is the template that a ControllerRevision keeps.
func rawTemplate(r appsv1.ControllerRevision) (map[string]any, error) {
	var data map[string]any
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return nil, rollout.TargetRevisionMissing.Errorf("revision %s cannot be read: %w", r.Name, err)
	}
	raw, ok, err := unstructured.NestedMap(data, "spec", "template")
	if !ok || err != nil {
		return nil, rollout.TargetRevisionMissing.Errorf("revision %s has no pod template", r.Name)
	}
	delete(raw, "$patch")
	return raw, nil
}

func templateOfRevision(r appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	raw, err := rawTemplate(r)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(raw)
	if err != nil {
		return nil, err
	}
	var t corev1.PodTemplateSpec
	err = json.Unmarshal(text, &t)
	return &t, err
}

// withReplicaSets completes a Deployment: its newest ReplicaSet is its revision.
func (w *Workload) withReplicaSets(ctx context.Context, o *unstructured.Unstructured, facts rollout.WorkloadFacts, pods []corev1.Pod) (rollout.WorkloadFacts, []rollout.Pod, error) {
	selector, err := SelectorOf(o)
	if err != nil {
		return facts, nil, err
	}
	var sets appsv1.ReplicaSetList
	if err := w.Client.List(ctx, &sets, client.InNamespace(o.GetNamespace()), client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return facts, nil, controller.Fault(err)
	}
	const revision = "deployment.kubernetes.io/revision"
	hashes := map[string]string{} // by UID of the ReplicaSet
	for _, s := range sets.Items {
		if !controlledBy(&s, facts.UID) {
			continue
		}
		hash := s.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
		hashes[string(s.UID)] = hash
		if s.Annotations[revision] == o.GetAnnotations()[revision] {
			facts.UpdateRevision = hash
		}
	}
	facts.CurrentRevision, facts.Template = facts.UpdateRevision, facts.UpdateRevision
	var all []rollout.Pod
	for i := range pods {
		p := &pods[i]
		ref := metav1.GetControllerOf(p)
		if ref == nil {
			continue
		}
		hash, ours := hashes[string(ref.UID)]
		if ours {
			all = append(all, w.pod(p, facts.UID, hash))
		}
	}
	return facts, all, nil
}

// lifecycleLabel keeps a pod of OpenKruise out of the available ones unless it is Normal.
const lifecycleLabel = "lifecycle.apps.kruise.io/state"

func (w *Workload) pod(p *corev1.Pod, workload, revision string) rollout.Pod {
	pod := rollout.Pod{
		Name: p.Name, UID: string(p.UID), ResourceVersion: p.ResourceVersion, Workload: workload, Ordinal: -1, Revision: revision,
		Terminating: p.DeletionTimestamp != nil, Zone: p.Labels[cmp.Or(w.ZoneKey, corev1.LabelTopologyZone)], Node: p.Spec.NodeName, Labels: p.Labels,
	}
	if w.RoleLabel != "" {
		pod.Role = p.Labels[w.RoleLabel]
	}
	state := p.Labels[lifecycleLabel]
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			pod.Ready, pod.ReadySince = c.Status == corev1.ConditionTrue && (state == "" || state == "Normal"), c.LastTransitionTime.Time
		}
	}
	for _, s := range p.Status.ContainerStatuses {
		pod.Restarts += int(s.RestartCount)
	}
	return pod
}

// Unobserved is the template of a workload whose controller has not made a revision of it yet.
const Unobserved = "unobserved"

// Members are the pods that a selector of a quorum selects, of whatever workload.
func (w *Workload) Members(ctx context.Context, selector labels.Selector) ([]rollout.Pod, error) {
	var list corev1.PodList
	if err := w.Client.List(ctx, &list, client.InNamespace(w.Rollout.Namespace), client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, controller.Fault(err)
	}
	var all []rollout.Pod
	for i := range list.Items {
		p, of := &list.Items[i], ""
		if ref := metav1.GetControllerOf(p); ref != nil {
			of = string(ref.UID)
		}
		all = append(all, w.pod(p, of, p.Labels[appsv1.ControllerRevisionHashLabelKey]))
	}
	return all, nil
}

func ordinalOf(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	if err != nil {
		return -1
	}
	return n
}

// budgets are the PodDisruptionBudgets that select one of the pods.
func (w *Workload) budgets(ctx context.Context, pods []rollout.Pod) ([]rollout.PodBudget, error) {
	var list policyv1.PodDisruptionBudgetList
	if err := w.Client.List(ctx, &list, client.InNamespace(w.Rollout.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, controller.Fault(err)
	}
	var all []rollout.PodBudget
	for _, b := range list.Items {
		selector, err := convertSelector(b.Spec.Selector)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(pods, func(p rollout.Pod) bool { return selector.Matches(p.Labels) }) {
			all = append(all, rollout.PodBudget{Name: b.Name, Allowed: int(b.Status.DisruptionsAllowed), Selector: selector})
		}
	}
	return all, nil
}

func convertSelector(s *metav1.LabelSelector) (rollout.Selector, error) {
	if s == nil { // it selects nothing
		return rollout.Selector{MatchExpressions: []rollout.Requirement{{Operator: rollout.In}}}, nil
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return rollout.Selector{}, err
	}
	var selector rollout.Selector
	err = json.Unmarshal(raw, &selector)
	return selector, err
}

// autoscaler is the HorizontalPodAutoscaler that targets the workload.
func (w *Workload) autoscaler(ctx context.Context) (string, error) {
	var list autoscalingv2.HorizontalPodAutoscalerList
	err := w.Client.List(ctx, &list, client.InNamespace(w.Rollout.Namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		if meta.IsNoMatchError(err) {
			err = nil
		}
		return "", controller.Fault(err)
	}
	group, _, _ := strings.Cut(w.Target.APIVersion, "/")
	for _, h := range list.Items {
		ref := h.Spec.ScaleTargetRef
		if g, _, _ := strings.Cut(ref.APIVersion, "/"); ref.Kind == w.Target.Kind && ref.Name == w.Target.Name && g == group {
			return h.Name, nil
		}
	}
	return "", nil
}

// isStale reports whether the API server has refused a patch because one of its tests failed.
func isStale(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsConflict(err) || apierrors.IsInvalid(err) || errors.As(err, &status) && status.Status().Code == 422
}
