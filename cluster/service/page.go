package service

import (
	"context"

	"github.com/pawl-dev/pawl/cluster"
)

// Nodes returns the nodes of clusters from List, by cluster id, with one read.
// Removed nodes are not included.
func (s *Service) Nodes(ctx context.Context, clusters []cluster.Cluster) (map[int64][]cluster.Node, error) {
	return s.options.Records.Nodes(ctx, idsOf(clusters))
}

// Reach returns how clusters from List are reached, by cluster id, with one
// read.
func (s *Service) Reach(ctx context.Context, clusters []cluster.Cluster) (map[int64]cluster.Reach, error) {
	return s.options.Records.Reach(ctx, idsOf(clusters))
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
func (s *Service) Feed(ctx context.Context) (floor, newest int64, err error) {
	return s.options.Records.Feed(ctx)
}
