package backend

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/pawl-dev/pawl/control"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/rollout"
)

// PlannedComponent is the component of an Application that its plan moves: the named one, the only one, or the
// only one that is not as in the other spec. The fault is COMPONENT_AMBIGUOUS.
func PlannedComponent(now, was api.ApplicationSpec) (api.ApplicationComponent, error) {
	var names, changed []string
	for _, c := range now.Components {
		names = append(names, c.Name)
		if !reflect.DeepEqual(c, componentNamed(was, c.Name)) {
			changed = append(changed, c.Name)
		}
	}
	if now.RolloutComponent == "" && len(changed) == 1 {
		names = changed
	}
	name, err := rollout.Component(now.RolloutComponent, names, nil)
	return componentNamed(now, name), err
}

func componentNamed(s api.ApplicationSpec, name string) (found api.ApplicationComponent) {
	for _, c := range s.Components {
		if c.Name == name {
			found = c
		}
	}
	return found
}

// WorkloadSpec is what a plan reads of the spec of a component's workload.
type WorkloadSpec struct {
	Replicas *int32 `json:"replicas"`
	Template any    `json:"template"`
}

// WorkloadOf reads the spec of a component's workload.
func WorkloadOf(c api.ApplicationComponent) (w WorkloadSpec, err error) {
	if len(c.Workload.Spec.Raw) > 0 {
		err = json.Unmarshal(c.Workload.Spec.Raw, &w)
	}
	return w, err
}

// rolloutOf is the Rollout that an Application would drive, as it was admitted but is not there yet, on the
// workload of the component that its plan moves; changed: that gets another template. The fault is
// TARGET_MISSING for a component whose workload has another name in each revision.
func (k *Kube) rolloutOf(ctx context.Context, o control.Object) (r control.Object, changed bool, err error) {
	var now, was api.ApplicationSpec
	live, err := kubeObjects{k}.Get(ctx, o.Ref)
	switch {
	case errors.Is(err, control.NotFound):
		return r, false, rollout.TargetMissing.Errorf("Application %s does not exist yet", o.Name)
	case err == nil:
		err = errors.Join(json.Unmarshal(o.Spec, &now), json.Unmarshal(live.Spec, &was))
	}
	if err != nil {
		return r, false, err
	}
	c, err := PlannedComponent(now, was)
	if err != nil {
		return r, false, err
	}
	if c.Workload.Kind == string(rollout.Deployment) {
		return r, false, rollout.TargetMissing.Errorf("the Deployment of component %s is made when the revision is", c.Name)
	}
	want, err := WorkloadOf(c)
	if err != nil {
		return r, false, err
	}
	before, err := WorkloadOf(componentNamed(was, c.Name))
	if err != nil {
		return r, false, err
	}
	spec := api.RolloutSpec{TargetRef: api.WorkloadRef{APIVersion: c.Workload.APIVersion, Kind: c.Workload.Kind, Name: c.Name}}
	if now.RolloutPlan != nil {
		spec.RolloutPlan = *now.RolloutPlan
	}
	changed = !reflect.DeepEqual(want.Template, before.Template)
	if !changed && want.Replicas != nil && !reflect.DeepEqual(want.Replicas, before.Replicas) {
		spec.RolloutPlan.TargetSize = want.Replicas
	}
	r = control.Object{Ref: control.Ref{Kind: "rollouts.pawl.dev", Namespace: o.Namespace, Name: o.Name}}
	switch driven, err := (kubeObjects{k}).Get(ctx, r.Ref); {
	case err == nil:
		r.UID = driven.UID // it holds the workload
	case !errors.Is(err, control.NotFound):
		return r, false, err
	}
	r.Spec, err = json.Marshal(spec)
	return r, changed, err
}
