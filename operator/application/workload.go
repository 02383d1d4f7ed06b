package application

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

// workloadLabel tells the pods of the Deployments of one component apart.
const workloadLabel = "pawl.dev/workload"

func refOf(c api.ApplicationRevisionComponent) workload.Ref {
	return workload.Ref{APIVersion: c.Workload.APIVersion, Kind: c.Workload.Kind, Name: c.WorkloadName}
}

// desired is the workload of a component as it is applied. The size is that of the component unless
// one is given.
func desired(a *api.Application, c api.ApplicationRevisionComponent, size *int32) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": specOf(c)}}
	o.SetAPIVersion(c.Workload.APIVersion)
	o.SetKind(c.Workload.Kind)
	o.SetNamespace(a.Namespace)
	o.SetName(c.WorkloadName)
	own := maps.Clone(c.Workload.Metadata.Labels)
	if own == nil {
		own = map[string]string{}
	}
	own[workload.ApplicationLabel], own[workload.ComponentLabel] = a.Name, c.Name
	o.SetLabels(own)
	o.SetAnnotations(c.Workload.Metadata.Annotations)
	o.SetOwnerReferences([]metav1.OwnerReference{owner(a)})
	if size != nil {
		set(o, int64(*size), "spec", "replicas")
	}
	if c.Workload.Kind == string(rollout.Deployment) {
		set(o, c.WorkloadName, "spec", "selector", "matchLabels", workloadLabel)
		set(o, c.WorkloadName, "spec", "template", "metadata", "labels", workloadLabel)
	}
	return o
}

// set writes a field. Where a user has put something that is no object on the way, the API server
// refuses the workload.
func set(o *unstructured.Unstructured, value any, path ...string) {
	_ = unstructured.SetNestedField(o.Object, value, path...)
}

// live reads a workload from the cache of labelled ones, or from the API server; nil: it does not exist.
func (p *pass) live(ctx context.Context, ref workload.Ref) (*unstructured.Unstructured, error) {
	w := workload.Workload{Client: throughCache{p.cache.Client(), p.cache.Cache}, Rollout: workload.Identity{Namespace: p.key.Namespace}}
	o, err := w.Read(ctx, ref)
	if err == nil && o == nil {
		w.Client = p.cache.Client()
		o, err = w.Read(ctx, ref)
	}
	return o, err
}

// throughCache is a client that reads unstructured objects from a cache: the client itself asks the API
// server for them.
type throughCache struct {
	client.Client
	cache client.Reader
}

// Get implements client.Reader.
func (c throughCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	return c.cache.Get(ctx, key, obj, options...)
}

// look reads the workloads. One that its Rollout has found and that does not exist any more is made and
// scaled anew, by another Rollout.
func look(ctx context.Context, p *pass) outcome.Outcome {
	for _, c := range p.situation.newest().Spec.Components {
		o, err := p.live(ctx, refOf(c))
		switch {
		case fault.Of(err) == rollout.KindNotServed:
			return outcome.Wait(pollKind, rollout.KindNotServed.Reason(), "%s", fault.Message(err))
		case err != nil:
			return outcome.Fail(err)
		case o != nil:
			p.workloads[c.Name] = o
		case c.Name == p.move.Component && p.rollout != nil && p.rollout.Status.Workload != nil && p.rollout.Status.Workload.Name == c.WorkloadName:
			p.startsAnew = true
		}
	}
	return outcome.Done()
}

// apply brings every component to what it is asked for, but for those that the Rollout moves.
func apply(ctx context.Context, p *pass) outcome.Outcome {
	a := p.application()
	for _, c := range p.situation.newest().Spec.Components {
		how, o := p.move.treatmentOf(c.Name, a.Spec.RolloutPlan != nil, a.Spec.RolloutComponent != ""), p.workloads[c.Name]
		if o != nil {
			if err := p.free(o); err != nil {
				return outcome.Fail(err)
			}
		}
		if how == untouched {
			continue
		}
		o, err := p.applyOne(ctx, c, how, o)
		if err != nil {
			return outcome.Fail(err)
		}
		p.workloads[c.Name] = o
	}
	return outcome.Done()
}

// free refuses a workload of somebody else.
func (p *pass) free(o *unstructured.Unstructured) error {
	if name := o.GetLabels()[workload.RolloutLabel]; name != "" && name != p.key.Name {
		return rollout.ClaimedByOther.Errorf("%s %s is that of Rollout %s", o.GetKind(), o.GetName(), name)
	}
	if c := metav1.GetControllerOf(o); c != nil && (c.Kind != "Rollout" || c.Name != p.key.Name) {
		return rollout.ClaimedByOther.Errorf("%s %s belongs to %s %s", o.GetKind(), o.GetName(), c.Kind, c.Name)
	}
	if name := o.GetLabels()[workload.ApplicationLabel]; name != "" && name != p.key.Name {
		return rollout.ClaimedByOther.Errorf("%s %s is that of Application %s", o.GetKind(), o.GetName(), name)
	}
	return nil
}

func (p *pass) applyOne(ctx context.Context, c api.ApplicationRevisionComponent, how treatment, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	a, planned := p.application(), c.Name == p.move.Component
	switch {
	case o == nil && planned:
		if err := p.beginsEmpty(ctx, c); err != nil {
			return nil, err
		}
		return p.send(ctx, desired(a, c, new(int32)), nil, how)
	case o == nil:
		return p.send(ctx, desired(a, c, nil), nil, how)
	case how == created:
		return o, nil
	case how == keepSize:
		size, found, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
		if !found {
			size = 1
		}
		return p.send(ctx, desired(a, c, new(int32(size))), o, how) //nolint:gosec // a size
	}
	o, err := p.send(ctx, desired(a, c, nil), o, how)
	if err == nil {
		err = p.unhold(ctx, refOf(c), o)
	}
	return o, err
}

