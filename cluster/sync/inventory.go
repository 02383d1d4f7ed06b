package sync

import (
	"context"

	"github.com/pawl-dev/pawl/cluster"
)

// zoneInventory has the zones in which a provider has clusters, and their
// networks.
type zoneInventory map[string]networks

// networks maps network ids to the uuids of their clusters.
type networks map[string]string

func (l zoneInventory) add(c *cluster.Cluster) {
	if l[c.Zone.ID] == nil {
		l[c.Zone.ID] = networks{}
	}
	if c.Network.ID != "" {
		l[c.Zone.ID][c.Network.ID] = c.UUID
	}
}

// recordedInventory reads the zoneInventory of a provider from the records.
func (s *Synchronizer) recordedInventory(ctx context.Context, provider string) (zoneInventory, error) {
	found := zoneInventory{}
	err := s.options.Store.Scan(ctx, cluster.ScanQuery{Provider: provider, ClustersOnly: true}, func(b *cluster.Record) error {
		found.add(&b.Cluster)
		return nil
	})
	return found, err
}

func (s *Synchronizer) inventoryOf(provider string) (zoneInventory, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, known := s.inventories[provider]
	return found, known
}

func (s *Synchronizer) putInventory(provider string, found zoneInventory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inventories == nil {
		s.inventories = map[string]zoneInventory{}
	}
	s.inventories[provider] = found
}

// foreignShare counts the VMs of a zone that belong to this installation and
// those that do not. Only a list of all VMs finds foreign VMs in networks of our
// clusters, but it costs more pages. Where most VMs are foreign, only one pass
// in foreignListEvery lists all.
type foreignShare struct {
	ours, foreign int
	skipped       int // passes without a list of all VMs
}

const (
	foreignAllowance = 1000 // foreign VMs beyond our own that are always listed: two pages
	foreignListEvery = 20   // passes: ten minutes
)

// listForeign decides whether the next pass lists foreign VMs, and counts it.
func (c *foreignShare) listForeign() bool {
	if c.foreign > c.ours+foreignAllowance && c.skipped+1 < foreignListEvery {
		c.skipped++
		return false
	}
	c.skipped = 0
	return true
}

// foreignShareOf returns the foreignShare of a zone. Only one pass at a time may
// use it.
func (s *Synchronizer) foreignShareOf(provider, zone string) *foreignShare {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.foreignShares == nil {
		s.foreignShares = map[[2]string]*foreignShare{}
	}
	key := [2]string{provider, zone}
	if s.foreignShares[key] == nil {
		s.foreignShares[key] = &foreignShare{}
	}
	return s.foreignShares[key]
}
