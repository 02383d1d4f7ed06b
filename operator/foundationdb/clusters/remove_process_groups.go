package clusters

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

const (
	includeAgain   = time.Minute
	reasonRemoved  = "RemovedRecently"
	neverScheduled = time.Hour // after which a pod without an address was never in the database
)

// removeProcessGroups removes marked groups: first it is proved that nothing of the database is on them,
// then pod, claim and service go, and at the end what excluded them is included again. While no process of our
// data center reports, nothing is begun: only what was proved before, and has lost its pod, goes to its end, as
// the last groups of a data center do.
func removeProcessGroups(p *pass) decision {
	if p.status == nil {
		return decision{}
	}
	var draining, going, gone []*v1beta2.ProcessGroupStatus
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		m := p.member(g.ProcessGroupID)
		switch {
		case p.silent() && (g.ExclusionTimestamp == nil || m.pod != nil):
		case !g.Marked() || isolated(m.pod) || foundationdb.Targets(p.cluster.Spec.Buggify.BlockRemoval, g.ProcessGroupID):
		case !g.Excluded() && classOf(g) != fdb.ClassTest && !p.neverInDatabase(g):
			draining = append(draining, g)
		case m.pod == nil && m.claim == nil && m.service == nil:
			gone = append(gone, g)
		default:
			going = append(going, g)
		}
	}
	left := p.leftExclusions()
	if len(draining)+len(going)+len(gone)+len(left) == 0 {
		return decision{}
	}
	var list []act
	var d decision
	if len(draining) > 0 {
		if p.undisturbed().Open {
			list = append(list, p.proving(draining))
		}
		d = later(startAgain, "ExclusionInProgress", "%d groups are being drained", len(draining))
	}
	if batch, wait := p.removalBatch(going); len(batch) > 0 {
		list = append(list, locked(p.removing(batch)))
		d = later(upgradeAgain, "GroupsGo", "%d groups are on their way out", len(going))
	} else if !wait.Outcome.IsDone() {
		d = wait
	}
	if len(gone) > 0 {
		if v := p.open(fdb.GateInclude); v.Open || !p.anyExcluded(gone) {
			list = append(list, p.including(gone))
		} else {
			d = closed(v, upgradeAgain)
		}
	}
	if len(left) > 0 && len(gone) == 0 {
		if v := p.open(fdb.GateInclude); v.Open {
			list = append(list, locked(p.includingAgain(left)))
		} else if d.Outcome.IsDone() {
			d = closed(v, upgradeAgain)
		}
	}
	d.Acts = list
	return d
}

// leftExclusions are the entries of the database's exclusions that name groups of this cluster of which nothing is
// there: an operator that was frozen has excluded what another one had removed.
func (p *pass) leftExclusions() []string {
	prefix := p.cluster.Spec.ProcessGroupIDPrefix
	if p.silent() || foundationdb.UsesLocks(p.cluster.Spec) && prefix == "" {
		return nil // they may be those of another operator
	}
	var left []string
	for _, e := range p.exclusions() {
		id, ok := cutLocality(e)
		if !ok || p.ours[id] != nil || p.members[id] != nil || len(p.processes[id]) > 0 {
			continue
		}
		if parsed, err := fdb.ParseGroupID(string(id)); err == nil && parsed.Prefix == prefix {
			left = append(left, e)
		}
	}
	return left
}

// includingAgain is the act of including what is left of removed groups.
func (p *pass) includingAgain(left []string) act {
	return act{
		Name: "include what is not there", Targets: left,
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			if result := p.run(ctx, fdb.Include(left)); result.Outcome != fdb.Ok {
				return outcome.Later(includeAgain, reasonOf(result), "include %s: %s", some(left), result)
			}
			p.event("Included", "%s: nothing of it is there", some(left))
			return outcome.Done()
		},
	}
}

// isolated reports whether somebody has taken a pod out of the cluster to look at it.
func isolated(pod *corev1.Pod) bool {
	return pod != nil && pod.Annotations[foundationdb.IsolateAnnotation] == "true"
}

// neverInDatabase reports whether a group has been pending for so long without an address that nothing of
// the database can be on it.
func (p *pass) neverInDatabase(g *v1beta2.ProcessGroupStatus) bool {
	return len(g.Addresses) == 0 && len(p.processes[g.ProcessGroupID]) == 0 && g.Lasts(v1beta2.PodPending, neverScheduled, p.now)
}

