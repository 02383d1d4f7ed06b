package service

import (
	"context"

	"github.com/pawl-dev/pawl/cluster"
)

// Workers counts the workers of clusters from List, by cluster id. Removed nodes
// do not count.
func (s *Service) Workers(ctx context.Context, clusters []cluster.Cluster) (map[int64]int, error) {
	return s.options.Records.Workers(ctx, idsOf(clusters))
}

// VMs returns the provider's ids of the nodes of clusters from List, by cluster
// id; control nodes come first. Removed nodes are not included.
func (s *Service) VMs(ctx context.Context, clusters []cluster.Cluster) (map[int64][]string, error) {
	return s.options.Records.VMs(ctx, idsOf(clusters))
}
