package clusters

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// patchBody holds the parts of a cluster that a merge patch may change. null resets a
// setting to its default.
type patchBody struct {
	Size        *int             `json:"size"`
	Description *json.RawMessage `json:"description"`
	Recovery    *json.RawMessage `json:"recovery"`
	OnFailure   *json.RawMessage `json:"onFailure"`
	CIDRs       *json.RawMessage `json:"cidrs"`
	GC          *bool            `json:"gc"`
}

// decodeSetting decodes a part of a patch; null is its zero value, nil means unchanged.
func decodeSetting[T any](name string, raw *json.RawMessage) (*T, error) {
	if raw == nil {
		return nil, nil //nolint:nilnil // unchanged
	}
	v := new(T)
	if err := json.Unmarshal(*raw, v); err != nil {
		return nil, route.Refused.Errorf("the patch's %s: %w", name, err)
	}
	return v, nil
}

func patchRequest(data json.RawMessage) (r api.PatchRequest, err error) {
	var present map[string]json.RawMessage // distinguishes null from absent
	if err := json.Unmarshal(data, &present); err != nil || present == nil {
		return r, route.Refused.Errorf("the patch is not a JSON object")
	}
	var b patchBody
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return r, route.Refused.Errorf("the patch: %w", err)
	}
	raw := func(name string) *json.RawMessage {
		if v, ok := present[name]; ok {
			return &v
		}
		return nil
	}
	r.Size, r.GC = b.Size, b.GC
	if r.Description, err = decodeSetting[string]("description", raw("description")); err != nil {
		return r, err
	}
	if r.Recovery, err = decodeSetting[cluster.Recovery]("recovery", raw("recovery")); err != nil {
		return r, err
	}
	if r.OnFailure, err = decodeSetting[cluster.OnFailure]("onFailure", raw("onFailure")); err != nil {
		return r, err
	}
	r.CIDRs, err = decodeSetting[[]string]("cidrs", raw("cidrs"))
	return r, err
}

func (s *Service) patch(ctx context.Context, in *struct {
	ClusterPath
	Body json.RawMessage `contentType:"application/merge-patch+json"`
}) (*acceptedAnswer, error) {
	r, err := patchRequest(in.Body)
	if err != nil {
		return nil, err
	}
	r.Revision = route.CallOf(ctx).Revision
	clusters, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	c, job, err := clusters.Patch(ctx, s.Callers.Of(ctx), record.Cluster.UUID, r)
	if err != nil {
		return nil, nameCluster(ctx, record.Cluster.UUID, err)
	}
	return s.accepted(ctx, c, job), nil
}

func (s *Service) nodes(ctx context.Context, in *ClusterPath) (*route.ListOf[view.ClusterNode], error) {
	_, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return route.NewList(view.ClusterNodes(record)), nil
}

func (s *Service) resources(ctx context.Context, in *ClusterPath) (*route.ListOf[view.ClusterResource], error) {
	_, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return route.NewList(view.ClusterResources(record)), nil
}

func (s *Service) drift(ctx context.Context, in *ClusterPath) (*route.One[*api.DriftReport], error) {
	clusters, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	report, err := clusters.Drift(ctx, s.Callers.Of(ctx), record.Cluster.UUID)
	if err != nil {
		return nil, nameCluster(ctx, record.Cluster.UUID, err)
	}
	return route.OneOf(report, nil)
}

func (s *Service) config(ctx context.Context, in *ClusterPath) (*route.One[view.ClusterConfig], error) {
	clusters, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	config, err := clusters.Config(ctx, s.Callers.Of(ctx), record.Cluster.UUID)
	if err != nil {
		return nil, nameCluster(ctx, record.Cluster.UUID, err)
	}
	return route.OneOf(view.ClusterConfigOf(config), nil)
}

func (s *Service) runs(ctx context.Context, in *struct {
	ClusterPath
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor string `query:"cursor" doc:"next of the previous page"`
}) (*route.ListOf[view.Run], error) {
	_, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	lister, err := s.Runs.Lister()
	if err != nil {
		return nil, err
	}
	runs, next, err := lister.List(ctx, runstore.Query{Subject: cluster.Subject(record.Cluster.UUID), Limit: in.Limit, Cursor: in.Cursor})
	if err != nil {
		return nil, route.CursorError(in.Cursor, err)
	}
	out := route.NewList[view.Run](nil)
	for _, r := range runs {
		out.Body.Items = append(out.Body.Items, view.OfRun(r, s.Runs.Flow(r.Flow, r.Subject)))
	}
	out.Body.Next = next
	return out, nil
}

