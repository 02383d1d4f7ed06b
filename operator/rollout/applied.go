package rollout

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/rollout"
)

// Applied is a workload before and after its manifest is applied, as a dry run shows it. Before is nil
// for one that does not exist yet.
type Applied struct{ Before, After *unstructured.Unstructured }

// appliedClient reads workloads as they are after their manifests. One that does not exist yet is read only as a
// Deployment: that has its pods from a source.
type appliedClient struct {
	client.Client
	all []Applied
}

func (c appliedClient) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	o, ok := into.(*unstructured.Unstructured)
	if !ok {
		return c.Client.Get(ctx, key, into, opts...)
	}
	gvk := o.GroupVersionKind()
	a, ok := appliedNamed(c.all, gvk.Kind, key.Name)
	switch {
	case !ok || a.After.GroupVersionKind().Group != gvk.Group || a.Before == nil && gvk.Kind != string(rollout.Deployment):
		return c.Client.Get(ctx, key, into, opts...)
	case a.After.GroupVersionKind() == gvk:
		a.After.DeepCopyInto(o)
		return nil
	}
	// The manifest has another version. Its size and template stand at the same place in each.
	if err := c.Client.Get(ctx, key, into, opts...); err != nil {
		return err
	}
	o.SetGeneration(a.After.GetGeneration())
	for _, field := range []string{"replicas", "template"} {
		if value, found, err := unstructured.NestedFieldCopy(a.After.Object, "spec", field); err != nil || found {
			if err := unstructured.SetNestedField(o.Object, value, "spec", field); err != nil {
				return err
			}
		}
	}
	return nil
}

func appliedNamed(all []Applied, kind, name string) (Applied, bool) {
	i := slices.IndexFunc(all, func(a Applied) bool { return a.After.GetKind() == kind && a.After.GetName() == name })
	if i < 0 {
		return Applied{}, false
	}
	return all[i], true
}

// resized are the pods that the controllers of applied workloads create and delete.
type resized struct{ created, deleted []rollout.Pod }

// settle puts the workloads where their controllers leave them when the manifests have been applied, and
// before a batch begins.
func (s *Survey) settle(all []Applied) (r resized) {
	if s.Facts.Target == nil {
		return r
	}
	workloads := []*rollout.WorkloadFacts{s.Facts.Target}
	for i := range s.Facts.Sources {
		workloads = append(workloads, &s.Facts.Sources[i])
	}
	for _, t := range workloads {
		kind := string(t.Kind)
		if t.Kind == rollout.AdvancedStatefulSet {
			kind = "StatefulSet"
		}
		if a, ok := appliedNamed(all, kind, t.Name); ok {
			s.settleTemplate(t, a)
			s.settleSize(t, a, &r)
		}
	}
	return r
}

// settleTemplate gives a workload the revision of the template in its manifest.
func (s *Survey) settleTemplate(t *rollout.WorkloadFacts, a Applied) {
	if a.Before == nil || observes(a.Before) {
		t.ObservedGeneration = t.Generation
	}
	changed := a.Before == nil || !equality.Semantic.DeepEqual(templateIn(a.Before), templateIn(a.After))
	switch {
	case !changed:
	case t.Kind == rollout.Deployment:
		t.Template, t.CurrentRevision, t.UpdateRevision = another, another, another
		moved := 0
		for i := range s.Facts.Pods {
			if p := &s.Facts.Pods[i]; p.Workload == t.UID {
				p.Revision = another
				moved++
			}
		}
		if moved > 0 {
			s.warn("the template of Deployment %s changes, and its own controller replaces its %d pods outside of the batches: a Rollout goes from one Deployment to another", t.Name, moved)
		}
	case t.Template == t.UpdateRevision: // the same template, spelled in another way
	default:
		if t.Template == workload.Unobserved {
			t.Template = another
		}
		s.retemplate(t, t.Template)
		if !t.Held {
			s.warn("%s %s is not held yet: its own controller may replace pods as soon as the template is written; apply the Rollout first, and the template when the workload is parked", t.Kind, t.Name)
		}
	}
}

