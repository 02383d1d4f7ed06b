package backend

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/view"
)

// Items is a page of anything.
type Items[T any] struct {
	Items []T    `json:"items"`
	Total int    `json:"total,omitempty"`
	Next  string `json:"next,omitempty"`
}

// Accepted is what a server answers to a change of a cluster.
type Accepted struct {
	Cluster   view.Cluster    `json:"cluster"`
	Operation *view.Operation `json:"operation,omitempty"`
}

// Clusters lists clusters.
func (r *Remote) Clusters(ctx context.Context, query url.Values) (Items[view.Cluster], error) {
	var page Items[view.Cluster]
	err := r.get(ctx, &page, query, "clusters")
	return page, err
}

// Cluster reads a cluster by id or name.
func (r *Remote) Cluster(ctx context.Context, id string) (view.Cluster, error) {
	var c view.Cluster
	err := r.get(ctx, &c, nil, "clusters", id)
	return c, err
}

// CreateCluster requests a cluster. body is that of POST /v1/clusters.
func (r *Remote) CreateCluster(ctx context.Context, body any) (Accepted, error) {
	var a Accepted
	err := r.do(ctx, call{method: http.MethodPost, path: []string{"clusters"}, header: key(""), body: body}, &a)
	return a, err
}

// ChangeCluster requests a change: start, stop, scale, upgrade, recover, forget.
func (r *Remote) ChangeCluster(ctx context.Context, id, kind string, body any) (Accepted, error) {
	var a Accepted
	err := r.do(ctx, call{method: http.MethodPost, path: []string{"clusters", id, kind}, header: key(""), body: body}, &a)
	return a, err
}

// PatchCluster changes settings, of any revision.
func (r *Remote) PatchCluster(ctx context.Context, id string, body any) (Accepted, error) {
	var a Accepted
	err := r.do(ctx, call{method: http.MethodPatch, path: []string{"clusters", id}, header: map[string]string{"If-Match": "*"}, body: body, kind: "application/merge-patch+json"}, &a)
	return a, err
}

// DeleteCluster requests the deletion of a cluster, of any revision.
func (r *Remote) DeleteCluster(ctx context.Context, id string, forced bool) (Accepted, error) {
	query := url.Values{}
	if forced {
		query.Set("forced", "true")
	}
	var a Accepted
	err := r.do(ctx, call{method: http.MethodDelete, path: []string{"clusters", id}, query: query, header: map[string]string{"If-Match": "*"}}, &a)
	return a, err
}

// PlanCluster is the dry run of a creation or a change. body is that of POST /v1/plans.
func (r *Remote) PlanCluster(ctx context.Context, body any) (service.DryRun, error) {
	var out struct{ Cluster service.DryRun }
	err := r.do(ctx, call{method: http.MethodPost, path: []string{"plans"}, header: key(""), body: body}, &out)
	return out.Cluster, err
}

// Operation reads an operation.
func (r *Remote) Operation(ctx context.Context, id string) (view.Operation, error) {
	var o view.Operation
	err := r.get(ctx, &o, nil, "operations", id)
	return o, err
}

// ClusterNodes lists the nodes of a cluster.
func (r *Remote) ClusterNodes(ctx context.Context, id string) ([]view.ClusterNode, error) {
	var page Items[view.ClusterNode]
	err := r.get(ctx, &page, nil, "clusters", id, "nodes")
	return page.Items, err
}

// ClusterResources reads the journal of a cluster.
func (r *Remote) ClusterResources(ctx context.Context, id string) ([]view.ClusterResource, error) {
	var page Items[view.ClusterResource]
	err := r.get(ctx, &page, nil, "clusters", id, "resources")
	return page.Items, err
}

// ClusterDrift compares desired, recorded and observed.
func (r *Remote) ClusterDrift(ctx context.Context, id string) (service.DriftReport, error) {
	var report service.DriftReport
	err := r.get(ctx, &report, nil, "clusters", id, "drift")
	return report, err
}

// ClusterConfig reads how a cluster is reached.
func (r *Remote) ClusterConfig(ctx context.Context, id string) (view.ClusterConfig, error) {
	var config view.ClusterConfig
	err := r.get(ctx, &config, nil, "clusters", id, "config")
	return config, err
}

// ClusterHistory reads all events of a cluster.
func (r *Remote) ClusterHistory(ctx context.Context, id string) ([]view.ClusterEvent, error) {
	return everything[view.ClusterEvent](ctx, r, url.Values{}, "clusters", id, "history")
}

// ClusterRuns lists the runs of a cluster, newest first.
func (r *Remote) ClusterRuns(ctx context.Context, id string) ([]view.Run, error) {
	var page Items[view.Run]
	err := r.get(ctx, &page, nil, "clusters", id, "runs")
	return page.Items, err
}

// ClusterLogs reads what a node wrote last.
func (r *Remote) ClusterLogs(ctx context.Context, id, node string, lines int) (string, error) {
	var out struct{ Text string }
	err := r.get(ctx, &out, url.Values{"node": {node}, "lines": {strconv.Itoa(lines)}}, "clusters", id, "logs")
	return out.Text, err
}

// Leaks lists what could not be deleted.
func (r *Remote) Leaks(ctx context.Context, id, kind string) ([]service.Leak, error) {
	query := url.Values{}
	if id != "" {
		query.Set("cluster", id)
	}
	if kind != "" {
		query.Set("kind", kind)
	}
	return everything[service.Leak](ctx, r, query, "leaks")
}

// Catalog lists what the providers offer.
func (r *Remote) Catalog(ctx context.Context, kind string) ([]view.CatalogEntry, error) {
	var page Items[view.CatalogEntry]
	err := r.get(ctx, &page, nil, "catalog", kind)
	return page.Items, err
}

// everything reads all pages of a list.
func everything[T any](ctx context.Context, r *Remote, query url.Values, path ...string) ([]T, error) {
	var all []T
	for {
		var page Items[T]
		if err := r.get(ctx, &page, query, path...); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == "" {
			return all, nil
		}
		query.Set("cursor", page.Next)
	}
}
