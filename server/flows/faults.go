package flows

import (
	"context"
	"net/http"
	"strings"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view"
)

// FaultRoutes are the routes of the declared faults.
func (s *Service) FaultRoutes() route.Table {
	return route.Table{Tag: "faults", Routes: []route.Route{
		{Method: http.MethodGet, Path: "/v1/faults", ID: "listFaults", Role: route.User, Handle: route.Do(s.listFaults),
			Summary: "List all declared faults"},
		{Method: http.MethodGet, Path: "/v1/faults/{code}", ID: "getFault", Role: route.User, Errors: []int{404}, Handle: route.Do(s.getFault),
			Summary: "Explain a fault", More: "Takes the code in UPPER_SNAKE and in CamelCase."},
	}}
}

func (s *Service) listFaults(context.Context, *struct{}) (*route.One[view.Kinds], error) {
	list := view.Kinds{Items: []view.Kind{}}
	for _, k := range fault.All() {
		list.Items = append(list.Items, s.kind(k))
	}
	return route.OneOf(list, nil)
}

func (s *Service) getFault(_ context.Context, in *struct {
	Code string `path:"code"`
}) (*route.One[view.Kind], error) {
	k, ok := fault.Lookup(in.Code)
	if !ok {
		hint := ""
		if near := view.Similar(in.Code); len(near) > 0 {
			hint = ": did you mean " + strings.Join(near, ", ") + "?"
		}
		return nil, route.FaultNotFound.Errorf("no fault %s%s", in.Code, hint)
	}
	return route.OneOf(s.kind(k), nil)
}

func (s *Service) kind(k *fault.Kind) view.Kind {
	if h, ok := s.Engine.Healers()[k.Code]; ok {
		return view.OfKind(k, &h)
	}
	return view.OfKind(k, nil)
}
