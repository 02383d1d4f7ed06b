package clusters

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/locks"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/removal"
	"github.com/pawl-dev/pawl/outcome"
)

// excludeProcesses moves data and roles away from marked groups, all at once, as far as what remains can
// take them.
func excludeProcesses(p *pass) decision {
	if p.silent() || !p.cluster.Status.Configured {
		return decision{}
	}
	chosen, left, why := p.exclusions().Excludable(p.limits)
	if len(chosen) == 0 {
		if left == 0 {
			return decision{}
		}
		return later(replaceAgain, "ExclusionBudget", "%d marked groups wait for their exclusion: %s", left, why)
	}
	if v := p.open(fdb.GateExclude); !v.Open {
		return closed(v, upgradeAgain)
	}
	if locks.Global(p.cluster) {
		return p.excludeTogether(chosen, left, why)
	}
	ids := groupIDs(chosen)
	leads := p.servers().Coordinate(ids)
	if leads {
		if v := p.open(fdb.GateCoordinators); !v.Open {
			return closed(v, upgradeAgain)
		}
	}
	var targets []string
	for _, g := range chosen {
		targets = append(targets, p.exclusions().Targets(g)...)
	}
	out := outcome.Done()
	if left > 0 {
		out = outcome.Later(replaceAgain, "ExclusionBudget", "%d more marked groups wait for their exclusion: %s", left, why)
	}
	return acts(out, locked(act{
		Name: "exclude", Targets: targets,
		Assume: func(p *pass) { p.noteExcluded(ids, leads) },
		Do:     func(ctx context.Context, p *pass) outcome.Outcome { return p.exclude(ctx, ids, targets, leads) },
	}))
}

// exclusions are those of the database.
func (p *pass) exclusions() removal.Exclusions {
	return removal.Exclusions{Servers: p.servers()}
}

// exclude excludes groups, which may be those of other operators. Whether it was done the next status tells.
func (p *pass) exclude(ctx context.Context, ids, targets []string, leads bool) outcome.Outcome {
	if out := outcome.Fail(p.save(ctx)); out.IsFail() {
		return out
	}
	if slices.ContainsFunc(ids, p.servers().StartsRecovery) {
		p.disturb("exclusion")
	}
	result := p.run(ctx, fdb.Exclude(targets, true))
	if result.Outcome != fdb.Ok {
		return outcome.Later(lockAgain, reasonOf(result), "exclude %s: %s", some(targets), result)
	}
	p.event("Excluded", "%s: marked for removal", some(targets))
	p.noteExcluded(ids, leads)
	return outcome.Done()
}

// noteExcluded has the servers of groups excluded in what was read.
func (p *pass) noteExcluded(ids []string, leads bool) {
	excluded := make(map[string]bool, len(ids))
	for _, id := range ids {
		excluded[id] = true
	}
	for i := range p.status.Cluster.Processes {
		if process := &p.status.Cluster.Processes[i]; excluded[process.Locality[fdb.InstanceLocality]] {
			process.Excluded = new(true)
		}
	}
	p.leaving = p.leaving || leads
}

// excludeTogether moves data and roles away from the marked groups of all operators that are ready.
func (p *pass) excludeTogether(chosen []*v1beta2.ProcessGroupStatus, left int, why string) decision {
	out := outcome.Done()
	if left > 0 {
		out = outcome.Later(replaceAgain, "ExclusionBudget", "%d more marked groups wait for their exclusion: %s", left, why)
	}
	return acts(out, p.together(fdb.Exclusion, "exclude", groupIDs(chosen), func(ctx context.Context, p *pass, groups []string, addresses map[string][]string) outcome.Outcome {
		var targets []string
		for _, id := range groups {
			switch g := p.ours[v1beta2.ProcessGroupID(id)]; {
			case g != nil:
				targets = append(targets, p.exclusions().Targets(g)...)
			case foundationdb.UsesLocalities(p.cluster):
				targets = append(targets, fdb.LocalityPrefix+fdb.InstanceLocality+":"+id)
			default:
				targets = append(targets, addresses[id]...)
			}
		}
		leads := p.servers().Coordinate(groups)
		if leads {
			if v := p.open(fdb.GateCoordinators); !v.Open {
				return closed(v, upgradeAgain).Outcome
			}
		}
		return p.exclude(ctx, groups, targets, leads)
	}))
}
