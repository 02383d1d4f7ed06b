package rollout

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/operator/rollout/gate"
	"github.com/pawl-dev/pawl/rollout"
)

// Survey is what can be seen of a Rollout without its operator.
type Survey struct {
	Plan     rollout.Plan
	Position rollout.Position
	Facts    rollout.Facts
	// Warnings are what happens outside of the batches.
	Warnings []string
}

// Observe reads the workload of a Rollout and its pods with the rights of a client. It writes nothing.
// With applied workloads it is the survey as if their manifests had been applied.
func Observe(ctx context.Context, c client.Client, r *api.Rollout, applied ...Applied) (Survey, error) {
	var s Survey
	if len(applied) > 0 {
		c = appliedClient{c, applied}
	}
	var err error
	if s.Position, err = readPosition(&r.Status); err != nil {
		return s, err
	}
	if s.Plan, err = readPlan(r); err != nil {
		return s, err
	}
	refs := refsOf(r)
	if refs == nil {
		return s, rollout.TargetRevisionMissing.Errorf("the Rollout has found no workload of Application %s yet", r.Spec.Application.Name)
	}
	w := newWorkload(c, c, r, s.Plan)
	w.Target = workload.Ref(refs[0])
	for _, source := range refs[1:] {
		w.Sources = append(w.Sources, workload.Ref(source))
	}
	if _, err := workload.KindOf(w.Target.APIVersion, w.Target.Kind); err != nil && fault.Of(err) != rollout.KindNotServed {
		return s, err
	}
	if s.Facts, err = w.Observe(ctx); err != nil {
		return s, err
	}
	changed := s.settle(applied)
	s.Facts.Now = time.Now().UTC()
	s.Facts.Wanted = wantedOf(r, s.Plan, s.Position, s.Facts)
	gates := &gate.Set{}
	if err := gates.Check(s.Plan); err != nil {
		s.Facts.GateProblem = fault.Message(err)
	}
	if d := s.Plan.Disruption; d != nil && d.Quorum != nil {
		selector, err := selectorOf(d.Quorum.Selector)
		if err == nil {
			s.Facts.Members, err = w.Members(ctx, selector)
		}
		if err != nil {
			return s, err
		}
		s.resizeMembers(changed, d.Quorum.Selector)
	}
	if s.Facts.Target != nil {
		s.Facts.Target.Guarded, err = guardedFor(ctx, c, w, r)
	}
	return s, err
}

// guardedFor reports whether the admission rule protects the workload. To a caller that may not read
// the rule the condition says it.
func guardedFor(ctx context.Context, c client.Client, w *workload.Workload, r *api.Rollout) (bool, error) {
	target, err := w.Read(ctx, w.Target)
	if err != nil || target == nil || target.GetAnnotations()[UnguardedAnnotation] != "" {
		return false, err
	}
	rules := guardRules[kindOf(api.WorkloadRef(w.Target))]
	for _, suffix := range rules {
		there, err := bindingStands(ctx, c, DefaultGuard+suffix)
		if apierrors.IsForbidden(err) {
			return slices.ContainsFunc(r.Status.Conditions, func(c metav1.Condition) bool {
				return c.Type == HoldUnguarded && c.Status == metav1.ConditionFalse
			}), nil
		}
		if err != nil || !there {
			return false, controller.Fault(err)
		}
	}
	return len(rules) > 0, nil
}

// Preview is what the rollout would do from here on.
func (s Survey) Preview() ([]rollout.BatchPreview, error) {
	if t := s.Facts.Target; t != nil && t.Template == workload.Unobserved && !moves(s.Position.State) {
		return nil, rollout.WorkloadBusy.Errorf("%s %s has no revision of its template yet", t.Kind, t.Name)
	}
	all, err := rollout.PreviewFrom(s.Plan, s.Position, s.Facts)
	if len(all) > 0 {
		all[0].Warnings = append(all[0].Warnings, s.Warnings...)
	}
	return all, err
}

// another is the revision of a template that was not written yet.
const another = "another"

// Another is the survey as if another template had been written to the workload; false: the kind needs
// a second workload for that, or there is none.
func (s Survey) Another() (Survey, bool) {
	if s.Facts.Target == nil || s.Facts.Target.Kind == rollout.Deployment {
		return s, false
	}
	t := *s.Facts.Target
	s.retemplate(&t, another)
	s.Facts.Target, s.Facts.Wanted.TargetRevision = &t, another
	return s, true
}

// retemplate gives a held workload a template: a rollout to it begins anew.
func (s *Survey) retemplate(t *rollout.WorkloadFacts, revision string) {
	t.Template, t.UpdateRevision, t.Partition = revision, revision, rollout.HoldAll
	s.Position = rollout.Position{}
}
