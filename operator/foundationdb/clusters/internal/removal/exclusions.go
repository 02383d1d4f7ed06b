package removal

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/servers"
)

const neverScheduled = time.Hour // after which a pod without an address was never in the database

// Exclusions are what a database excludes of the groups of a cluster.
type Exclusions struct{ servers.Servers }

// All are what the database excludes: localities and addresses.
func (x Exclusions) All() []string {
	if x.Status == nil || x.Status.Cluster.Configuration == nil {
		return nil
	}
	var found []string
	for _, e := range x.Status.Cluster.Configuration.ExcludedServers {
		if e.Locality != "" {
			found = append(found, e.Locality)
		}
		if e.Address != "" {
			found = append(found, e.Address)
		}
	}
	return found
}

// GroupOf returns the group that an exclusion names by its locality.
func GroupOf(exclusion string) (v1beta2.ProcessGroupID, bool) {
	id, ok := strings.CutPrefix(exclusion, fdb.LocalityPrefix+fdb.InstanceLocality+":")
	return v1beta2.ProcessGroupID(id), ok
}

// Holds reports whether every server of a group that reports is excluded; of a silent group,
// whether the database has its exclusion.
func (x Exclusions) Holds(g *v1beta2.ProcessGroupStatus) bool {
	if reports := x.Processes[g.ProcessGroupID]; len(reports) > 0 {
		return !slices.ContainsFunc(reports, func(process *fdb.Process) bool { return process.Excluded == nil || !*process.Excluded })
	}
	have := x.All()
	targets := x.Targets(g)
	for _, target := range targets {
		if !slices.Contains(have, target) {
			return false
		}
	}
	return len(targets) > 0
}

// Targets name a group for exclude: its locality where the version knows localities; else its
// addresses, with ports where another group has the same IP.
func (x Exclusions) Targets(g *v1beta2.ProcessGroupStatus) []string {
	if foundationdb.UsesLocalities(x.Cluster) {
		return []string{fdb.LocalityPrefix + fdb.InstanceLocality + ":" + string(g.ProcessGroupID)}
	}
	return x.addressTargets(g)
}

// addressTargets are the IPs of a group, each with the ports of its servers if others share it.
func (x Exclusions) addressTargets(g *v1beta2.ProcessGroupStatus) []string {
	var targets []string
	for _, ip := range g.Addresses {
		if !x.shared(ip, g.ProcessGroupID) {
			targets = append(targets, ip)
			continue
		}
		servers := 1
		if pod := x.Pod(g.ProcessGroupID); pod != nil {
			servers = foundationdb.ServersIn(pod)
		}
		for n := 1; n <= servers; n++ {
			for _, a := range fdb.AddressesOf(ip, fdb.Required(x.Cluster.Status.RequiredAddresses), n) {
				targets = append(targets, a.WithoutFlags())
			}
		}
	}
	return targets
}

// shared reports whether an IP is also that of another group, or of a process that is none of ours.
func (x Exclusions) shared(ip string, id v1beta2.ProcessGroupID) bool {
	for i := range x.Cluster.Status.ProcessGroups {
		if g := &x.Cluster.Status.ProcessGroups[i]; g.ProcessGroupID != id && slices.Contains(g.Addresses, ip) {
			return true
		}
	}
	return slices.ContainsFunc(x.Status.Cluster.Processes, func(process fdb.Process) bool {
		return process.Address.Host == ip && process.Locality[fdb.InstanceLocality] != string(id)
	})
}

// by are the entries of the database's exclusions that stand for a groux.
func (x Exclusions) by(g *v1beta2.ProcessGroupStatus) []string {
	var found []string
	for _, e := range x.All() {
		if id, ok := GroupOf(e); ok {
			if id == g.ProcessGroupID {
				found = append(found, e)
			}
			continue
		}
		if host := hostOf(e); slices.Contains(g.Addresses, strings.Trim(host, "[]")) && !x.shared(host, g.ProcessGroupID) {
			found = append(found, e)
		}
	}
	return found
}

// hostOf is the address of an exclusion without its port.
func hostOf(exclusion string) string {
	if a, err := netip.ParseAddrPort(exclusion); err == nil {
		return a.Addr().String()
	}
	return exclusion
}

