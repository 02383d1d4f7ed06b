package clusters

import (
	"slices"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

// replaceFailed marks groups that have failed for too long.
func replaceFailed(p *pass) decision {
	if !p.cluster.Status.Configured {
		return decision{}
	}
	if !p.cluster.Status.Health.Available {
		return later(upgradeAgain, fdb.DatabaseUnavailable, "nothing is replaced while the database is not available")
	}
	r := foundationdb.ReplaceFailed(p.cluster, foundationdb.ReplaceFacts{
		Available:          true,
		FullFaultTolerance: fdb.FullFaultTolerance(p.status).Open,
		Upgrading:          foundationdb.UpgradesIncompatibly(p.cluster),
		MaintenanceZone:    p.status.Cluster.MaintenanceZone,
		Waiting:            p.waiting(),
	}, p.now)
	out := outcome.Done()
	if r.More {
		out = outcome.Later(replaceAgain, "ReplacementBudget", "more groups have failed than may be replaced at once")
	}
	if len(r.Marked) == 0 {
		return decision{Outcome: out}
	}
	return acts(out, marking("replace failed group", r.Marked, r.Skipped))
}

// waiting are the marked groups that serve and whose exclusion cannot begin before others take the place of those of their
// class that do not.
func (p *pass) waiting() (ids []v1beta2.ProcessGroupID) {
	missing := func(g v1beta2.ProcessGroupStatus) bool { return g.Has(v1beta2.MissingProcesses) }
	if p.silent() || !slices.ContainsFunc(p.cluster.Status.ProcessGroups, missing) {
		return nil
	}
	if chosen, left, _ := p.exclusions().Excludable(p.limits); len(chosen) > 0 || left == 0 {
		return nil
	}
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		if g.Marked() && !g.Excluded() && !g.Has(v1beta2.MissingProcesses) && !p.exclusions().Holds(g) {
			ids = append(ids, g.ProcessGroupID)
		}
	}
	return ids
}
