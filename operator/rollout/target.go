package rollout

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

// locate finds the workload and labels it: from then on a cache holds it.
func locate(ctx context.Context, p *pass) outcome.Outcome {
	p.reader = &reader{Client: p.cache.Client(), cached: p.cache.Cache, live: p.manager.Live(), memory: p.memory, now: p.Operator.now}
	p.workload = newWorkload(p.reader, p.manager.Live(), p.rollout(), p.plan)
	p.workload.RevisionCache = &p.memory.revisions
	if out := p.locateRefs(ctx); !out.IsDone() || p.decided || p.workload.Target == (workload.Ref{}) {
		return out
	}
	target := p.workload.Target
	p.kind = kindOf(api.WorkloadRef(target))
	if _, err := workload.KindOf(target.APIVersion, target.Kind); err != nil {
		return outcome.Done() // Decide refuses it
	}
	for _, ref := range p.workload.Refs() {
		o, err := p.workload.Read(ctx, ref)
		switch {
		case fault.Of(err) == rollout.KindNotServed:
			return outcome.Done()
		case err != nil:
			return outcome.Fail(err)
		case o == nil:
			p.awaits = append(p.awaits, ref)
			continue
		case ref == p.workload.Target:
			p.target = o
		default:
			p.left = append(p.left, o)
		}
		if out := p.label(ctx, o); !out.IsDone() {
			return out
		}
		if p.claimed {
			p.awaits = append(p.awaits, ref)
		}
	}
	p.memory.refused.Store(p.claimed)
	return outcome.Done()
}

// newWorkload is what a Rollout drives, by a client; it names no workloads yet.
func newWorkload(c client.Client, live client.Reader, r *api.Rollout, plan rollout.Plan) *workload.Workload {
	w := &workload.Workload{Client: c, Live: live, Rollout: identity(r)}
	if d := plan.Disruption; d != nil {
		w.ZoneKey = d.ZoneKey
	}
	if o := plan.Order; o != nil {
		w.RoleLabel = o.RoleLabel
	}
	return w
}

// locateRefs names the target and its sources: those of the spec, or of revisions of an Application.
func (p *pass) locateRefs(ctx context.Context) outcome.Outcome {
	spec := p.rollout().Spec
	if spec.Application != nil {
		return p.locateRevisions(ctx)
	}
	p.workload.Target = workload.Ref(spec.TargetRef)
	if spec.SourceRef != nil {
		p.workload.Sources = []workload.Ref{workload.Ref(*spec.SourceRef)}
	}
	return outcome.Done()
}

// refsOf are the workloads that a Rollout refers to, as far as it has found them.
func refsOf(r *api.Rollout) []api.WorkloadRef {
	switch {
	case r.Spec.Application == nil && r.Spec.SourceRef == nil:
		return []api.WorkloadRef{r.Spec.TargetRef}
	case r.Spec.Application == nil:
		return []api.WorkloadRef{r.Spec.TargetRef, *r.Spec.SourceRef}
	case r.Status.Workload == nil:
		return nil
	}
	all := []api.WorkloadRef{*r.Status.Workload}
	for _, name := range r.Status.Sources {
		all = append(all, api.WorkloadRef{APIVersion: all[0].APIVersion, Kind: all[0].Kind, Name: name})
	}
	return all
}

// label marks the workload as that of this Rollout. Of two Rollouts that name one workload the older
// one works, unless the other has claimed it already.
func (p *pass) label(ctx context.Context, o *unstructured.Unstructured) outcome.Outcome {
	name := o.GetLabels()[workload.RolloutLabel]
	if name == p.key.Name || p.deleting() {
		return outcome.Done()
	}
	if name != "" {
		p.memory.refused.Store(true) // before the other is read: it may go while this pass waits for it
		other := &api.Rollout{}
		err := p.manager.Live().Get(ctx, client.ObjectKey{Namespace: p.key.Namespace, Name: name}, other)
		switch {
		case errors.Is(err, control.NotFound):
		case err != nil:
			return outcome.Fail(err)
		case names(other, o) && (p.older(other) || claims(other, o)):
			p.claimed = true
			p.waits(outcome.Wait(0, rollout.ClaimedByOther.Reason(), "%s %s is that of Rollout %s", o.GetKind(), o.GetName(), name))
			return outcome.Done()
		}
	}
	if err := p.workload.Label(ctx, o, p.key.Name); err != nil {
		return outcome.Fail(err)
	}
	return outcome.Done()
}

// names reports whether a Rollout refers to a workload.
func names(r *api.Rollout, o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(refsOf(r), func(ref api.WorkloadRef) bool { return ref.Kind == o.GetKind() && ref.Name == o.GetName() })
}

func claims(r *api.Rollout, o *unstructured.Unstructured) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.UID == r.UID
}

// older reports whether another Rollout is older than this one.
func (p *pass) older(other *api.Rollout) bool {
	mine, its := p.rollout().CreationTimestamp, other.CreationTimestamp
	return its.Before(&mine) || its.Equal(&mine) && other.Name < p.key.Name
}

// waits ends the decision with a wait that Next knows nothing of.
func (p *pass) waits(out outcome.Outcome) {
	at := p.was
	since := p.now
	if w := at.Waiting; w != nil && w.Reason == out.Reason() {
		since = w.Since
	}
	if at.State == "" {
		at.State, at.BatchState = rollout.Locating, rollout.BatchInitializing
	}
	at.Waiting = &rollout.Waiting{Reason: out.Reason(), Message: out.Message(), Since: since}
	p.decided, p.decision = true, rollout.Decision{Position: at, Outcome: out}
}
