package backend

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/rollout"
)

// ApplicationSpec is the part of an Application's spec that its plan needs.
type ApplicationSpec struct {
	Components       []ApplicationComponent     `json:"components"`
	RolloutComponent string                     `json:"rolloutComponent"`
	Plan             map[string]json.RawMessage `json:"rolloutPlan"`
}

// ApplicationComponent is a workload of an Application.
type ApplicationComponent struct {
	Name     string `json:"name"`
	Workload struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Spec       map[string]any `json:"spec"`
	} `json:"workload"`
}

// Planned is the component that the plan moves: the named one, the only one, or the only one that is not as
// in the other spec. The fault is COMPONENT_AMBIGUOUS.
func (s ApplicationSpec) Planned(was ApplicationSpec) (ApplicationComponent, error) {
	var names []string
	for _, c := range s.Components {
		names = append(names, c.Name)
	}
	if differ := s.changed(was); s.RolloutComponent == "" && len(differ) == 1 {
		names = differ
	}
	name, err := rollout.Component(s.RolloutComponent, names, nil)
	return s.component(name), err
}

func (s ApplicationSpec) component(name string) (found ApplicationComponent) {
	for _, c := range s.Components {
		if c.Name == name {
			found = c
		}
	}
	return found
}

// changed are the components that are not as in another spec.
func (s ApplicationSpec) changed(was ApplicationSpec) (names []string) {
	for _, c := range s.Components {
		if !reflect.DeepEqual(c, was.component(c.Name)) {
			names = append(names, c.Name)
		}
	}
	return names
}

// rolloutOf is the Rollout that an Application would drive, as it was admitted but is not there yet, on the
// workload of the component that its plan moves; changed: that gets another template. The fault is
// TARGET_MISSING for a component whose workload has another name in each revision.
func (k *Kube) rolloutOf(ctx context.Context, o control.Object) (r control.Object, changed bool, err error) {
	var now, was ApplicationSpec
	if err := json.Unmarshal(o.Spec, &now); err != nil {
		return r, false, err
	}
	live, err := kubeObjects{k}.Get(ctx, o.Ref)
	switch {
	case errors.Is(err, control.NotFound):
		return r, false, rollout.TargetMissing.Errorf("Application %s does not exist yet", o.Name)
	case err != nil:
		return r, false, err
	}
	if err := json.Unmarshal(live.Spec, &was); err != nil {
		return r, false, err
	}
	c, err := now.Planned(was)
	if err != nil {
		return r, false, err
	}
	before := was.component(c.Name)
	if c.Workload.Kind == string(rollout.Deployment) {
		return r, false, rollout.TargetMissing.Errorf("the Deployment of component %s is made when the revision is", c.Name)
	}
	changed = !reflect.DeepEqual(c.Workload.Spec["template"], before.Workload.Spec["template"])
	plan := maps.Clone(now.Plan)
	if size := c.Workload.Spec["replicas"]; !changed && size != nil && !reflect.DeepEqual(size, before.Workload.Spec["replicas"]) {
		if plan["targetSize"], err = json.Marshal(size); err != nil {
			return r, false, err
		}
	}
	r = control.Object{Ref: control.Ref{Kind: "rollouts.pawl.dev", Namespace: o.Namespace, Name: o.Name}}
	switch driven, err := (kubeObjects{k}).Get(ctx, r.Ref); {
	case err == nil:
		r.UID = driven.UID // it holds the workload
	case !errors.Is(err, control.NotFound):
		return r, false, err
	}
	r.Spec, err = json.Marshal(map[string]any{
		"targetRef":   map[string]any{"apiVersion": c.Workload.APIVersion, "kind": c.Workload.Kind, "name": c.Name},
		"rolloutPlan": plan,
	})
	return r, changed, err
}
