package server

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
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
		return nil, Refused.Errorf("the patch's %s: %w", name, err)
	}
	return v, nil
}

func patchRequest(data json.RawMessage) (r service.PatchRequest, err error) {
	var present map[string]json.RawMessage // distinguishes null from absent
	if err := json.Unmarshal(data, &present); err != nil || present == nil {
		return r, Refused.Errorf("the patch is not a JSON object")
	}
	var b patchBody
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return r, Refused.Errorf("the patch: %w", err)
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

func (s *Server) patchCluster(ctx context.Context, in *struct {
	ClusterPath
	IfMatch string          `header:"If-Match" doc:"ETag the change is for, or *"`
	Body    json.RawMessage `contentType:"application/merge-patch+json"`
}) (*acceptedAnswer, error) {
	revision, err := requireRevision(in.IfMatch)
	if err != nil {
		return nil, err
	}
	r, err := patchRequest(in.Body)
	if err != nil {
		return nil, err
	}
	r.Revision = revision
	clusters, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	c, job, err := clusters.Patch(ctx, s.caller(ctx), record.Cluster.UUID, r)
	if err != nil {
		return nil, failCluster(ctx, record.Cluster.UUID, true, err)
	}
	return s.accepted(ctx, c, job), nil
}

type listOf[T any] struct {
	Body struct {
		Items []T    `json:"items"`
		Total int    `json:"total,omitempty"`
		Next  string `json:"next,omitempty"`
	}
}

func newList[T any](items []T) *listOf[T] {
	l := &listOf[T]{}
	if l.Body.Items = items; items == nil {
		l.Body.Items = []T{}
	}
	return l
}

func (s *Server) clusterNodes(ctx context.Context, in *ClusterPath) (*listOf[view.ClusterNode], error) {
	_, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return newList(view.ClusterNodes(record)), nil
}

func (s *Server) clusterResources(ctx context.Context, in *ClusterPath) (*listOf[view.ClusterResource], error) {
	_, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return newList(view.ClusterResources(record)), nil
}

func (s *Server) clusterDrift(ctx context.Context, in *ClusterPath) (*struct{ Body *service.DriftReport }, error) {
	clusters, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	report, err := clusters.Drift(ctx, s.caller(ctx), record.Cluster.UUID)
	if err != nil {
		return nil, failCluster(ctx, record.Cluster.UUID, false, err)
	}
	return &struct{ Body *service.DriftReport }{report}, nil
}

func (s *Server) clusterConfig(ctx context.Context, in *ClusterPath) (*struct{ Body view.ClusterConfig }, error) {
	clusters, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	config, err := clusters.Config(ctx, s.caller(ctx), record.Cluster.UUID)
	if err != nil {
		return nil, failCluster(ctx, record.Cluster.UUID, false, err)
	}
	return &struct{ Body view.ClusterConfig }{view.ClusterConfigOf(config)}, nil
}

func (s *Server) clusterRuns(ctx context.Context, in *struct {
	ClusterPath
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor string `query:"cursor" doc:"next of the previous page"`
}) (*listOf[view.Run], error) {
	_, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	lister, err := s.lister()
	if err != nil {
		return nil, err
	}
	runs, next, err := lister.List(ctx, workflow.Query{Subject: cluster.Subject(record.Cluster.UUID), Limit: in.Limit, Cursor: in.Cursor})
	if err != nil {
		return nil, cursorError(in.Cursor, err)
	}
	out := newList[view.Run](nil)
	for _, r := range runs {
		out.Body.Items = append(out.Body.Items, view.OfRun(r, s.flow(r.Flow, r.Subject)))
	}
	out.Body.Next = next
	return out, nil
}

func (s *Server) clusterHistory(ctx context.Context, in *struct {
	ClusterPath
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor string `query:"cursor" doc:"next of the previous page"`
}) (*listOf[view.ClusterEvent], error) {
	clusters, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	after, err := parseOffset(in.Cursor)
	if err != nil {
		return nil, err
	}
	events, err := clusters.Events(ctx, s.caller(ctx), cluster.EventQuery{Cluster: record.Cluster.UUID, After: int64(after), Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	out := newList(view.ClusterEvents(events))
	if len(events) == in.Limit {
		out.Body.Next = offsetCursor(int(events[len(events)-1].Seq))
	}
	return out, nil
}

func (s *Server) clusterLogs(ctx context.Context, in *struct {
	ClusterPath
	Node  string `query:"node" required:"true" doc:"name or id"`
	Lines int    `query:"lines" minimum:"1" maximum:"10000" default:"100"`
}) (*struct {
	Body struct {
		Node string `json:"node"`
		Text string `json:"text"`
	}
}, error) {
	clusters, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	text, err := clusters.Logs(ctx, s.caller(ctx), record.Cluster.UUID, in.Node, in.Lines)
	if err != nil {
		return nil, failCluster(ctx, record.Cluster.UUID, false, err)
	}
	out := &struct {
		Body struct {
			Node string `json:"node"`
			Text string `json:"text"`
		}
	}{}
	out.Body.Node, out.Body.Text = in.Node, text
	return out, nil
}

func (s *Server) getOperation(ctx context.Context, in *struct {
	ID string `path:"id"`
}) (*struct{ Body view.Operation }, error) {
	clusters, err := s.clusters()
	if err != nil {
		return nil, err
	}
	job, err := clusters.Job(ctx, s.caller(ctx), in.ID)
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
	return &struct{ Body view.Operation }{operation}, nil
}

func (s *Server) listLeaks(ctx context.Context, in *struct {
	Cluster string `query:"cluster" doc:"id or name"`
	Kind    string `query:"kind" enum:"vm,network,address,firewall,forward,balancer,keypair"`
	Limit   int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor  string `query:"cursor" doc:"next of the previous page"`
}) (*listOf[service.Leak], error) {
	clusters, err := s.clusters()
	if err != nil {
		return nil, err
	}
	offset, err := parseOffset(in.Cursor)
	if err != nil {
		return nil, err
	}
	leaks, total, err := clusters.Leaks(ctx, s.caller(ctx), in.Cluster, cluster.Kind(in.Kind), offset, in.Limit)
	if err != nil {
		return nil, err
	}
	out := newList(leaks)
	if out.Body.Total = total; offset+len(leaks) < total && len(leaks) > 0 {
		out.Body.Next = offsetCursor(offset + len(leaks))
	}
	return out, nil
}

func (s *Server) catalog(ctx context.Context, in *struct {
	Kind string `path:"kind" enum:"zone,offering,template,network,networkoffering,keypair,version"`
}) (*listOf[view.CatalogEntry], error) {
	clusters, err := s.clusters()
	if err != nil {
		return nil, err
	}
	out := newList[view.CatalogEntry](nil)
	if in.Kind == "version" {
		for _, v := range clusters.Versions() {
			out.Body.Items = append(out.Body.Items, view.CatalogEntry{ID: v.ID, Name: v.Name, Version: v.Semantic, Disabled: v.Disabled})
		}
		return out, nil
	}
	entries, err := clusters.Catalog(ctx, s.caller(ctx), cluster.Kind(in.Kind))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		out.Body.Items = append(out.Body.Items, view.CatalogEntry{ID: e.ID, Name: e.Name, Zone: e.Zone, Disabled: e.Disabled, Default: e.Default, Cores: e.Cores, MemoryMB: e.MemoryMB})
	}
	return out, nil
}