// settleSize gives a workload the pods that its manifest asks for. New pods of a held workload have the
// revision that it had.
func (s *Survey) settleSize(t *rollout.WorkloadFacts, a Applied, r *resized) {
	was := 0
	if a.Before != nil {
		was = replicasIn(a.Before)
	}
	if was == t.Replicas && equality.Semantic.DeepEqual(reservedIn(a.Before), reservedIn(a.After)) {
		return
	}
	t.StatusReplicas = t.Replicas
	own := func(p rollout.Pod) bool { return p.Workload == t.UID }
	var left []rollout.Pod
	if ordered(t.Kind) {
		left = s.byOrdinal(t, own)
	} else {
		left = s.byCount(t, own)
	}
	labels, _, _ := unstructured.NestedStringMap(a.After.Object, "spec", "template", "metadata", "labels")
	for i := range left {
		if left[i].UID == "" { // created by the controller
			left[i].Labels = labels
			r.created = append(r.created, left[i])
		}
	}
	for _, p := range s.Facts.Pods {
		if own(p) && !slices.ContainsFunc(left, func(l rollout.Pod) bool { return l.Name == p.Name }) {
			r.deleted = append(r.deleted, p)
		}
	}
	s.Facts.Pods = append(slices.DeleteFunc(slices.Clone(s.Facts.Pods), own), left...)
	if a.Before != nil && was != t.Replicas {
		s.warn("%s %s goes from %d to %d pods by its own controller, outside of the batches; targetSize changes the size in batches", t.Kind, t.Name, was, t.Replicas)
	}
}

func ordered(k rollout.Kind) bool {
	return k == rollout.StatefulSet || k == rollout.AdvancedStatefulSet
}

// byOrdinal are the pods of a workload whose pods have ordinals.
func (s *Survey) byOrdinal(t *rollout.WorkloadFacts, own func(rollout.Pod) bool) (left []rollout.Pod) {
	for o := t.FirstOrdinal; len(left) < t.Replicas; o++ {
		if isReserved(t.Reserved, o) {
			continue
		}
		i := slices.IndexFunc(s.Facts.Pods, func(p rollout.Pod) bool { return own(p) && p.Ordinal == o })
		if i >= 0 {
			left = append(left, s.Facts.Pods[i])
			continue
		}
		left = append(left, rollout.Pod{Name: t.Name + "-" + strconv.Itoa(o), Workload: t.UID, Ordinal: o, Revision: t.CurrentRevision, Ready: true})
	}
	return left
}

// byCount are the pods of a workload that names its pods itself.
func (s *Survey) byCount(t *rollout.WorkloadFacts, own func(rollout.Pod) bool) (left []rollout.Pod) {
	for _, p := range s.Facts.Pods {
		if own(p) && len(left) < t.Replicas {
			left = append(left, p)
		}
	}
	for n := 1; len(left) < t.Replicas; n++ {
		left = append(left, rollout.Pod{Name: t.Name + "-new-" + strconv.Itoa(n), Workload: t.UID, Ordinal: -1, Revision: t.CurrentRevision, Ready: true})
	}
	return left
}

// isReserved reports an ordinal in a list such as 3 and 5-7.
func isReserved(list []string, ordinal int) bool {
	return slices.ContainsFunc(list, func(item string) bool {
		first, last, isRange := strings.Cut(item, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, wrong := strconv.Atoi(last)
		return err == nil && wrong == nil && from <= ordinal && ordinal <= to
	})
}

// resizeMembers lets the quorum have the members that the controllers leave it.
func (s *Survey) resizeMembers(r resized, selector rollout.Selector) {
	s.Facts.Members = slices.DeleteFunc(s.Facts.Members, func(m rollout.Pod) bool {
		return slices.ContainsFunc(r.deleted, func(p rollout.Pod) bool { return p.Name == m.Name })
	})
	for _, p := range r.created {
		if selector.Matches(p.Labels) {
			s.Facts.Members = append(s.Facts.Members, p)
		}
	}
}

func (s *Survey) warn(format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

func templateIn(o *unstructured.Unstructured) any {
	template, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "template")
	return template
}

func reservedIn(o *unstructured.Unstructured) any {
	if o == nil {
		return nil
	}
	reserved, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "reserveOrdinals")
	return reserved
}

func replicasIn(o *unstructured.Unstructured) int {
	n, found, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
	if !found || err != nil {
		return 1
	}
	return int(n)
}

// observes reports whether the controller of a workload has seen its newest spec.
func observes(o *unstructured.Unstructured) bool {
	seen, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return seen >= o.GetGeneration()
}
