package application

import (
	"context"
	"errors"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

// withdraw deletes the Rollout when there is no plan any more, or its workload was deleted, and waits
// until it has let go.
func withdraw(ctx context.Context, p *pass) outcome.Outcome {
	if p.rollout == nil || p.application().Spec.RolloutPlan != nil && !p.startsAnew {
		return outcome.Done()
	}
	if err := p.deleteRollout(ctx); err != nil {
		return outcome.Fail(err)
	}
	return outcome.Wait(pollGone, "RolloutWithdrawn", "Rollout %s lets its workload go", p.key.Name)
}

func (p *pass) deleteRollout(ctx context.Context) error {
	if p.rollout == nil || !p.rollout.DeletionTimestamp.IsZero() {
		return nil
	}
	err := p.cache.Client().Delete(ctx, p.rollout, client.Preconditions{UID: &p.rollout.UID})
	if errors.Is(err, control.NotFound) {
		return nil
	}
	return err
}

// drive makes the Rollout that of the movement. A plan that is edited counts at once for a rollout that
// is under way, and for the next one after the end.
func drive(ctx context.Context, p *pass) outcome.Outcome {
	a, m := p.application(), p.move
	if a.Spec.RolloutPlan == nil {
		return outcome.Done()
	}
	var want *api.RolloutApplication
	plan := *a.Spec.RolloutPlan
	plan.TargetSize = m.Size
	switch {
	case m.Target != "":
		want = &api.RolloutApplication{Name: a.Name, TargetRevision: m.Target, SourceRevision: m.Source, Component: m.Component}
	case m.Busy != "": // it goes on by its plan
		want, plan.TargetSize = p.rollout.Spec.Application, p.rollout.Spec.RolloutPlan.TargetSize
	default:
		return outcome.Done()
	}
	if p.rollout == nil {
		return outcome.Fail(p.makeRollout(ctx, want, plan))
	}
	is := p.rollout.Spec
	same := reflect.DeepEqual(is.Application, want) && reflect.DeepEqual(is.RolloutPlan.TargetSize, plan.TargetSize)
	if same && (p.situation.Rollout.Ended || reflect.DeepEqual(is.RolloutPlan, plan)) {
		return outcome.Done()
	}
	patch, err := controller.SameSpec(p.rollout,
		controller.Operation{Op: "add", Path: "/spec/application", Value: want}, controller.Operation{Op: "add", Path: "/spec/rolloutPlan", Value: plan})
	if err == nil {
		err = p.cache.Client().Patch(ctx, p.rollout, patch, client.FieldOwner(FieldOwner))
	}
	return outcome.Fail(err)
}

func (p *pass) makeRollout(ctx context.Context, want *api.RolloutApplication, plan api.RolloutPlan) error {
	a := p.application()
	ref := owner(a)
	ref.Controller = new(true)
	r := &api.Rollout{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.Namespace, Name: a.Name, Labels: map[string]string{workload.ApplicationLabel: a.Name}, OwnerReferences: []metav1.OwnerReference{ref},
		},
		Spec: api.RolloutSpec{Application: want, RolloutPlan: plan, OperatorName: a.Spec.OperatorName},
	}
	err := p.cache.Client().Create(ctx, r, client.FieldOwner(FieldOwner))
	if !errors.Is(err, control.Exists) {
		if err == nil {
			p.rollout = r
		}
		return err
	}
	live := &api.Rollout{}
	if err := p.manager.Live().Get(ctx, p.key, live); err != nil {
		return err
	}
	if !ownedBy(live, a) {
		return rollout.ClaimedByOther.Errorf("there is a Rollout %s already, which is not that of the Application", a.Name)
	}
	before := live.DeepCopy()
	metav1.SetMetaDataLabel(&live.ObjectMeta, workload.ApplicationLabel, a.Name) // somebody took it away
	return p.cache.Client().Patch(ctx, live, client.MergeFrom(before))
}

// clean records what is reached, and removes what is not needed any more then.
func clean(ctx context.Context, p *pass) outcome.Outcome {
	a, m := p.application(), p.move
	planned := a.Spec.RolloutPlan != nil
	p.finished = true
	if !planned && p.incomplete() == "" || planned && m.Done {
		sizes := map[string]int32{}
		for _, c := range p.situation.newest().Spec.Components {
			if !planned || c.Name == m.Component {
				sizes[c.Name] = sizeOf(a.Spec.RolloutPlan, c)
			}
		}
		p.reached(p.situation.newest().Name, sizes)
	}
	if a.Status.ReachedRevision != a.Status.LatestRevision {
		return outcome.Done()
	}
	left, err := p.cleanDeployments(ctx)
	if err != nil {
		return outcome.Fail(err)
	}
	for _, name := range removable(p.revisions, limitOf(a), p.situation.inUse(p.rollout, left)) {
		r := find(p.revisions, name)
		if err := p.cache.Client().Delete(ctx, r, client.Preconditions{UID: &r.UID}); err != nil && !errors.Is(err, control.NotFound) {
			return outcome.Fail(err)
		}
	}
	return outcome.Done()
}

// cleanDeployments deletes Deployments of earlier revisions that have no pods; those of a component that
// is changed at once are emptied before. It returns the names of those that are left.
func (p *pass) cleanDeployments(ctx context.Context) (left []string, err error) {
	all, err := p.owned(ctx)
	if err != nil {
		return nil, err
	}
	a := p.application()
	for i := range all {
		o := &all[i]
		c := componentOf(p.situation.newest(), o.GetLabels()[workload.ComponentLabel])
		if c == nil || c.WorkloadName == o.GetName() || metav1.GetControllerOf(o) != nil || !o.GetDeletionTimestamp().IsZero() {
			left = append(left, o.GetName())
			continue
		}
		size, found, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
		pods, _, _ := unstructured.NestedInt64(o.Object, "status", "replicas")
		switch {
		case found && size == 0 && pods == 0:
			uid, version := o.GetUID(), o.GetResourceVersion()
			err = p.cache.Client().Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version})
		case size != 0 && p.move.treatmentOf(c.Name, a.Spec.RolloutPlan != nil, a.Spec.RolloutComponent != "") == atOnce && missing(p.workloads[c.Name]) == "":
			var patch client.Patch
			if patch, err = controller.SameSpec(o, controller.Operation{Op: "add", Path: "/spec/replicas", Value: 0}); err == nil {
				err = p.cache.Client().Patch(ctx, o, patch, client.FieldOwner(FieldOwner))
			}
		default:
			left = append(left, o.GetName())
		}
		if err != nil && !errors.Is(err, control.NotFound) {
			return nil, err
		}
	}
	return left, nil
}
