package kube

import (
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
)

var _ postgres.LeaseWitness = &Grants{}

// Sighting implements postgres.LeaseWitness.
func (g *Grants) Sighting(now time.Time) (postgres.Sighting, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return postgres.Sighting{Lease: g.last, Age: postgres.Duration(now.Sub(g.from))}, g.last != ""
}

// Believe implements postgres.LeaseWitness.
func (g *Grants) Believe(s postgres.Sighting, now time.Time) {
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
