package clusters

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

// excludeProcesses moves data and roles away from marked groups, all at once, as far as what remains can
// take them.
func excludeProcesses(p *pass) decision {
	if p.silent() || !p.cluster.Status.Configured {
		return decision{}
	}
	chosen, left, why := p.excludable()
	if len(chosen) == 0 {
		if left == 0 {
			return decision{}
		}
		return later(replaceAgain, "ExclusionBudget", "%d marked groups wait for their exclusion: %s", left, why)
	}
	if v := p.open(fdb.GateExclude); !v.Open {
		return closed(v, upgradeAgain)
	}
	if p.global() {
		return p.excludeTogether(chosen, left, why)
	}
	ids := groupIDs(chosen)
	leads := p.coordinate(ids)
	if leads {
		if v := p.open(fdb.GateCoordinators); !v.Open {
			return closed(v, upgradeAgain)
		}
	}
	var targets []string
	for _, g := range chosen {
		targets = append(targets, p.exclusionTargets(g)...)
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

// exclude excludes groups, which may be those of other operators. Whether it was done the next status tells.
func (p *pass) exclude(ctx context.Context, ids, targets []string, leads bool) outcome.Outcome {
	if out := outcome.Fail(p.save(ctx)); out.IsFail() {
		return out
	}
	if slices.ContainsFunc(ids, p.startsRecovery) {
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

// startsRecovery reports whether the database recruits others when a group is excluded, which is a recovery: its class is one
// of the transaction system, or its servers have such a role, as storage servers do where there are no better ones.
func (p *pass) startsRecovery(id string) bool {
	if g, err := fdb.ParseGroupID(id); err != nil || g.Class.Transaction() {
		return true
	}
	return slices.ContainsFunc(p.status.Cluster.Processes, func(process fdb.Process) bool {
		return process.Locality[fdb.InstanceLocality] == id && (process.Roles == nil || slices.ContainsFunc(process.Roles, func(r fdb.Role) bool {
			return r.Role != "storage" && r.Role != "coordinator"
		}))
	})
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
			switch g := p.group(v1beta2.ProcessGroupID(id)); {
			case g != nil:
				targets = append(targets, p.exclusionTargets(g)...)
			case foundationdb.UsesLocalities(p.cluster):
				targets = append(targets, fdb.LocalityPrefix+fdb.InstanceLocality+":"+id)
			default:
				targets = append(targets, addresses[id]...)
			}
		}
		leads := p.coordinate(groups)
		if leads {
			if v := p.open(fdb.GateCoordinators); !v.Open {
				return closed(v, upgradeAgain).Outcome
			}
		}
		return p.exclude(ctx, groups, targets, leads)
	}))
}

// excludable returns the groups to exclude now, how many marked ones have to wait, and why.
func (p *pass) excludable() (chosen []*v1beta2.ProcessGroupStatus, left int, why string) {
	type count struct {
		candidates     []*v1beta2.ProcessGroupStatus
		valid, ongoing int
		young          bool
	}
	counts := map[fdb.Class]*count{}
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		class := classOf(g)
		if class == fdb.ClassTest {
			continue
		}
		c := counts[class]
		if c == nil {
			c = &count{}
			counts[class] = c
		}
		silent := g.Has(v1beta2.MissingProcesses)
		excluded := p.excludedInDatabase(g)
		if silent && !g.Marked() && !g.Lasts(v1beta2.MissingProcesses, youngestFault, p.now) {
			c.young = true
		}
		if !silent && !g.Excluded() {
			c.valid++
		}
		switch {
		case !g.Marked() || g.Excluded():
		case excluded:
			if p.hasRoles(g) {
				c.ongoing++
			}
		case len(p.exclusionTargets(g)) == 0: // no exclusion can name it yet
		default:
			c.candidates = append(c.candidates, g)
		}
	}
	desired := foundationdb.Groups(p.cluster.Spec)
	tolerance := fdb.Redundancy(p.cluster.Spec.DatabaseConfiguration.RedundancyMode).FaultTolerance()
	if p.limits.NoExclusionSpare {
		tolerance = 0
	}
	blocked := false
	for _, class := range slices.Sorted(maps.Keys(counts)) {
		c := counts[class]
		if len(c.candidates) == 0 {
			continue
		}
		allowed := fdb.ExclusionBudget(c.valid, max(0, desired[class]), c.ongoing, tolerance)
		if c.young {
			allowed = 0
			why = "a group of class " + string(class) + " is silent since a moment ago"
		}
		if allowed == 0 && class.Transaction() {
			blocked = true
		}
		if allowed < len(c.candidates) && why == "" {
			why = strconv.Itoa(c.valid) + " groups of class " + string(class) + " serve, " + strconv.Itoa(max(0, desired[class])) + " are desired, " + strconv.Itoa(c.ongoing) + " are being drained"
		}
		n := min(allowed, len(c.candidates))
		chosen, left = append(chosen, c.candidates[:n]...), left+len(c.candidates)-n
	}
	if blocked { // one recovery is to do for all
		return nil, left + len(chosen), why
	}
	return chosen, left, why
}