// knownBy is everything that a group is known by, as fdb.Removable reads it.
func (p *pass) knownBy(g *v1beta2.ProcessGroupStatus) string {
	var parts []string
	if foundationdb.UsesLocalities(p.cluster) {
		parts = append(parts, fdb.LocalityPrefix+fdb.InstanceLocality+":"+string(g.ProcessGroupID))
	}
	parts = append(parts, p.addressTargets(g)...)
	if pod := p.member(g.ProcessGroupID).pod; pod != nil {
		if name := p.dnsName(g.ProcessGroupID); name != "" {
			for n := 1; n <= foundationdb.ServersIn(pod); n++ {
				for _, a := range fdb.AddressesOf(name, fdb.Required(p.cluster.Status.RequiredAddresses), n) {
					parts = append(parts, a.WithoutFlags())
				}
			}
		}
	}
	return strings.Join(parts, ",")
}

// concludeExclusion notes that groups are safe to delete.
func (p *pass) concludeExclusion(ids []v1beta2.ProcessGroupID) {
	for _, id := range ids {
		if g := p.group(id); g != nil {
			at := metaTime(p.now)
			g.ExclusionTimestamp = &at
		}
	}
}

// removalBatch chooses what goes now: what is going already, or the next batch, once the last one is long
// enough ago.
func (p *pass) removalBatch(going []*v1beta2.ProcessGroupStatus) ([]*v1beta2.ProcessGroupStatus, decision) {
	if len(going) == 0 {
		return nil, decision{}
	}
	var batch []*v1beta2.ProcessGroupStatus
	var waiting []foundationdb.RemovalGroup
	var last time.Time
	for _, g := range going {
		begun, at := p.removalBegun(g)
		if begun {
			batch = append(batch, g)
			if at.After(last) {
				last = at
			}
			continue
		}
		waiting = append(waiting, foundationdb.RemovalGroup{ID: string(g.ProcessGroupID), Zone: g.FaultDomain})
	}
	if len(waiting) == 0 {
		return batch, decision{}
	}
	wait := time.Duration(*p.cluster.Spec.AutomationOptions.WaitBetweenRemovalsSeconds) * time.Second
	if left := foundationdb.RemovalWait(maxTime(last, p.memory.removed), p.now, wait); left > 0 {
		d := later(left, reasonRemoved, "the last removal began less than %s ago", wait)
		d.Opens = left
		return batch, d
	}
	if v := p.tolerant(); !v.Open {
		return batch, closed(v, removalAgain)
	}
	_, ids, err := foundationdb.RemovalBatch(waiting, p.cluster.Spec.AutomationOptions.RemovalMode)
	if err != nil {
		return batch, later(0, fault.Of(err).Reason(), "%s", fault.Message(err))
	}
	for _, id := range ids {
		batch = append(batch, p.group(v1beta2.ProcessGroupID(id)))
	}
	return batch, decision{}
}

// removalBegun reports whether a resource of a group goes or is gone already, and since when.
func (p *pass) removalBegun(g *v1beta2.ProcessGroupStatus) (bool, time.Time) {
	m := p.member(g.ProcessGroupID)
	if m.pod != nil {
		if at := m.pod.DeletionTimestamp; at != nil {
			return true, at.Time
		}
		return false, time.Time{}
	}
	if m.claim != nil && m.claim.DeletionTimestamp != nil {
		return true, m.claim.DeletionTimestamp.Time
	}
	return true, time.Time{} // the pod is gone
}

// removing is the act of deleting what Kubernetes has of groups: the pod, then the claim, then the
// service, each when the one before it is gone.
func (p *pass) removing(batch []*v1beta2.ProcessGroupStatus) act {
	ids := idsOf(batch)
	return act{
		Name: "delete the resources of", Targets: names(ids),
		Assume: func(p *pass) {
			for _, id := range ids {
				p.members[id] = &member{}
			}
		},
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			for _, id := range ids {
				if g := p.group(id); !g.Excluded() { // nothing of the database was ever on it: its pod does not come back
					g.ExclusionSkipped = true
				}
			}
			if out := outcome.Fail(p.save(ctx)); out.IsFail() {
				return out
			}
			return each(ctx, ids, "NotDeleted", func(id v1beta2.ProcessGroupID) error { return p.removeNext(ctx, id) })
		},
	}
}

