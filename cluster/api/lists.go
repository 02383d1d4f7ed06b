package api

import (
	"context"

	"github.com/pawl-dev/pawl/cluster"
)

// List returns the clusters of a query in the caller's scope.
func (s *Reader) List(ctx context.Context, who cluster.Caller, q cluster.ClusterQuery) ([]cluster.Cluster, int, error) {
	q.Scope = who.Scope
	return s.options.Store.List(ctx, q)
}

// Jobs lists jobs in the caller's scope.
func (s *Reader) Jobs(ctx context.Context, who cluster.Caller, q cluster.JobQuery) ([]cluster.Job, int, error) {
	q.Scope = who.Scope
	return s.options.Store.Jobs(ctx, q)
}

// Events returns history in the caller's scope.
func (s *Reader) Events(ctx context.Context, who cluster.Caller, q cluster.EventQuery) ([]cluster.Event, error) {
	q.Scope = who.Scope
	return s.options.Store.Events(ctx, q)
}

// Nodes returns the nodes of clusters from List, by cluster id, with one read.
// Removed nodes are not included.
func (s *Reader) Nodes(ctx context.Context, clusters []cluster.Cluster) (map[int64][]cluster.Node, error) {
	return s.options.Store.Nodes(ctx, idsOf(clusters))
}

// Reach returns how clusters from List are reached, by cluster id, with one
// read.
func (s *Reader) Reach(ctx context.Context, clusters []cluster.Cluster) (map[int64]cluster.Reach, error) {
	return s.options.Store.Reach(ctx, idsOf(clusters))
}

func idsOf(clusters []cluster.Cluster) []int64 {
	ids := make([]int64, len(clusters))
	for i := range clusters {
		ids[i] = clusters[i].ID
	}
	return ids
}

// Feed returns the range of history: the number of the newest event that was
// removed, and that of the newest event.
func (s *Reader) Feed(ctx context.Context) (floor, newest int64, err error) {
	return s.options.Store.Feed(ctx)
}

// Workers counts the workers of clusters from List, by cluster id. Removed nodes
// do not count.
func (s *Reader) Workers(ctx context.Context, clusters []cluster.Cluster) (map[int64]int, error) {
	return s.options.Store.Workers(ctx, idsOf(clusters))
}

// VMs returns the provider's ids of the nodes of clusters from List, by cluster
// id; control nodes come first. Removed nodes are not included.
func (s *Reader) VMs(ctx context.Context, clusters []cluster.Cluster) (map[int64][]string, error) {
	return s.options.Store.VMs(ctx, idsOf(clusters))
}
