package application

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/outcome"
)

const (
	again    = 10 * time.Millisecond // after a conflict: observe and decide again
	askAgain = time.Second           // at least, while the API server does not answer
	pollGone = time.Second           // while something is deleted
	pollKind = 10 * time.Second      // for a kind that is not served
)

// links is one pass over an Application.
var links = chain.Chain[*pass]{
	{Name: "Load", Run: load},
	{Name: "Leave", Run: leave},
	{Name: "Revise", Run: revise},
	{Name: "Judge", Run: decide},
	{Name: "Look", Run: look},
	{Name: "Withdraw", Run: withdraw},
	{Name: "Apply", Run: apply},
	{Name: "Drive", Run: drive},
	{Name: "Clean", Run: clean},
}

// pass is what one pass knows.
type pass struct {
	*Operator
	key     types.NamespacedName
	draft   *controller.Draft[*api.Application]
	now     time.Time
	applied map[workload.Ref]applied

	revisions []api.ApplicationRevision // in order
	rollout   *api.Rollout              // nil: none
	situation situation
	move      *movement // nil: not judged yet
	workloads map[string]*unstructured.Unstructured
	// startsAnew is true if the workload of the Rollout was deleted.
	startsAnew bool
	finished   bool // all links have run
}

func (p *pass) application() *api.Application { return p.draft.Object }

// Reconcile makes one pass over an Application.
func (o *Operator) Reconcile(ctx context.Context, ref control.Ref) outcome.Outcome {
	key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	draft, err := o.store.Load(ctx, key)
	switch {
	case errors.Is(err, control.NotFound):
		o.forget(key)
		return outcome.Done()
	case err != nil:
		return retried(outcome.Fail(err))
	case !o.serves(draft.Object):
		o.forget(key)
		return outcome.Done()
	}
	p := &pass{Operator: o, key: key, draft: draft, now: o.now().UTC(), applied: o.appliedOf(key), workloads: map[string]*unstructured.Unstructured{}}
	report := links.ReconcileAndSave(ctx, p, func(ctx context.Context, p *pass, r chain.Report) error { return p.report(ctx, r.Outcome()) })
	return retried(report.Outcome())
}

// retried says when the next pass comes.
func retried(out outcome.Outcome) outcome.Outcome {
	switch err := out.Err(); {
	case !out.IsFail():
		return out
	case fault.Of(err) == fault.WriteConflict:
		return outcome.Wait(again, fault.WriteConflict.Reason(), "it was changed meanwhile")
	case fault.Of(err) == fault.APIUnavailable:
		return outcome.Wait(askAgain+rand.N(askAgain), fault.APIUnavailable.Reason(), "%s", fault.Message(err)) //nolint:gosec // spreads retries
	case invalid(err): // another spec is needed, not a retry
		return outcome.Done()
	}
	return out
}

// load reads the revisions and the Rollout.
func load(ctx context.Context, p *pass) outcome.Outcome {
	var revisions api.ApplicationRevisionList
	named := client.MatchingLabels{workload.ApplicationLabel: p.key.Name}
	if err := p.cache.Client().List(ctx, &revisions, client.InNamespace(p.key.Namespace), named); err != nil {
		return outcome.Fail(err)
	}
	p.revisions = inOrder(p.key.Name, revisions.Items)
	r := &api.Rollout{}
	err := p.cache.Client().Get(ctx, p.key, r)
	switch {
	case errors.Is(err, control.NotFound):
	case err != nil:
		return outcome.Fail(err)
	case !ownedBy(r, p.application()) && p.application().DeletionTimestamp.IsZero(): // of an earlier Application, or of somebody
	default:
		p.rollout = r
	}
	return outcome.Done()
}

// revise makes the next revision, if the components are not those of the newest one.
func revise(ctx context.Context, p *pass) outcome.Outcome {
	a := p.application()
	if err := p.store.Save(ctx, p.draft, true); err != nil { // the finalizer, before there is anything to leave
		return outcome.Fail(err)
	}
	r, err := next(a, p.revisions)
	if err != nil {
		return outcome.Fail(err)
	}
	if r != nil {
		ref := owner(a)
		ref.Controller = new(true)
		r.SetOwnerReferences(append(r.GetOwnerReferences(), ref))
		r.SetLabels(map[string]string{workload.ApplicationLabel: a.Name})
		err := p.cache.Client().Create(ctx, r)
		switch {
		case errors.Is(err, control.Exists): // the cache is behind
			return outcome.Wait(askAgain/10, "RevisionExists", "revision %s exists, and is not seen yet, or has lost its label %s", r.Name, workload.ApplicationLabel)
		case err != nil:
			return outcome.Fail(err)
		}
		p.metrics.made.Inc()
		p.events.Normal(a, "RevisionMade", "revision %s has the components of generation %d", r.Name, a.Generation)
		p.revisions = append(p.revisions, *r)
	}
	a.Status.LatestRevision = p.revisions[len(p.revisions)-1].Name
	return outcome.Done()
}

// decide takes over what the Rollout has reached, and judges what the plan does next.
func decide(_ context.Context, p *pass) outcome.Outcome {
	a := p.application()
	p.situation = situation{
		Named: a.Spec.RolloutComponent, Plan: a.Spec.RolloutPlan, Revisions: p.revisions,
		Reached: a.Status.ReachedRevision, Sizes: a.Status.ReachedReplicas, Rollout: drivenBy(p.rollout),
	}
	if revision, sizes := p.situation.reachedBy(); revision != "" {
		p.reached(revision, sizes)
		p.situation.Reached, p.situation.Sizes = a.Status.ReachedRevision, a.Status.ReachedReplicas
	}
	if a.Spec.RolloutPlan == nil {
		p.move = &movement{}
		return outcome.Done()
	}
	m, err := judge(p.situation)
	if err != nil {
		return outcome.Fail(err)
	}
	p.move = &m
	return outcome.Done()
}

// reached records a revision that all pods have, with the sizes that are not those of its components.
func (p *pass) reached(revision string, sizes map[string]int32) {
	s := &p.application().Status
	if s.ReachedRevision != revision {
		p.metrics.reached.Inc()
		p.events.Normal(p.application(), "RevisionReached", "all pods have revision %s", revision)
	}
	all := map[string]int32{}
	for _, c := range find(p.revisions, revision).Spec.Components {
		all[c.Name] = sizeOf(nil, c)
		if n, ok := s.ReachedReplicas[c.Name]; ok {
			all[c.Name] = n
		}
	}
	maps.Copy(all, sizes)
	s.ReachedRevision, s.ReachedReplicas = revision, all
}
