package service

import (
	"context"

	"github.com/pawl-dev/pawl/cluster"
)

// Nodes gives the living nodes of clusters that List gave, by their ids: one read for a whole page.
func (s *Service) Nodes(ctx context.Context, clusters []cluster.Cluster) (map[int64][]cluster.Node, error) {
	return s.options.Records.Nodes(ctx, idsOf(clusters))
}

// Reach gives how clusters that List gave are reached, by their ids: one read for a whole page.
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

// Feed says from where to where history reaches: the numbers of the newest
// event that was removed, and of the newest there ever was.
func (s *Service) Feed(ctx context.Context) (floor, newest int64, err error) {
	return s.options.Records.Feed(ctx)
}