// excludedInDatabase reports whether every server of a group that reports is excluded; of a silent group,
// whether the database has its exclusion.
func (p *pass) excludedInDatabase(g *v1beta2.ProcessGroupStatus) bool {
	if reports := p.processes[g.ProcessGroupID]; len(reports) > 0 {
		return !slices.ContainsFunc(reports, func(process *fdb.Process) bool { return !yes(process.Excluded) })
	}
	have := p.exclusions()
	targets := p.exclusionTargets(g)
	for _, target := range targets {
		if !slices.Contains(have, target) {
			return false
		}
	}
	return len(targets) > 0
}

// hasRoles reports whether a server of a group has or may have a role.
func (p *pass) hasRoles(g *v1beta2.ProcessGroupStatus) bool {
	return slices.ContainsFunc(p.processes[g.ProcessGroupID], func(process *fdb.Process) bool { return process.Roles == nil || len(process.Roles) > 0 })
}

// exclusionTargets name a group for exclude: its locality where the version knows localities; else its
// addresses, with ports where another group has the same IP.
func (p *pass) exclusionTargets(g *v1beta2.ProcessGroupStatus) []string {
	if foundationdb.UsesLocalities(p.cluster) {
		return []string{fdb.LocalityPrefix + fdb.InstanceLocality + ":" + string(g.ProcessGroupID)}
	}
	return p.addressTargets(g)
}

// addressTargets are the IPs of a group, each with the ports of its servers if others share it.
func (p *pass) addressTargets(g *v1beta2.ProcessGroupStatus) []string {
	var targets []string
	for _, ip := range g.Addresses {
		if !p.shared(ip, g.ProcessGroupID) {
			targets = append(targets, ip)
			continue
		}
		servers := 1
		if pod := p.member(g.ProcessGroupID).pod; pod != nil {
			servers = foundationdb.ServersIn(pod)
		}
		for n := 1; n <= servers; n++ {
			for _, a := range fdb.AddressesOf(ip, fdb.Required(p.cluster.Status.RequiredAddresses), n) {
				targets = append(targets, a.WithoutFlags())
			}
		}
	}
	return targets
}

// shared reports whether an IP is also that of another group, or of a process that is none of ours.
func (p *pass) shared(ip string, id v1beta2.ProcessGroupID) bool {
	for other, g := range p.ours {
		if other != id && slices.Contains(g.Addresses, ip) {
			return true
		}
	}
	return slices.ContainsFunc(p.status.Cluster.Processes, func(process fdb.Process) bool {
		return process.Address.Host == ip && process.Locality[fdb.InstanceLocality] != string(id)
	})
}

// excludedBy are the entries of the database's exclusions that stand for a group.
func (p *pass) excludedBy(g *v1beta2.ProcessGroupStatus) []string {
	var found []string
	for _, e := range p.exclusions() {
		if id, ok := cutLocality(e); ok {
			if id == g.ProcessGroupID {
				found = append(found, e)
			}
			continue
		}
		host := e
		if a, err := netip.ParseAddrPort(e); err == nil {
			host = a.Addr().String()
		}
		if slices.Contains(g.Addresses, strings.Trim(host, "[]")) && !p.shared(host, g.ProcessGroupID) {
			found = append(found, e)
		}
	}
	return found
}
