package kube

import (
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

var _ lease.Witness = &Grants{}

// Sighting implements lease.Witness.
func (g *Grants) Sighting(now time.Time) (lease.Sighting, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return lease.Sighting{Lease: g.last, Age: host.Duration(now.Sub(g.from))}, g.last != ""
}

// Believe implements lease.Witness.
func (g *Grants) Believe(s lease.Sighting, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used()
	g.told, g.toldFrom = s.Lease, now.Add(-time.Duration(s.Age))
	if g.toldFrom.Before(g.born) {
		g.toldFrom = g.born
	}
	g.settle()
}

// used notes the first use. The caller holds g.mu.
func (g *Grants) used() {
	if g.born.IsZero() {
		g.born = time.Now()
	}
}

// settle lets the last read renewal count from the earlier of the two sightings. The caller holds
// g.mu.
func (g *Grants) settle() {
	if g.told != "" && g.told == g.last && g.toldFrom.Before(g.from) {
		g.from = g.toldFrom
	}
}
