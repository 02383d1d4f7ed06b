package server

import (
	"context"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service"
)

// changePlan is a change of a cluster that is only planned.
type changePlan struct {
	Cluster   string             `json:"cluster" doc:"id or name"`
	Kind      string             `json:"kind" enum:"start,stop,scale,upgrade,recover,delete"`
	Size      int                `json:"size,omitempty"`
	Nodes     []string           `json:"nodes,omitempty"`
	Autoscale *cluster.Autoscale `json:"autoscale,omitempty"`
	ChangeBody
}

// planCluster is the dry run of a creation or a change.
func (s *Server) planCluster(ctx context.Context, create *createBody, change *changePlan) (*service.DryRun, error) {
	clusters, err := s.clusters()
	if err != nil {
		return nil, err
	}
	if create != nil {
		return clusters.PlanCreate(ctx, s.caller(ctx), create.request())
	}
	_, book, err := s.book(ctx, change.Cluster)
	if err != nil {
		return nil, err
	}
	r := change.request(cluster.AskKind(change.Kind))
	r.Size, r.NodeIDs, r.Autoscale = change.Size, change.Nodes, change.Autoscale
	plan, err := clusters.PlanChange(ctx, s.caller(ctx), book.Cluster.UUID, r)
	if err != nil {
		return nil, failCluster(ctx, book.Cluster.UUID, false, err)
	}
	return plan, nil
}
