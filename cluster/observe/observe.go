// Package observe reads the state of a cluster from its provider.
package observe

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/providers"
)

// Store is the part of cluster.Store that an Observer reads.
type Store interface {
	Details(ctx context.Context, uuid string) (*cluster.Details, error)
}

// Providers finds configured providers.
type Providers interface {
	Provider(name string) (cluster.Provider, error)
}

// Options of an Observer.
type Options struct {
	Store        Store
	Providers    Providers
	Installation string // id of this installation, in the tags of all resources
	// Probe checks that the endpoint of a cluster answers. nil: no probe.
	Probe func(ctx context.Context, c *cluster.Cluster, d *cluster.Details) error
	Now   func() time.Time
}

// Observer observes clusters.
type Observer struct{ options Options }

// New returns an observer.
func New(o Options) *Observer { return &Observer{o} }

// Observe reads the resources of a cluster from its provider. A failure of the
// provider is not an error but Observed.Err: it proves nothing.
func (s *Observer) Observe(ctx context.Context, record *cluster.Record) (cluster.Observed, error) {
	c := &record.Cluster
	provider, err := s.options.Providers.Provider(c.Provider)
	if err != nil {
		return cluster.Observed{}, err
	}
	seen := cluster.Observed{At: s.options.Now(), SendsHeartbeats: provider.Capabilities().SendsHeartbeats, Listed: map[cluster.Kind]bool{}, Proven: map[string]bool{}}
	for _, kind := range provider.Capabilities().Kinds {
		items, err := providers.All(ctx, provider, cluster.Filter{Kind: kind, Zone: c.Zone.ID, Cluster: c.UUID})
		if err != nil {
			seen.Err = err
			return seen, ctx.Err()
		}
		seen.Listed[kind] = true
		seen.Resources = append(seen.Resources, items...)
	}
	if seen.ForeignComplete = c.Network.ID == ""; !seen.ForeignComplete {
		neighbours, err := providers.All(ctx, provider, cluster.Filter{Kind: cluster.VM, Zone: c.Zone.ID, Network: c.Network.ID})
		seen.ForeignComplete = err == nil
		for _, r := range neighbours {
			if r.Tags[cluster.TagInstallation] != s.options.Installation || r.Tags[cluster.TagCluster] != c.UUID {
				seen.AddFromNetwork(record, r)
			}
		}
	}
	ReadSuspects(ctx, provider, record, &seen)
	if c.State == cluster.Running && c.Endpoint != "" && seen.Err == nil {
		seen.Endpoint = s.probe(ctx, c)
	}
	return seen, ctx.Err()
}

// ReadSuspects reads each resource again that is missing or in an unexpected
// state. Only this read proves that a resource is gone.
func ReadSuspects(ctx context.Context, provider cluster.Provider, record *cluster.Record, seen *cluster.Observed) {
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

// probe checks that the endpoint of a cluster answers. Without Options.Probe it
// returns nil.
func (s *Observer) probe(ctx context.Context, c *cluster.Cluster) error {
	if s.options.Probe == nil {
		return nil
	}
	d, err := s.options.Store.Details(ctx, c.UUID)
	if err != nil {
		return err
	}
	return s.options.Probe(ctx, c, d)
}