// removeNext deletes the next resource of a group.
func (p *pass) removeNext(ctx context.Context, id v1beta2.ProcessGroupID) error {
	m, g := p.member(id), p.group(id)
	evidence := "the group is excluded, has no role, and is no coordinator"
	if g.ExclusionSkipped {
		evidence = "the group was never in the database"
		if slices.Contains(p.cluster.Spec.ProcessGroupsToRemoveWithoutExclusion, id) {
			evidence = "spec.processGroupsToRemoveWithoutExclusion names the group"
		}
	}
	switch {
	case m.pod != nil:
		if m.pod.DeletionTimestamp != nil {
			return nil
		}
		p.memory.removed = p.now
		return p.delete(ctx, m.pod, "Pod", evidence)
	case m.claim != nil:
		if m.claim.DeletionTimestamp != nil {
			return nil
		}
		return p.delete(ctx, m.claim, "Claim", evidence+"; its pod is gone")
	case m.service != nil && m.service.DeletionTimestamp == nil:
		return p.delete(ctx, m.service, "Service", evidence+"; its pod is gone")
	}
	return nil
}

// anyExcluded reports whether the database still has an exclusion of one of the groups.
func (p *pass) anyExcluded(groups []*v1beta2.ProcessGroupStatus) bool {
	return slices.ContainsFunc(groups, func(g *v1beta2.ProcessGroupStatus) bool { return len(p.toInclude(g)) > 0 })
}

// toInclude are the exclusions of a group: those that the status shows, and that by which the group was excluded,
// which a partial status may not show.
func (p *pass) toInclude(g *v1beta2.ProcessGroupStatus) []string {
	targets := p.excludedBy(g)
	if g.ExclusionTimestamp == nil || g.ExclusionSkipped {
		return targets
	}
	if live := p.status.Cluster.Configuration; p.global() && live != nil && live.ExcludedServers != nil {
		return targets // another operator may have included it
	}
	for _, target := range p.exclusionTargets(g) {
		if !slices.Contains(targets, target) {
			targets = append(targets, target)
		}
	}
	return targets
}

// including is the act of including again what is gone, and of forgetting it.
func (p *pass) including(gone []*v1beta2.ProcessGroupStatus) act {
	ids := idsOf(gone)
	var targets []string
	for _, g := range gone {
		targets = append(targets, p.toInclude(g)...)
	}
	forget := func(p *pass) {
		p.cluster.Status.ProcessGroups = slices.DeleteFunc(p.cluster.Status.ProcessGroups, func(g v1beta2.ProcessGroupStatus) bool {
			return slices.Contains(ids, g.ProcessGroupID)
		})
		p.index()
		p.count()
	}
	a := act{
		Name: "include and forget", Targets: names(ids), Assume: forget,
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			if len(targets) > 0 {
				if result := p.run(ctx, fdb.Include(targets)); result.Outcome != fdb.Ok {
					return outcome.Later(includeAgain, reasonOf(result), "include %s: %s", some(targets), result)
				}
			}
			p.event("GroupsRemoved", "%s", some(names(ids)))
			forget(p)
			return outcome.Fail(p.save(ctx))
		},
	}
	switch {
	case len(targets) == 0: // others may have included them
		return a
	case p.global():
		return p.together(fdb.Inclusion, a.Name, names(ids), func(ctx context.Context, p *pass, groups []string, addresses map[string][]string) outcome.Outcome {
			for _, target := range p.exclusionsOf(groups, addresses) {
				if !slices.Contains(targets, target) {
					targets = append(targets, target)
				}
			}
			return a.Do(ctx, p)
		})
	}
	return locked(a)
}

// exclusionsOf are the entries of the database's exclusions that stand for groups of any operator, as their lists
// tell their addresses. An address that a process reports, or that is another group's, stays.
func (p *pass) exclusionsOf(groups []string, addresses map[string][]string) []string {
	var found []string
	for _, e := range p.exclusions() {
		if id, ok := cutLocality(e); ok {
			if slices.Contains(groups, string(id)) {
				found = append(found, e)
			}
			continue
		}
		host := e
		if a, err := netip.ParseAddrPort(e); err == nil {
			host = a.Addr().String()
		}
		host = strings.Trim(host, "[]")
		for _, group := range groups {
			if slices.Contains(addresses[group], host) && !p.shared(host, v1beta2.ProcessGroupID(group)) {
				found = append(found, e)
				break
			}
		}
	}
	return found
}

func idsOf(groups []*v1beta2.ProcessGroupStatus) []v1beta2.ProcessGroupID {
	ids := make([]v1beta2.ProcessGroupID, len(groups))
	for i, g := range groups {
		ids[i] = g.ProcessGroupID
	}
	return ids
}

func groupIDs(groups []*v1beta2.ProcessGroupStatus) []string { return names(idsOf(groups)) }

// without are the texts that are not in a list.
func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(text string) bool { return slices.Contains(some, text) })
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