// Of are the entries of the database's exclusions that stand for groups of any operator, as their lists
// tell their addresses. An address that a process reports, or that is another group's, stays.
func (x Exclusions) Of(groups []string, addresses map[string][]string) []string {
	var found []string
	for _, e := range x.All() {
		if id, ok := GroupOf(e); ok {
			if slices.Contains(groups, string(id)) {
				found = append(found, e)
			}
			continue
		}
		host := strings.Trim(hostOf(e), "[]")
		for _, group := range groups {
			if slices.Contains(addresses[group], host) && !x.shared(host, v1beta2.ProcessGroupID(group)) {
				found = append(found, e)
				break
			}
		}
	}
	return found
}

// ToInclude are the exclusions of groups that are gone. shared: other operators include too.
func (x Exclusions) ToInclude(gone []*v1beta2.ProcessGroupStatus, shared bool) []string {
	var targets []string
	for _, g := range gone {
		targets = append(targets, x.toInclude(g, shared)...)
	}
	return targets
}

// toInclude are the exclusions of a group: those that the status shows, and those by which the group was excluded and
// proved to be free, which a partial status may not show.
func (x Exclusions) toInclude(g *v1beta2.ProcessGroupStatus, shared bool) []string {
	targets := x.by(g)
	if g.ExclusionTimestamp == nil || g.ExclusionSkipped {
		return targets
	}
	if live := x.Status.Cluster.Configuration; shared && live != nil && live.ExcludedServers != nil {
		return targets // another operator may have included it
	}
	used := x.Targets(g)
	for _, ip := range g.Addresses {
		if !x.shared(ip, g.ProcessGroupID) {
			used = append(used, ip)
		}
	}
	for _, target := range used {
		if !slices.Contains(targets, target) {
			targets = append(targets, target)
		}
	}
	return targets
}

// Left are the entries of the database's exclusions that name groups of this cluster of which nothing is
// there, not even children: an operator that was frozen has excluded what another one had removed.
func (x Exclusions) Left(children func(v1beta2.ProcessGroupID) bool) []string {
	prefix := x.Cluster.Spec.ProcessGroupIDPrefix
	if foundationdb.UsesLocks(x.Cluster.Spec) && prefix == "" {
		return nil // they may be those of another operator
	}
	excluded := x.All()
	if len(excluded) == 0 {
		return nil
	}
	there := map[v1beta2.ProcessGroupID]bool{}
	for i := range x.Cluster.Status.ProcessGroups {
		there[x.Cluster.Status.ProcessGroups[i].ProcessGroupID] = true
	}
	var left []string
	for _, e := range excluded {
		id, ok := GroupOf(e)
		if !ok || there[id] || children(id) || len(x.Processes[id]) > 0 {
			continue
		}
		if parsed, err := fdb.ParseGroupID(string(id)); err == nil && parsed.Prefix == prefix {
			left = append(left, e)
		}
	}
	return left
}

// KnownBy is everything that a group is known by, as fdb.Removable reads it.
func (x Exclusions) KnownBy(g *v1beta2.ProcessGroupStatus) string {
	var parts []string
	if foundationdb.UsesLocalities(x.Cluster) {
		parts = append(parts, fdb.LocalityPrefix+fdb.InstanceLocality+":"+string(g.ProcessGroupID))
	}
	parts = append(parts, x.addressTargets(g)...)
	if pod := x.Pod(g.ProcessGroupID); pod != nil {
		if name := foundationdb.DNSNameOf(x.Cluster, g.ProcessGroupID); name != "" {
			for n := 1; n <= foundationdb.ServersIn(pod); n++ {
				for _, a := range fdb.AddressesOf(name, fdb.Required(x.Cluster.Status.RequiredAddresses), n) {
					parts = append(parts, a.WithoutFlags())
				}
			}
		}
	}
	return strings.Join(parts, ",")
}

// NeverInDatabase reports whether a group has been pending for so long without an address that nothing of
// the database can be on it.
func (x Exclusions) NeverInDatabase(g *v1beta2.ProcessGroupStatus) bool {
	return len(g.Addresses) == 0 && len(x.Processes[g.ProcessGroupID]) == 0 && g.Lasts(v1beta2.PodPending, neverScheduled, x.Now)
}
