package backend

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	operator "github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/view"
)

// Rollouts reads Rollouts with their workloads and pods. Only a Kubernetes cluster has them.
type Rollouts interface {
	Rollout(ctx context.Context, ref control.Ref) (view.Rollout, error)
	// PlanRollout says what a Rollout would do from here on; with a manifest, if it were applied, and with
	// it those of its workloads.
	PlanRollout(ctx context.Context, ref control.Ref, manifest *control.Object, beside ...operator.Applied) (view.RolloutPlan, error)
	// ApplyWorkload says what a workload would become with its manifest.
	ApplyWorkload(ctx context.Context, apiVersion string, manifest control.Object) (operator.Applied, error)
}

var _ Rollouts = (*Kube)(nil)

// IsRollout reports a word for the kind Rollout.
func IsRollout(kind string) bool {
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
	return slices.Contains([]string{"rollout", "rollouts", "prol"}, kind)
}

// IsApplication reports a word for the kind Application.
func IsApplication(kind string) bool {
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
	return slices.Contains([]string{"application", "applications", "papp"}, kind)
}

// Rollout implements Rollouts. Without the right to read pods the status is shown, and why it is all.
func (k *Kube) Rollout(ctx context.Context, ref control.Ref) (view.Rollout, error) {
	o, err := kubeObjects{k}.Get(ctx, ref)
	if err != nil {
		return view.Rollout{}, err
	}
	r, err := view.RolloutOf(o)
	if err != nil {
		return r, err
	}
	survey, err := k.survey(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return r, err
		}
		r.Unseen = fault.Message(err)
		return r, nil
	}
	return r.With(survey.Plan, survey.Facts), nil
}

// survey reads the workload of a Rollout and its pods. A verb that waits for changes hears of them.
func (k *Kube) survey(ctx context.Context, o control.Object, beside ...operator.Applied) (operator.Survey, error) {
	r, err := typed(o)
	if err != nil {
		return operator.Survey{}, err
	}
	c, err := k.typedClient()
	if err != nil {
		return operator.Survey{}, err
	}
	target := targetOf(r)
	for kind, name := range map[string]string{target.Kind + "." + groupOf(target.APIVersion): target.Name, "pods": ""} {
		if found, err := k.kind(kind); err == nil {
			k.watches.touch(k, found, r.Namespace, name)
		}
	}
	return operator.Observe(ctx, c, r, beside...)
}

// targetOf is the workload of a Rollout: that of its spec, or the one that it has found for a revision of an
// Application.
func targetOf(r *api.Rollout) api.WorkloadRef {
	if r.Spec.Application != nil && r.Status.Workload != nil {
		return *r.Status.Workload
	}
	return r.Spec.TargetRef
}

func groupOf(apiVersion string) string {
	group, _, _ := strings.Cut(apiVersion, "/")
	return group
}

// typed is a Rollout from its object.
func typed(o control.Object) (*api.Rollout, error) {
	r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.Namespace, Name: o.Name, Generation: o.Generation, Annotations: o.Annotations, Labels: o.Labels,
	}}
	r.SetUID(types.UID(o.UID))
	if !o.DeletionMark.IsZero() {
		r.DeletionTimestamp = &metav1.Time{Time: o.DeletionMark}
	}
	for from, into := range map[*json.RawMessage]any{&o.Spec: &r.Spec, &o.Status: &r.Status} {
		if len(*from) == 0 {
			continue
		}
		if err := json.Unmarshal(*from, into); err != nil {
			return nil, rollout.StateUnknown.Errorf("%s cannot be read: %w", o.Ref, err)
		}
	}
	return r, nil
}

// typedClient reads workloads, pods and revisions with the caller's rights.
func (k *Kube) typedClient() (client.Client, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.reader != nil {
		return k.reader, nil
	}
	scheme := runtime.NewScheme()
	if err := operator.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.New(k.config, client.Options{Scheme: scheme, Mapper: k.mapper})
	if err != nil {
		return nil, controller.Fault(err)
	}
	k.reader = c
	return c, nil
}

// PlanRollout implements Rollouts. The API server says what a manifest would become.
func (k *Kube) PlanRollout(ctx context.Context, ref control.Ref, manifest *control.Object, beside ...operator.Applied) (view.RolloutPlan, error) {
	var o control.Object
	var err error
	if objects := (kubeObjects{k}); manifest != nil {
		o, err = objects.apply(ctx, *manifest, []string{metav1.DryRunAll})
	} else {
		o, err = objects.Get(ctx, ref)
	}
	changed := false
	if err == nil && view.IsApplication(o) {
		o, changed, err = k.rolloutOf(ctx, o)
	}
	if err != nil {
		return view.RolloutPlan{}, err
	}
	survey, err := k.survey(ctx, o, beside...)
	if err != nil {
		return view.RolloutPlan{}, err
	}
	if another, ok := survey.Another(); ok && changed {
		survey = another
	}
	return planOf(o.Ref, survey)
}

func planOf(ref control.Ref, s operator.Survey) (view.RolloutPlan, error) {
	p := view.RolloutPlan{Rollout: ref.Namespace + "/" + ref.Name}
	if t := s.Facts.Target; t != nil {
		p.Workload, p.Replicas = string(t.Kind)+" "+t.Name, t.Replicas
	}
	var err error
	p.Batches, err = s.Preview()
	if another, ok := s.Another(); ok && fault.Of(err) == rollout.NothingToRoll {
		p.Assumed = true
		p.Batches, err = another.Preview()
	}
	if len(s.Warnings) > 0 && fault.Of(err) == rollout.NothingToRoll {
		err = rollout.NothingToRoll.Errorf("%s; %s", fault.Message(err), strings.Join(s.Warnings, "; "))
	}
	return p, err
}