func (s *Service) history(ctx context.Context, in *struct {
	ClusterPath
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor string `query:"cursor" doc:"next of the previous page"`
}) (*route.ListOf[view.ClusterEvent], error) {
	clusters, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	after, err := route.ParseNumberCursor("", in.Cursor)
	if err != nil {
		return nil, err
	}
	events, err := clusters.Events(ctx, s.Callers.Of(ctx), cluster.EventQuery{Cluster: record.Cluster.UUID, After: after, Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	out := route.NewList(view.ClusterEvents(events))
	if len(events) == in.Limit {
		out.Body.Next = route.NumberCursor("", events[len(events)-1].Seq)
	}
	return out, nil
}

func (s *Service) logs(ctx context.Context, in *struct {
	ClusterPath
	Node  string `query:"node" required:"true" doc:"name or id"`
	Lines int    `query:"lines" minimum:"1" maximum:"10000" default:"100"`
}) (*logsAnswer, error) {
	clusters, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	text, err := clusters.Logs(ctx, s.Callers.Of(ctx), record.Cluster.UUID, in.Node, in.Lines)
	if err != nil {
		return nil, nameCluster(ctx, record.Cluster.UUID, err)
	}
	out := &logsAnswer{}
	out.Body.Node, out.Body.Text = in.Node, text
	return out, nil
}

type logsAnswer = struct {
	Body struct {
		Node string `json:"node"`
		Text string `json:"text"`
	}
}

func (s *Service) operation(ctx context.Context, in *struct {
	ID string `path:"id"`
}) (*route.One[view.Operation], error) {
	clusters, err := s.service()
	if err != nil {
		return nil, err
	}
	job, err := clusters.Job(ctx, s.Callers.Of(ctx), in.ID)
	if err != nil {
		if fault.Of(err) == cluster.AccessRefused {
			err = cluster.JobNotFound.Errorf("there is no operation %s", in.ID)
		}
		return nil, err
	}
	operation := view.OperationOf(job)
	if job.Status == cluster.JobOpen {
		standing, err := clusters.Explanation(ctx, job.Cluster)
		if err != nil {
			return nil, err
		}
		operation = operation.With(standing)
	}
	return route.OneOf(operation, nil)
}

func (s *Service) leaks(ctx context.Context, in *struct {
	Cluster string `query:"cluster" doc:"id or name"`
	Kind    string `query:"kind" enum:"vm,network,address,firewall,forward,balancer,keypair"`
	Limit   int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor  string `query:"cursor" doc:"next of the previous page"`
}) (*route.ListOf[api.Leak], error) {
	clusters, err := s.service()
	if err != nil {
		return nil, err
	}
	offset, err := route.ParseNumberCursor("", in.Cursor)
	if err != nil {
		return nil, err
	}
	leaks, total, err := clusters.Leaks(ctx, s.Callers.Of(ctx), in.Cluster, cluster.Kind(in.Kind), int(offset), in.Limit)
	if err != nil {
		return nil, err
	}
	out := route.NewList(leaks)
	if out.Body.Total = total; int(offset)+len(leaks) < total && len(leaks) > 0 {
		out.Body.Next = route.NumberCursor("", offset+int64(len(leaks)))
	}
	return out, nil
}

func (s *Service) catalog(ctx context.Context, in *struct {
	Kind string `path:"kind" enum:"zone,offering,template,network,networkoffering,keypair,version"`
}) (*route.ListOf[view.CatalogEntry], error) {
	clusters, err := s.service()
	if err != nil {
		return nil, err
	}
	out := route.NewList[view.CatalogEntry](nil)
	if in.Kind == "version" {
		for _, v := range clusters.Versions() {
			out.Body.Items = append(out.Body.Items, view.CatalogEntry{ID: v.ID, Name: v.Name, Version: v.Semantic, Disabled: v.Disabled})
		}
		return out, nil
	}
	entries, err := clusters.Catalog(ctx, s.Callers.Of(ctx), cluster.Kind(in.Kind))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		out.Body.Items = append(out.Body.Items, view.CatalogEntry{ID: e.ID, Name: e.Name, Zone: e.Zone, Disabled: e.Disabled, Default: e.Default, Cores: e.Cores, MemoryMB: e.MemoryMB})
	}
	return out, nil
}
