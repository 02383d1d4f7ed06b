package application

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

// The conditions of an Application.
const (
	RevisionReady   = "RevisionReady"   // the newest revision has the components of the spec
	RolloutComplete = "RolloutComplete" // all pods have the newest revision
	Stalled         = "Stalled"         // it does not go on by itself
	Ready           = condition.TypeReady
)

// ConditionTypes are all conditions: an Application has them from the first visit.
var ConditionTypes = []string{RevisionReady, RolloutComplete, Stalled, Ready}

// reading is what the conditions of one pass are made of.
type reading struct {
	out        outcome.Outcome
	latest     string
	reached    string
	revised    bool // the newest revision is that of the spec
	finished   bool // all links have run
	planned    bool
	busy       string
	incomplete string // what the components miss
	rollout    *api.Rollout
}

func (r reading) conditions() []metav1.Condition {
	return []metav1.Condition{r.revisionReady(), r.complete(), r.stalled(), r.ready()}
}

func (r reading) failed(kind string) metav1.Condition {
	return r.failedAs(kind, metav1.ConditionFalse)
}

// failedAs is the condition of an error; what may go by itself makes it Unknown.
func (r reading) failedAs(kind string, status metav1.ConditionStatus) metav1.Condition {
	if fault.Of(r.out.Err()).Uncharged {
		status = metav1.ConditionUnknown
	}
	return condition.FromError(kind, status, r.out.Err())
}

func (r reading) revisionReady() metav1.Condition {
	switch {
	case r.revised:
		return condition.New(RevisionReady, metav1.ConditionTrue, "RevisionMade", "%s has the components of the spec", r.latest)
	case r.out.IsFail():
		return r.failed(RevisionReady)
	case r.out.IsWait():
		return condition.New(RevisionReady, metav1.ConditionFalse, r.out.Reason(), "%s", r.out.Message())
	}
	return condition.New(RevisionReady, metav1.ConditionUnknown, "NotObserved", "the components were not looked at yet")
}

func (r reading) complete() metav1.Condition {
	switch {
	case r.out.IsFail():
		return r.failed(RolloutComplete)
	case !r.finished && r.out.IsWait():
		return condition.New(RolloutComplete, metav1.ConditionFalse, r.out.Reason(), "%s", r.out.Message())
	case !r.finished:
		return condition.New(RolloutComplete, metav1.ConditionUnknown, "NotObserved", "the components were not looked at yet")
	case r.reached == r.latest:
		return condition.New(RolloutComplete, metav1.ConditionTrue, "Complete", "%s is reached", r.latest)
	case !r.planned:
		return condition.New(RolloutComplete, metav1.ConditionFalse, "PodsChange", "%s", r.incomplete)
	case r.busy != "":
		return condition.New(RolloutComplete, metav1.ConditionFalse, "RolloutBusy", "component %s is still rolled out", r.busy)
	}
	return r.underWay()
}

// underWay says what the Rollout says.
func (r reading) underWay() metav1.Condition {
	const kind = RolloutComplete
	if r.rollout == nil || r.rollout.Status.ObservedGeneration != r.rollout.Generation {
		return condition.New(kind, metav1.ConditionFalse, "RolloutUnderWay", "the Rollout has not seen %s yet", r.latest)
	}
	s := r.rollout.Status
	switch {
	case s.RollingState == string(rollout.Failed) && s.Failure != nil:
		return condition.New(kind, metav1.ConditionFalse, s.Failure.Reason, "Rollout %s has failed: %s", r.rollout.Name, s.Failure.Message)
	case s.Pause != nil:
		return condition.New(kind, metav1.ConditionFalse, s.Pause.Reason, "Rollout %s is paused: %s", r.rollout.Name, s.Pause.Message)
	case s.Waiting != nil && s.Waiting.Reason == "HeldByPartition":
		return condition.New(kind, metav1.ConditionFalse, s.Waiting.Reason, "Rollout %s: %s", r.rollout.Name, s.Waiting.Message)
	}
	return condition.New(kind, metav1.ConditionFalse, "RolloutUnderWay", "Rollout %s moves the pods to %s", r.rollout.Name, r.latest)
}

// stalled is True when only a person can help: the Application cannot be, or its Rollout says so.
func (r reading) stalled() metav1.Condition {
	switch {
	case r.out.IsFail():
		return r.failedAs(Stalled, metav1.ConditionTrue)
	case !r.finished && !r.out.IsWait():
		return condition.New(Stalled, metav1.ConditionUnknown, "NotObserved", "the components were not looked at yet")
	case r.reached != r.latest && r.planned && r.followed():
		if c := meta.FindStatusCondition(r.rollout.Status.Conditions, Stalled); c != nil && c.Status == metav1.ConditionTrue {
			return condition.New(Stalled, metav1.ConditionTrue, c.Reason, "Rollout %s: %s", r.rollout.Name, c.Message)
		}
	}
	return condition.New(Stalled, metav1.ConditionFalse, "NotStalled", "nothing needs a person")
}

// followed reports whether the status of the Rollout is about the newest revision.
func (r reading) followed() bool {
	o := r.rollout
	return o != nil && o.Status.ObservedGeneration == o.Generation && o.Spec.Application != nil && o.Spec.Application.TargetRevision == r.latest
}

func (r reading) ready() metav1.Condition {
	complete := r.complete()
	complete.Type = Ready
	switch {
	case complete.Status != metav1.ConditionTrue:
		return complete
	case r.incomplete != "":
		return condition.New(Ready, metav1.ConditionFalse, "PodsNotReady", "%s", r.incomplete)
	}
	return condition.New(Ready, metav1.ConditionTrue, "Ready", "all pods of %s are ready", r.latest)
}

// report writes the conditions, as far as the pass has come.
func (p *pass) report(ctx context.Context, out outcome.Outcome) error {
	a := p.application()
	if !a.DeletionTimestamp.IsZero() {
		return nil
	}
	r := reading{
		out: out, latest: a.Status.LatestRevision, reached: a.Status.ReachedRevision,
		revised: p.situation.Revisions != nil, finished: p.finished, planned: a.Spec.RolloutPlan != nil, rollout: p.rollout,
	}
	if p.move != nil {
		r.busy = p.move.Busy
	}
	if p.finished {
		r.incomplete = p.incomplete()
	}
	condition.Set(&a.Status.Conditions, a.Generation, p.now, r.conditions()...)
	p.metrics.stands(p.key, stateOf(a.Status.Conditions))
	if p.finished || out.IsFail() && !fault.Of(out.Err()).Uncharged {
		a.Status.ObservedGeneration = a.Generation
	}
	return p.store.Save(ctx, p.draft, true)
}
