package clusters

import (
	"context"
	"net/http"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/server/route"
)

// Lifecycle is the state machine of clusters, for clients that draw it.
type Lifecycle struct {
	States []LifecycleState `json:"states" doc:"from creation to destruction"`
	Edges  []LifecycleEdge  `json:"edges"`
}

// LifecycleState is a state of the machine.
type LifecycleState struct {
	Name      machine.State `json:"name"`
	Transient bool          `json:"transient" doc:"a run is active in it"`
}

// LifecycleEdge is a transition.
type LifecycleEdge struct {
	From  machine.State          `json:"from"`
	Event cluster.LifecycleEvent `json:"event"`
	To    machine.State          `json:"to"`
	By    string                 `json:"by" doc:"what fires it"`
}

func lifecycle() Lifecycle {
	var l Lifecycle
	for _, state := range cluster.States {
		l.States = append(l.States, LifecycleState{state, cluster.Transient(state)})
	}
	for _, e := range cluster.Edges {
		l.Edges = append(l.Edges, LifecycleEdge{e.From, e.Event, e.To, e.FiredBy})
	}
	return l
}

// LifecycleRoutes are the routes of the state machine of clusters.
func (s *Service) LifecycleRoutes() route.Table {
	return route.Table{Tag: "clusters", Routes: []route.Route{
		{Method: http.MethodGet, Path: "/v1/lifecycle", ID: "lifecycle", Role: route.User, Handle: route.Do(s.lifecycle),
			Summary: "Read the state machine of clusters"},
	}}
}

func (s *Service) lifecycle(context.Context, *struct{}) (*route.One[Lifecycle], error) {
	return route.OneOf(lifecycle(), nil)
}

func (s *Service) actions(ctx context.Context, in *ClusterPath) (*route.ListOf[api.Offer], error) {
	_, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return route.NewList(api.Offers(&record.Cluster, s.Callers.Of(ctx))), nil
}
