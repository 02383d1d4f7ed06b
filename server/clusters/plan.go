package clusters

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/server/route"
)

// ChangePlan is a change of a cluster to plan.
type ChangePlan struct {
	Cluster   string             `json:"cluster" doc:"id or name"`
	Kind      string             `json:"kind" enum:"start,stop,scale,upgrade,recover,delete,set,forget"`
	Size      int                `json:"size,omitempty"`
	Nodes     []string           `json:"nodes,omitempty"`
	Autoscale *cluster.Autoscale `json:"autoscale,omitempty"`
	Settings  json.RawMessage    `json:"settings,omitempty" doc:"set: a merge patch, as PATCH takes it"`
	Confirm   string             `json:"confirm,omitempty" doc:"forget: name of the cluster"`
	ChangeBody
}

// Plan returns the dry run of a creation or a change.
func (s *Service) Plan(ctx context.Context, create *CreateBody, change *ChangePlan) (*api.DryRun, error) {
	clusters, err := s.service()
	if err != nil {
		return nil, err
	}
	if create != nil {
		return clusters.PlanCreate(ctx, s.Callers.Of(ctx), create.request())
	}
	if change.Kind == "forget" {
		if err := route.Allow(ctx, route.Operator); err != nil {
			return nil, err
		}
	}
	_, record, err := s.record(ctx, change.Cluster)
	if err != nil {
		return nil, err
	}
	var plan *api.DryRun
	switch change.Kind {
	case "set":
		r, bad := patchRequest(change.Settings)
		if bad != nil {
			return nil, bad
		}
		plan, err = clusters.PlanPatch(ctx, s.Callers.Of(ctx), record.Cluster.UUID, r)
	case "forget":
		plan, err = clusters.PlanForget(ctx, s.Callers.Of(ctx), record.Cluster.UUID, change.Confirm)
	default:
		plan, err = clusters.PlanChange(ctx, s.Callers.Of(ctx), record.Cluster.UUID, change.changeRequest())
	}
	if err != nil {
		return nil, nameCluster(ctx, record.Cluster.UUID, err)
	}
	return plan, nil
}

// changeRequest returns the request for the planned change.
func (change *ChangePlan) changeRequest() api.ChangeRequest {
	r := change.request(cluster.RequestKind(change.Kind))
	r.Size, r.NodeIDs, r.Autoscale = change.Size, change.Nodes, change.Autoscale
	return r
}
