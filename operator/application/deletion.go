package application

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
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

// departure is what a deletion of an Application does next.
type departure string

const (
	waitForOrphans departure = "wait until the garbage collector has orphaned what is owned"
	takeAlong      departure = "delete workloads and Rollout"
	letGo          departure = "let go: the garbage collector does the rest"
)

// depart judges a deletion. The garbage collector deletes what only the Application owns. A workload in
// the middle of a rollout has other owners too, and would lose the reference: it is deleted here, unless
// the deletion orphans. That one takes the reference off the Rollout as well.
func depart(a *api.Application, r *api.Rollout) departure {
	switch {
	case slices.Contains(a.Finalizers, metav1.FinalizerOrphanDependents):
		return waitForOrphans
	case r == nil, !ownedBy(r, a) && r.DeletionTimestamp.IsZero():
		return letGo
	}
	return takeAlong
}

// leave ends a deleted Application.
func leave(ctx context.Context, p *pass) outcome.Outcome {
	a := p.application()
	if a.DeletionTimestamp.IsZero() {
		return outcome.Done()
	}
	live := &api.Application{} // newer than what was orphaned
	err := p.manager.Live().Get(ctx, p.key, live)
	if errors.Is(err, control.NotFound) || err == nil && live.UID != a.UID {
		return outcome.Wait(0, "Gone", "the Application is gone")
	}
	r := &api.Rollout{}
	if err == nil {
		err = p.manager.Live().Get(ctx, p.key, r)
	}
	switch {
	case errors.Is(err, control.NotFound):
		r = nil
	case err != nil:
		return outcome.Fail(err)
	case r.Spec.Application == nil || r.Spec.Application.Name != a.Name:
		r = nil
	}
	p.rollout = r
	switch depart(live, r) {
	case waitForOrphans:
		return outcome.Wait(pollGone, "Orphaning", "%s", waitForOrphans)
	case letGo:
		if err := p.store.Release(ctx, p.draft); err != nil && !errors.Is(err, control.NotFound) {
			return outcome.Fail(err)
		}
		p.forget(p.key)
		return outcome.Wait(0, "Gone", "the Application has let go")
	case takeAlong:
	}
	if err := p.deleteWorkloads(ctx); err != nil {
		return outcome.Fail(err)
	}
	if err := p.deleteRollout(ctx); err != nil {
		return outcome.Fail(err)
	}
	return outcome.Wait(pollGone, "Deleting", "Rollout %s lets its workload go", p.key.Name)
}

// deleteWorkloads deletes the workloads that the Application or its Rollout owns.
func (p *pass) deleteWorkloads(ctx context.Context) error {
	for _, kind := range workload.Kinds() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		served, err := p.manager.Served(kind)
		if err != nil || !served {
			if err != nil {
				return err
			}
			continue
		}
		if err := p.cache.List(ctx, list, client.InNamespace(p.key.Namespace), client.MatchingLabels{workload.ApplicationLabel: p.key.Name}); err != nil {
			return controller.Fault(err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			claimed := metav1.GetControllerOf(o)
			if !o.GetDeletionTimestamp().IsZero() || !ownedBy(o, p.application()) && (claimed == nil || claimed.UID != p.rollout.UID) {
				continue
			}
			uid := o.GetUID()
			err := p.cache.Client().Delete(ctx, o, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
			if err != nil && !errors.Is(err, control.NotFound) && fault.Of(err) != rollout.KindNotServed {
				return err
			}
		}
	}
	return nil
}
