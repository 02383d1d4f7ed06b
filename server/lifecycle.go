package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/machine"
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

func (s *Server) lifecycleRoutes() {
	tags := []string{"clusters"}
	registerRoute(s, huma.Operation{OperationID: "lifecycle", Method: http.MethodGet, Path: "/v1/lifecycle", Summary: "Read the state machine of clusters", Tags: tags}, User,
		func(context.Context, *struct{}) (*struct{ Body Lifecycle }, error) {
			return &struct{ Body Lifecycle }{lifecycle()}, nil
		})
	registerRoute(s, huma.Operation{OperationID: "clusterActions", Method: http.MethodGet, Path: "/v1/clusters/{id}/actions", Summary: "List the requests that a cluster accepts now, and why not the others", Tags: tags,
		Errors: []int{404, http.StatusNotImplemented}}, User,
		func(ctx context.Context, in *ClusterPath) (*listOf[service.Offer], error) {
			_, record, err := s.record(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			return newList(service.Offers(&record.Cluster, s.caller(ctx))), nil
		})
}
