// Package capacity tells whether an account and a provider have room for more nodes.
package capacity

import (
	"context"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// Store reads what the clusters of an owner use.
type Store interface {
	Usage(ctx context.Context, o cluster.Owner) (cluster.Usage, error)
}

// Directory reads the limits of accounts.
type Directory interface {
	Limits(ctx context.Context, o cluster.Owner) (cluster.Limits, error)
}

// Providers finds configured providers.
type Providers interface {
	Provider(name string) (cluster.Provider, error)
}

// Options of a Checker.
type Options struct {
	Store     Store
	Directory Directory // nil: accounts have no limits
	Providers Providers
}

// Checker checks limits.
type Checker struct{ options Options }

// New returns a checker.
func New(o Options) *Checker { return &Checker{o} }

// Findings returns the limits that prevent a number of additional nodes. grown
// is the growth of the cluster that is not stored yet, for WithFormerSize.
func (s *Checker) Findings(ctx context.Context, c *cluster.Cluster, nodes, grown int, stored Counted) ([]cluster.Finding, error) {
	found := []cluster.Finding{}
	if err := s.quota(ctx, c, nodes, grown, stored); err != nil {
		found = append(found, cluster.Finding{Type: cluster.PlanObstacle, Code: cluster.AccountLimit.Code, Evidence: fault.Message(err)})
	}
	provider, err := s.options.Providers.Provider(c.Provider)
	if err != nil {
		return nil, err
	}
	more, err := provider.Check(ctx, needOf(c, nodes))
	if err != nil {
		return nil, err
	}
	return append(found, more...), nil
}

func needOf(c *cluster.Cluster, nodes int) cluster.Need {
	return cluster.Need{
		Owner: c.Owner, Zone: c.Zone.ID, Offering: c.Offering.ID, Template: c.Template.ID,
		Network: c.Network.ID, KeyPair: c.KeyPair, DiskGB: c.DiskGB, Nodes: nodes,
	}
}

// Counted tells which part of a change the stored usage of the account
// contains.
type Counted int

const (
	WithNewSize    Counted = iota // the cluster is stored with its new size
	WithFormerSize                // the cluster is stored with its former size
	NotCounted                    // the cluster is not stored
)

// quota checks the limits of the cluster's account with a number of additional
// nodes. The stored usage does not contain their cores and memory yet.
// ACCOUNT_LIMIT names the limit.
func (s *Checker) quota(ctx context.Context, c *cluster.Cluster, nodes, grown int, stored Counted) error {
	if s.options.Directory == nil {
		return nil
	}
	limits, err := s.options.Directory.Limits(ctx, c.Owner)
	if err != nil {
		return err
	}
	usage, err := s.options.Store.Usage(ctx, c.Owner)
	if err != nil {
		return err
	}
	if stored == WithFormerSize {
		usage.Nodes += grown
	}
	if have := c.NodeCount + c.ControlCount - nodes; c.Started && have > 0 {
		usage.Cores += nodes * c.Cores / have
		usage.MemoryMB += nodes * c.MemoryMB / have
	}
	if stored == NotCounted {
		usage.Clusters++
		usage.Nodes += c.NodeCount + c.ControlCount
		usage.Cores += c.Cores
		usage.MemoryMB += c.MemoryMB
	}
	for _, l := range []struct {
		name       string
		used, most int
	}{
		{"clusters", usage.Clusters, limits.Clusters}, {"nodes", usage.Nodes, limits.Nodes}, {"cores", usage.Cores, limits.Cores},
		{"memory in MB", usage.MemoryMB, limits.MemoryMB}, {"workers of one cluster", c.NodeCount, limits.Size},
	} {
		if l.most > 0 && l.used > l.most {
			return cluster.AccountLimit.Errorf("the account would have %d %s, its limit is %d", l.used, l.name, l.most).With("limit", l.name)
		}
	}
	return nil
}

// Refusal returns the fault of the first finding with a code; nil if there is
// none.
func Refusal(found []cluster.Finding) error {
	for _, f := range found {
		if kind, ok := fault.Lookup(string(f.Code)); ok {
			return kind.Errorf("%s", f.Evidence).With("resource", f.Resource)
		}
	}
	return nil
}