// beginsEmpty records that a workload that was reached begins again without pods, before it is made.
func (p *pass) beginsEmpty(ctx context.Context, c api.ApplicationRevisionComponent) error {
	s := &p.application().Status
	if was := componentOf(p.situation.reached(), c.Name); was == nil || was.WorkloadName != c.WorkloadName {
		return nil
	}
	s.ReachedReplicas = maps.Clone(s.ReachedReplicas)
	s.ReachedReplicas[c.Name], p.move.Done = 0, false
	return p.store.Save(ctx, p.draft, true)
}

// send applies a workload, unless it is as this process has applied it. A size that was read counts for
// the version that was read only.
func (p *pass) send(ctx context.Context, o, was *unstructured.Unstructured, how treatment) (*unstructured.Unstructured, error) {
	ref := workload.Ref{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName()}
	moving := p.situation.Rollout != nil && !p.situation.Rollout.Ended // it writes size and partition
	text, err := markOf(o, how)
	if err != nil {
		return nil, err
	}
	mark := func(live *unstructured.Unstructured) applied {
		return applied{uid: live.GetUID(), generation: live.GetGeneration(), text: text}
	}
	if was != nil && carries(was, o) && p.applied[ref].same(mark(was), moving) {
		return was, nil
	}
	if was != nil && how == keepSize {
		o.SetResourceVersion(was.GetResourceVersion())
	}
	err = p.cache.Client().Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.ForceOwnership, client.FieldOwner(FieldOwner))
	if err != nil {
		return nil, err
	}
	p.applied[ref] = mark(o)
	return o, nil
}

// applied is what was applied, and what came of it.
type applied struct {
	uid        types.UID
	generation int64
	text       string
}

func (a applied) same(b applied, moving bool) bool {
	return a.uid == b.uid && a.text == b.text && (moving || a.generation == b.generation)
}

// markOf is what is applied, but for a size that is kept.
func markOf(o *unstructured.Unstructured, how treatment) (string, error) {
	o = o.DeepCopy()
	if how == keepSize {
		unstructured.RemoveNestedField(o.Object, "spec", "replicas")
	}
	text, err := json.Marshal(o.Object)
	return string(text), err
}

// carries reports whether an object has the labels, annotations and owners of another one.
func carries(o, want *unstructured.Unstructured) bool {
	has := func(all, want map[string]string) bool {
		for key, value := range want {
			if all[key] != value {
				return false
			}
		}
		return true
	}
	owners := o.GetOwnerReferences()
	return has(o.GetLabels(), want.GetLabels()) && has(o.GetAnnotations(), want.GetAnnotations()) &&
		!slices.ContainsFunc(want.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
			return !slices.ContainsFunc(owners, func(r metav1.OwnerReference) bool { return r.UID == ref.UID })
		})
}

// unhold releases what a Rollout has left held, as no plan moves the workload any more.
func (p *pass) unhold(ctx context.Context, ref workload.Ref, o *unstructured.Unstructured) error {
	if o.GetLabels()[workload.HeldLabel] == "" || metav1.GetControllerOf(o) != nil {
		return nil
	}
	kind, err := workload.KindOf(ref.APIVersion, ref.Kind)
	if err != nil {
		return err
	}
	act := rollout.Act{Workload: string(o.GetUID()), Generation: o.GetGeneration(), Held: new(false)}
	if kind != rollout.Deployment {
		act.Partition = new(0)
	}
	if kind != rollout.StatefulSet {
		act.Paused = new(false)
	}
	w := workload.Workload{Client: p.cache.Client(), Live: p.manager.Live(), Rollout: workload.Identity{Namespace: p.key.Namespace, Name: p.key.Name}, Target: ref}
	return w.Apply(ctx, act)
}

// missing says how many pods of a workload are not as they are asked for; empty: all are.
func missing(o *unstructured.Unstructured) string {
	number := func(missing int64, path ...string) int64 {
		n, found, _ := unstructured.NestedInt64(o.Object, path...)
		if !found {
			return missing
		}
		return n
	}
	size := number(1, "spec", "replicas")
	updated, ready := number(0, "status", "updatedReplicas"), number(0, "status", "readyReplicas")
	good := min(updated, ready)
	if number(0, "status", "observedGeneration") < o.GetGeneration() || good < size || number(0, "status", "replicas") != size {
		return fmt.Sprintf("%d of %d pods of %s %s are updated and ready", min(good, size), size, o.GetKind(), o.GetName())
	}
	return ""
}

// incomplete says what the components miss; empty: nothing.
func (p *pass) incomplete() string {
	var all []string
	for _, c := range p.situation.newest().Spec.Components {
		o := p.workloads[c.Name]
		switch {
		case o == nil:
			all = append(all, fmt.Sprintf("%s %s does not exist", c.Workload.Kind, c.WorkloadName))
		case missing(o) != "":
			all = append(all, missing(o))
		}
	}
	return strings.Join(all, "; ")
}

// owned are the Deployments of the components, as the cache has them.
func (p *pass) owned(ctx context.Context) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("apps/v1")
	list.SetKind("DeploymentList")
	err := p.cache.List(ctx, list, client.InNamespace(p.key.Namespace), client.MatchingLabels{workload.ApplicationLabel: p.key.Name})
	if err != nil {
		return nil, controller.Fault(err)
	}
	return slices.DeleteFunc(list.Items, func(o unstructured.Unstructured) bool { return !ownedBy(&o, p.application()) }), nil
}
