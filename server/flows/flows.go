// Package flows serves what a server has loaded: its flows, the plans of what they and
// the machines would do, and the faults that they may end with.
package flows

import (
	"context"
	"net/http"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/server/clusters"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
)

// Service serves the flows of an engine.
type Service struct {
	Engine   *workflow.Engine
	Objects  control.Objects                     // nil: none are planned
	Kinds    func() ([]driver.ServedKind, error) // nil: objects are NOT_SERVED
	Clusters *clusters.Service
}

// Routes are the routes of flows and plans.
func (s *Service) Routes() route.Table {
	return route.Table{Tag: "flows", Routes: []route.Route{
		{Method: http.MethodGet, Path: "/v1/flows", ID: "listFlows", Role: route.Operator, Handle: route.Do(s.list),
			Summary: "List the loaded flows"},
		{Method: http.MethodGet, Path: "/v1/flows/{name}", ID: "getFlow", Role: route.Operator, Errors: []int{404}, Handle: route.Do(s.get),
			Summary: "Read a loaded flow with its steps"},
		{Method: http.MethodPost, Path: "/v1/plans", ID: "plan", Role: route.User, Idempotent: true, ReadOnly: true, Errors: []int{404, 409}, Handle: route.Do(s.plan),
			Summary: "Plan a run, a machine, a bulk or a change of a cluster", More: "Nothing is stored. Only plans of clusters are for all; the others are for operators."},
	}}
}

func (s *Service) list(context.Context, *struct{}) (*route.One[view.Flows], error) {
	list := view.Flows{Items: []view.Flow{}}
	for _, f := range s.Engine.Flows() {
		v, err := view.OfFlow(f)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, v.Brief())
	}
	return route.OneOf(list, nil)
}

type flowAnswer struct {
	ETag string `header:"ETag"`
	Body view.Flow
}

func (s *Service) get(_ context.Context, in *struct {
	Name        string `path:"name"`
	Kind        string `query:"kind" doc:"kind of subjects: selects the flow that serves them if several flows have the name"`
	IfNoneMatch string `header:"If-None-Match" doc:"304 if this is still its ETag"`
}) (*flowAnswer, error) {
	f := workflow.FlowFor(s.Engine.Flows(), in.Name, in.Kind)
	if f == nil {
		return nil, workflow.FlowUnknown.Errorf("no flow %q is loaded", in.Name)
	}
	v, err := view.OfFlow(*f)
	if err != nil {
		return nil, err
	}
	return &flowAnswer{ETag: `"` + v.Hash + `"`, Body: v}, nil
}
