package flows

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl/bulk"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/server/clusters"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

type planRequest struct {
	Body struct {
		Flow     string               `json:"flow,omitempty" doc:"plan a run of this flow"`
		Input    json.RawMessage      `json:"input,omitempty"`
		Object   *control.Ref         `json:"object,omitempty" doc:"plan the next transition of this object"`
		Manifest *objectManifest      `json:"manifest,omitempty" doc:"plan the next transition after this manifest is applied"`
		Bulk     *bulk.Spec           `json:"bulk,omitempty" doc:"plan a bulk with this spec: which runs it would ask"`
		Create   *clusters.CreateBody `json:"create,omitempty" doc:"plan the creation of this cluster"`
		Change   *clusters.ChangePlan `json:"change,omitempty" doc:"plan a change of a cluster"`
	}
}

// objectManifest is an object without the fields that the server sets.
type objectManifest struct {
	Kind        string            `json:"kind"`
	Namespace   string            `json:"namespace,omitempty" doc:"default: default"`
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Spec        json.RawMessage   `json:"spec,omitempty"`
}

type planAnswer struct {
	Body struct {
		Plan    *view.Plan      `json:"plan,omitempty" doc:"of a flow"`
		Machine json.RawMessage `json:"machine,omitempty" doc:"of an object: the chosen transition, the reason, and the refused transitions; or the links of its chain"`
		Bulk    *view.BulkPlan  `json:"bulk,omitempty" doc:"of a bulk: its runs, counted"`
		Cluster *api.DryRun     `json:"cluster,omitempty" doc:"of a cluster: steps, resources, and obstacles"`
	}
}

func (s *Service) plan(ctx context.Context, in *planRequest) (*planAnswer, error) {
	b, out := in.Body, &planAnswer{}
	given := 0
	for _, there := range []bool{b.Flow != "", b.Object != nil, b.Manifest != nil, b.Bulk != nil, b.Create != nil, b.Change != nil} {
		if there {
			given++
		}
	}
	if given != 1 {
		return nil, route.Refused.Errorf("give one of flow, object, manifest, bulk, create, change; %d are given", given)
	}
	if b.Create != nil || b.Change != nil {
		var err error
		out.Body.Cluster, err = s.Clusters.Plan(ctx, b.Create, b.Change)
		return out, err
	}
	if err := route.Allow(ctx, route.Operator); err != nil {
		return nil, err
	}
	if b.Flow != "" {
		p, err := s.Engine.Plan(b.Flow, b.Input)
		if err != nil {
			return nil, err
		}
		v := view.OfPlan(p)
		out.Body.Plan = &v
		return out, nil
	}
	if b.Bulk != nil {
		var err error
		out.Body.Bulk, err = s.planBulk(ctx, *b.Bulk)
		return out, err
	}
	if s.Kinds == nil {
		return nil, route.NotServed.Errorf("this server runs no machines")
	}
	object, err := s.plannedObject(ctx, b.Object, b.Manifest)
	if err != nil {
		return nil, err
	}
	kinds, err := s.Kinds()
	if err != nil {
		return nil, err
	}
	plan, err := driver.Plan(ctx, kinds, object)
	if err != nil {
		return nil, err
	}
	out.Body.Machine, err = json.Marshal(plan)
	return out, err
}

// planBulk counts the runs of a bulk.
func (s *Service) planBulk(ctx context.Context, spec bulk.Spec) (*view.BulkPlan, error) {
	lister, ok := s.Engine.Store().(runstore.Lister)
	if !ok {
		return nil, route.NotServed.Errorf("the store of this server cannot list runs")
	}
	p, err := bulk.MakePlan(ctx, lister, spec, time.Now())
	if err != nil {
		return nil, err
	}
	v := view.OfBulkPlan(p, s.Engine.Flows())
	return &v, nil
}

// plannedObject returns the object of a plan: the stored one, or the result of applying the manifest.
func (s *Service) plannedObject(ctx context.Context, ref *control.Ref, m *objectManifest) (control.Object, error) {
	if s.Objects == nil {
		return control.Object{}, route.NotServed.Errorf("this server has no objects")
	}
	if ref != nil {
		return s.Objects.Get(ctx, *ref)
	}
	want := control.Object{Ref: control.Ref{Kind: m.Kind, Namespace: cmp.Or(m.Namespace, "default"), Name: m.Name}, Labels: m.Labels, Annotations: m.Annotations, Spec: m.Spec}
	old, err := s.Objects.Get(ctx, want.Ref)
	var before *control.Object
	switch {
	case err == nil:
		before = &old
	case fault.Of(err) != control.NotFound:
		return control.Object{}, err
	}
	next, _, err := control.DecideApply(time.Now().UTC(), before, want)
	return next, err
}
