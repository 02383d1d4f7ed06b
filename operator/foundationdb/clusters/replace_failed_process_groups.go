package clusters

import (
	"github.com/pawl-dev/pawl/fdb"
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
