package server

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
)

func (s *Server) flowRoutes() {
	tags := []string{"flows"}
	registerRoute(s, huma.Operation{OperationID: "listFlows", Method: http.MethodGet, Path: "/v1/flows", Summary: "List the loaded flows", Tags: tags}, Operator, s.listFlows)
	registerRoute(s, huma.Operation{OperationID: "getFlow", Method: http.MethodGet, Path: "/v1/flows/{name}", Summary: "Read a loaded flow with its steps", Tags: tags,
		Errors: []int{404}}, Operator, s.getFlow)
	registerRoute(s, huma.Operation{OperationID: "plan", Method: http.MethodPost, Path: "/v1/plans", Summary: "Plan a run, a machine or a change of a cluster", Tags: tags,
		Description: "Nothing is stored. Only plans of clusters are for all; the others are for operators.", Errors: []int{404, 409}, DefaultStatus: http.StatusOK}, User, s.plan)
}

func (s *Server) listFlows(ctx context.Context, _ *struct{}) (*struct{ Body view.Flows }, error) {
	list := view.Flows{Items: []view.Flow{}}
	for _, f := range s.options.Engine.Flows() {
		v, err := view.OfFlow(f)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, v.Brief())
	}
	return &struct{ Body view.Flows }{list}, nil
}

type flowAnswer struct {
	ETag string `header:"ETag"`
	Body view.Flow
}

func (s *Server) getFlow(ctx context.Context, in *struct {
	Name        string `path:"name"`
	Kind        string `query:"kind" doc:"kind of subjects: selects the flow that serves them if several flows have the name"`
	IfNoneMatch string `header:"If-None-Match" doc:"304 if this is still its ETag"`
}) (*flowAnswer, error) {
	f := s.flow(in.Name, in.Kind)
	if f == nil {
		return nil, workflow.FlowUnknown.Errorf("no flow %q is loaded", in.Name)
	}
	v, err := view.OfFlow(*f)
	if err != nil {
		return nil, err
	}
	return &flowAnswer{ETag: `"` + v.Hash + `"`, Body: v}, nil
}

type planRequest struct {
	Body struct {
		Flow     string          `json:"flow,omitempty" doc:"plan a run of this flow"`
		Input    json.RawMessage `json:"input,omitempty"`
		Object   *control.Ref    `json:"object,omitempty" doc:"plan the next transition of this object"`
		Manifest *objectManifest `json:"manifest,omitempty" doc:"plan the next transition after this manifest is applied"`
		Create   *createBody     `json:"create,omitempty" doc:"plan the creation of this cluster"`
		Change   *changePlan     `json:"change,omitempty" doc:"plan a change of a cluster"`
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
		Machine json.RawMessage `json:"machine,omitempty" doc:"of an object: the chosen transition, the reason, and the refused transitions"`
		Cluster *service.DryRun `json:"cluster,omitempty" doc:"of a cluster: steps, resources, and obstacles"`
	}
}

func (s *Server) plan(ctx context.Context, in *planRequest) (*planAnswer, error) {
	b, out := in.Body, &planAnswer{}
	given := 0
	for _, there := range []bool{b.Flow != "", b.Object != nil, b.Manifest != nil, b.Create != nil, b.Change != nil} {
		if there {
			given++
		}
	}
	if given != 1 {
		return nil, Refused.Errorf("give one of flow, object, manifest, create, change; %d are given", given)
	}
	if b.Create != nil || b.Change != nil {
		var err error
		out.Body.Cluster, err = s.planCluster(ctx, b.Create, b.Change)
		return out, err
	}
	if err := allow(ctx, Operator); err != nil {
		return nil, err
	}
	if b.Flow != "" {
		p, err := s.options.Engine.Plan(b.Flow, b.Input)
		if err != nil {
			return nil, err
		}
		v := view.OfPlan(p)
		out.Body.Plan = &v
		return out, nil
	}
	if s.options.PlanObject == nil {
		return nil, NotServed.Errorf("this server runs no machines")
	}
	object, err := s.plannedObject(ctx, b.Object, b.Manifest)
	if err != nil {
		return nil, err
	}
	out.Body.Machine, err = s.options.PlanObject(ctx, object)
	return out, err
}

// plannedObject returns the object of a plan: the stored one, or the result of applying the manifest.
func (s *Server) plannedObject(ctx context.Context, ref *control.Ref, m *objectManifest) (control.Object, error) {
	objects, err := s.objects()
	if err != nil {
		return control.Object{}, err
	}
	if ref != nil {
		return objects.Get(ctx, *ref)
	}
	want := control.Object{Ref: control.Ref{Kind: m.Kind, Namespace: cmp.Or(m.Namespace, "default"), Name: m.Name}, Labels: m.Labels, Annotations: m.Annotations, Spec: m.Spec}
	old, err := objects.Get(ctx, want.Ref)
	var before *control.Object
	switch {
	case err == nil:
		before = &old
	case fault.Of(err) != control.NotFound:
		return control.Object{}, err
	}
	next, _, err := control.DecideApply(now(), before, want)
	return next, err
}

func (s *Server) faultRoutes() {
	tags := []string{"faults"}
	registerRoute(s, huma.Operation{OperationID: "listFaults", Method: http.MethodGet, Path: "/v1/faults", Summary: "List all declared faults", Tags: tags}, User,
		func(context.Context, *struct{}) (*struct{ Body view.Kinds }, error) {
			list := view.Kinds{Items: []view.Kind{}}
			for _, k := range fault.All() {
				list.Items = append(list.Items, s.kind(k))
			}
			return &struct{ Body view.Kinds }{list}, nil
		})
	registerRoute(s, huma.Operation{OperationID: "getFault", Method: http.MethodGet, Path: "/v1/faults/{code}", Summary: "Explain a fault", Tags: tags,
		Description: "Takes the code in UPPER_SNAKE and in CamelCase.", Errors: []int{404}}, User,
		func(_ context.Context, in *struct {
			Code string `path:"code"`
		}) (*struct{ Body view.Kind }, error) {
			k, ok := fault.Lookup(in.Code)
			if !ok {
				hint := ""
				if near := view.Similar(in.Code); len(near) > 0 {
					hint = ": did you mean " + strings.Join(near, ", ") + "?"
				}
				return nil, FaultNotFound.Errorf("no fault %s%s", in.Code, hint)
			}
			return &struct{ Body view.Kind }{s.kind(k)}, nil
		})
	registerRoute(s, huma.Operation{OperationID: "me", Method: http.MethodGet, Path: "/v1/me", Summary: "Return the caller and the version of the server", Tags: []string{"server"}}, User,
		func(ctx context.Context, _ *struct{}) (*struct{ Body Me }, error) {
			return &struct{ Body Me }{s.me(ctx)}, nil
		})
}

func (s *Server) me(ctx context.Context) Me {
	who := callOf(ctx).who
	return Me{Name: who.Name, Role: who.Role, Account: who.Account, Domain: who.Domain, Version: s.options.Version}
}

// Me describes the caller.
type Me struct {
	Name    string `json:"name"`
	Role    Role   `json:"role" enum:"user,domain-admin,operator"`
	Account string `json:"account,omitempty"`
	Domain  string `json:"domain,omitempty"`
	Version string `json:"version,omitempty" doc:"of the server"`
}

func (s *Server) kind(k *fault.Kind) view.Kind {
	if h, ok := s.options.Engine.Healers()[k.Code]; ok {
		return view.OfKind(k, &h)
	}
	return view.OfKind(k, nil)
}
