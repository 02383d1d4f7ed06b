package service

import (
	"context"

	"github.com/pawl-dev/pawl/cluster"
)

// zoneInventory is where a provider has clusters: zones, and the networks in them.
type zoneInventory map[string]networks

// networks are ids, and the clusters (uuids) whose they are.
type networks map[string]string

func (l zoneInventory) enter(c *cluster.Cluster) {
	if l[c.Zone.ID] == nil {
		l[c.Zone.ID] = networks{}
	}
	if c.Network.ID != "" {
		l[c.Zone.ID][c.Network.ID] = c.UUID
	}
}

// recordedInventory finds where a provider has clusters.
func (s *Service) recordedInventory(ctx context.Context, provider string) (zoneInventory, error) {
	found := zoneInventory{}
	err := s.options.Records.Scan(ctx, cluster.ScanQuery{Provider: provider, ClustersOnly: true}, func(b *cluster.Record) error {
		found.enter(&b.Cluster)
		return nil
	})
	return found, err
}

func (b *background) inventoryOf(provider string) (zoneInventory, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found, known := b.lands[provider]
	return found, known
}

func (b *background) putInventory(provider string, found zoneInventory) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lands == nil {
		b.lands = map[string]zoneInventory{}
	}
	b.lands[provider] = found
}

// foreignShare is how many VMs a zone shows that are ours, and that are not. A list
// that shows all of them says who is in our networks, and costs the pages of
// both: so where most are others', only one pass in crowdedLook asks for it.
type foreignShare struct {
	ours, others int
	since        int // passes that did not ask
}

const (
	crowdedMore = 1000 // VMs of others that are always borne: two pages
	crowdedLook = 20   // ten minutes
)

// look decides for the next pass, and counts it.
func (c *foreignShare) look() bool {
	if c.others > c.ours+crowdedMore && c.since+1 < crowdedLook {
		c.since++
		return false
	}
	c.since = 0
	return true
}

// foreignShareOf is in the hands of one pass at a time.
func (b *background) foreignShareOf(provider, zone string) *foreignShare {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.crowds == nil {
		b.crowds = map[[2]string]*foreignShare{}
	}
	key := [2]string{provider, zone}
	if b.crowds[key] == nil {
		b.crowds[key] = &foreignShare{}
	}
	return b.crowds[key]
}
