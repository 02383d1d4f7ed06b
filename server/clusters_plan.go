package server

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service"
)

// changePlan is a change of a cluster to plan.
type changePlan struct {
	Cluster   string             `json:"cluster" doc:"id or name"`
	Kind      string             `json:"kind" enum:"start,stop,scale,upgrade,recover,delete,set,forget"`
	Size      int                `json:"size,omitempty"`
	Nodes     []string           `json:"nodes,omitempty"`
	Autoscale *cluster.Autoscale `json:"autoscale,omitempty"`
	Settings  json.RawMessage    `json:"settings,omitempty" doc:"set: a merge patch, as PATCH takes it"`
	Confirm   string             `json:"confirm,omitempty" doc:"forget: name of the cluster"`
	ChangeBody
}

// planCluster returns the dry run of a creation or a change.
func (s *Server) planCluster(ctx context.Context, create *createBody, change *changePlan) (*service.DryRun, error) {
	clusters, err := s.clusters()
	if err != nil {
		return nil, err
	}
	if create != nil {
		return clusters.PlanCreate(ctx, s.caller(ctx), create.request())
	}
	if change.Kind == "forget" {
		if err := allow(ctx, Operator); err != nil {
			return nil, err
		}
	}
	_, record, err := s.record(ctx, change.Cluster)
	if err != nil {
		return nil, err
	}
	var plan *service.DryRun
	switch change.Kind {
	case "set":
		r, bad := patchRequest(change.Settings)
		if bad != nil {
			return nil, bad
		}
		plan, err = clusters.PlanPatch(ctx, s.caller(ctx), record.Cluster.UUID, r)
	case "forget":
		plan, err = clusters.PlanForget(ctx, s.caller(ctx), record.Cluster.UUID, change.Confirm)
	default:
		plan, err = clusters.PlanChange(ctx, s.caller(ctx), record.Cluster.UUID, change.changeRequest())
	}
	if err != nil {
		return nil, failCluster(ctx, record.Cluster.UUID, false, err)
	}
	return plan, nil
}

// changeRequest returns the request for the planned change.
func (change *changePlan) changeRequest() service.ChangeRequest {
	r := change.request(cluster.RequestKind(change.Kind))
	r.Size, r.NodeIDs, r.Autoscale = change.Size, change.Nodes, change.Autoscale
	return r
}
