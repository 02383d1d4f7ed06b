package service

import (
	"context"

	"github.com/pawl-dev/pawl/cluster"
)

// Workers counts the living workers of clusters that List gave, by their ids.
func (s *Service) Workers(ctx context.Context, clusters []cluster.Cluster) (map[int64]int, error) {
	return s.options.Records.Workers(ctx, idsOf(clusters))
}

// VMs gives the provider's ids of the living nodes of clusters that List gave,
// by their ids; control nodes come first.
func (s *Service) VMs(ctx context.Context, clusters []cluster.Cluster) (map[int64][]string, error) {
	return s.options.Records.VMs(ctx, idsOf(clusters))
}
