package service

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/cluster"
)

// observe reads the resources of a cluster from its provider. A failure of the
// provider is not an error but Observed.Err: it proves nothing.
func (s *Service) observe(ctx context.Context, record *cluster.Record) (cluster.Observed, error) {
	c := &record.Cluster
	provider, err := s.provider(c.Provider)
	if err != nil {
		return cluster.Observed{}, err
	}
	seen := cluster.Observed{At: s.options.Now(), SendsHeartbeats: provider.Capabilities().SendsHeartbeats, Listed: map[cluster.Kind]bool{}, Proven: map[string]bool{}}
	for _, kind := range provider.Capabilities().Kinds {
		items, err := all(ctx, provider, cluster.Filter{Kind: kind, Zone: c.Zone.ID, Cluster: c.UUID})
		if err != nil {
			seen.Err = err
			return seen, ctx.Err()
		}
		seen.Listed[kind] = true
		seen.Resources = append(seen.Resources, items...)
	}
	if seen.ForeignComplete = c.Network.ID == ""; !seen.ForeignComplete {
		neighbours, err := all(ctx, provider, cluster.Filter{Kind: cluster.VM, Zone: c.Zone.ID, Network: c.Network.ID})
		seen.ForeignComplete = err == nil
		for _, r := range neighbours {
			if r.Tags[cluster.TagInstallation] != s.options.Installation || r.Tags[cluster.TagCluster] != c.UUID {
				seen.AddFromNetwork(record, r)
			}
		}
	}
	s.readSuspects(ctx, provider, record, &seen)
	if c.State == cluster.Running && c.Endpoint != "" && seen.Err == nil {
		seen.Endpoint = s.probe(ctx, c)
	}
	return seen, ctx.Err()
}

// readSuspects reads each resource again that is missing or in an unexpected
// state. Only this read proves that a resource is gone.
func (s *Service) readSuspects(ctx context.Context, provider cluster.Provider, record *cluster.Record, seen *cluster.Observed) {
	for _, ref := range cluster.Suspects(&record.Cluster, record, *seen) {
		r, err := provider.Get(ctx, ref)
		switch {
		case errors.Is(err, cluster.ErrGone):
			seen.Proven[ref.ID] = true
		case err != nil:
			seen.Err = err
			return
		default:
			seen.Put(r)
		}
	}
}

// all returns the items of all pages of a list.
func all(ctx context.Context, provider cluster.Provider, f cluster.Filter) ([]cluster.Resource, error) {
	var items []cluster.Resource
	for page := cluster.Cursor(""); ; {
		p, err := provider.List(ctx, f, page)
		if err != nil {
			return nil, err
		}
		items = append(items, p.Items...)
		if page = p.Next; page == "" {
			return items, nil
		}
	}
}
