package clusters

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/locks"
	"github.com/pawl-dev/pawl/outcome"
)

const (
	includeAgain  = time.Minute
	reasonRemoved = "RemovedRecently"
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
		case p.silent() && (g.ExclusionTimestamp == nil || m.Pod != nil):
		case !g.Marked() || foundationdb.Isolated(m.Pod) || foundationdb.Targets(p.cluster.Spec.Buggify.BlockRemoval, g.ProcessGroupID):
		case !g.Excluded() && classOf(g) != fdb.ClassTest && !p.exclusions().NeverInDatabase(g):
			draining = append(draining, g)
		case m.Pod == nil && m.Claim == nil && m.Service == nil:
			gone = append(gone, g)
		default:
			going = append(going, g)
		}
	}
	var left []string
	if !p.silent() {
		left = p.exclusions().Left(func(id v1beta2.ProcessGroupID) bool { return p.members[id] != nil })
	}
	if len(draining)+len(going)+len(gone)+len(left) == 0 {
		return decision{}
	}
	var list []act
	var d decision
	if len(draining) > 0 {
		if p.undisturbed().Open {
			list = append(list, proving(draining))
		}
		d = later(startAgain, "ExclusionInProgress", "%d groups are being drained", len(draining))
		if zones, needed := p.storageZones(); slices.ContainsFunc(draining, isStorage) && zones > 0 && zones < needed {
			d = later(startAgain, "TooFewZones", "%d groups are being drained, and the storage servers that stay are in %d zones, of which the data need %d: when other nodes can take pods, name one of the storage servers that share a zone in spec.processGroupsToRemove", len(draining), zones, needed)
		}
	}
	if batch, wait := p.removalBatch(going); len(batch) > 0 {
		list = append(list, locked(removing(batch)))
		d = later(upgradeAgain, "GroupsGo", "%d groups are on their way out", len(going))
	} else if !wait.Outcome.IsDone() {
		d = wait
	}
	if len(gone) > 0 {
		if v := p.open(fdb.GateInclude); v.Open || len(p.exclusions().ToInclude(gone, locks.Global(p.cluster))) == 0 {
			list = append(list, p.including(gone))
		} else {
			d = closed(v, upgradeAgain)
		}
	}
	if len(left) > 0 && len(gone) == 0 {
		if v := p.open(fdb.GateInclude); v.Open {
			list = append(list, locked(includingAgain(left)))
		} else if d.Outcome.IsDone() {
			d = closed(v, upgradeAgain)
		}
	}
	d.Acts = list
	return d
}

func isStorage(g *v1beta2.ProcessGroupStatus) bool { return classOf(g) == fdb.ClassStorage }

// storageZones are the zones of the storage servers that stay, whoever made them, and those that the data need; none where
// one of ours does not report, which may be in another zone.
func (p *pass) storageZones() (zones, needed int) {
	for i := range p.cluster.Status.ProcessGroups {
		if g := &p.cluster.Status.ProcessGroups[i]; isStorage(g) && !g.Marked() && len(p.processes[g.ProcessGroupID]) == 0 {
			return 0, 0
		}
	}
	seen := map[string]bool{}
	for _, process := range p.status.Cluster.Processes {
		if process.Class == fdb.ClassStorage && process.Excluded != nil && !*process.Excluded {
			seen[process.Locality[fdb.ZoneLocality]] = true
		}
	}
	return len(seen), fdb.Redundancy(p.cluster.Spec.DatabaseConfiguration.RedundancyMode).FaultDomains()
}

// includingAgain is the act of including what is left of removed groups.
func includingAgain(left []string) act {
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

// proving is the act of finding out which drained groups are safe to delete. The status must show it, and
// one more exclude, which waits for the data, must say so: one for all that look free, and from the next pass on
// one for each where that is not enough.
func proving(draining []*v1beta2.ProcessGroupStatus) act {
	return act{
		Name: "prove that nothing is left on", Targets: groupIDs(draining),
		Assume: func(p *pass) { p.ours.Excluded(idsOf(draining), p.now) },
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			known := map[string]v1beta2.ProcessGroupID{}
			var targets []string
			for _, g := range draining {
				text := p.exclusions().KnownBy(g)
				if text == "" || p.servers().MayAppear(g) {
					continue
				}
				known[text] = g.ProcessGroupID
				targets = append(targets, text)
			}
			var named []string
			free := without(targets, fdb.Removable(p.status, targets, p.limits, func(names []string) fdb.Result {
				named = append(named, names...)
				return fdb.Result{Outcome: fdb.Ok}
			}))
			if len(free) == 0 {
				return outcome.Done()
			}
			if out := outcome.Fail(p.save(ctx)); out.IsFail() {
				return out
			}
			if out := p.take(ctx); !out.IsDone() {
				return out
			}
			if p.memory.proofs.apart {
				free = p.provenApart(ctx, free)
			} else if result := p.run(ctx, fdb.Exclude(named, false)); result.Outcome != fdb.Ok {
				p.memory.proofs.apart = len(free) > 1
				return outcome.Later(startAgain, reasonOf(result), "exclude %s: %s", some(named), result)
			}
			var ids []v1beta2.ProcessGroupID
			for _, text := range free {
				appeared, err := p.appeared(ctx, p.ours[known[text]])
				if err != nil {
					return outcome.Fail(err)
				}
				if !appeared {
					ids = append(ids, known[text])
				}
			}
			if len(ids) == 0 {
				return outcome.Done()
			}
			p.ours.Excluded(ids, p.now)
			p.event("SafeToDelete", "%s: excluded, without roles, no coordinator, and exclude says so", some(names(ids)))
			return outcome.Fail(p.save(ctx))
		},
	}
}

// proofs remembers how far the groups are that are asked for one by one.
type proofs struct {
	apart bool
	after string // the last one that blocked; "": begin with the first
}

// provenApart asks for each target after the one that blocked the last time, and ends with the next that blocks: by
// then the status is so old that nothing may be done by it. It returns those that are free.
func (p *pass) provenApart(ctx context.Context, targets []string) []string {
	targets = targets[slices.Index(targets, p.memory.proofs.after)+1:]
	blocked := false
	left := fdb.Removable(p.status, targets, p.limits, func(names []string) fdb.Result {
		if blocked {
			return fdb.Result{Outcome: fdb.Unknown}
		}
		result := p.run(ctx, fdb.Exclude(names, false))
		blocked = result.Outcome != fdb.Ok
		return result
	})
	p.memory.proofs = proofs{} // after the last one all are asked for at once again
	if len(left) > 0 {
		p.memory.proofs = proofs{apart: true, after: left[0]}
	}
	return without(targets, left)
}

// appeared reports whether a pod of a silent group has got an address while exclude was looking for its servers at the
// others.
func (p *pass) appeared(ctx context.Context, g *v1beta2.ProcessGroupStatus) (bool, error) {
	was := p.member(g.ProcessGroupID).Pod
	if was == nil || len(p.processes[g.ProcessGroupID]) > 0 {
		return false, nil
	}
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = was.Namespace, was.Name
	if found, err := p.objects.Get(ctx, pod); err != nil || !found {
		return false, err
	}
	return slices.ContainsFunc(foundationdb.PublicIPs(pod), func(ip string) bool { return !slices.Contains(g.Addresses, ip) }), nil
}

// removalBatch chooses what goes now: what is going already, or the next batch, once the last one is long
// enough ago.
func (p *pass) removalBatch(going []*v1beta2.ProcessGroupStatus) ([]*v1beta2.ProcessGroupStatus, decision) {
	if len(going) == 0 {
		return nil, decision{}
	}
	var batch []*v1beta2.ProcessGroupStatus
	var waiting []foundationdb.RemovalGroup
	last := p.memory.removed
	for _, g := range going {
		begun, at := removalBegun(p.member(g.ProcessGroupID))
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
	if left := foundationdb.RemovalWait(last, p.now, wait); left > 0 {
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
		batch = append(batch, p.ours[v1beta2.ProcessGroupID(id)])
	}
	return batch, decision{}
}

// removalBegun reports whether a resource of a group goes or is gone already, and since when.
func removalBegun(m *member) (bool, time.Time) {
	if m.Pod != nil {
		if at := m.Pod.DeletionTimestamp; at != nil {
			return true, at.Time
		}
		return false, time.Time{}
	}
	if m.Claim != nil && m.Claim.DeletionTimestamp != nil {
		return true, m.Claim.DeletionTimestamp.Time
	}
	return true, time.Time{} // the pod is gone
}

// removing is the act of deleting what Kubernetes has of groups: the pod, then the claim, then the
// service, each when the one before it is gone.
func removing(batch []*v1beta2.ProcessGroupStatus) act {
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
				if g := p.ours[id]; !g.Excluded() { // nothing of the database was ever on it: its pod does not come back
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
	m, g := p.member(id), p.ours[id]
	evidence := "the group is excluded, has no role, and is no coordinator"
	if g.ExclusionSkipped {
		evidence = "the group was never in the database"
		if slices.Contains(p.cluster.Spec.ProcessGroupsToRemoveWithoutExclusion, id) {
			evidence = "spec.processGroupsToRemoveWithoutExclusion names the group"
		}
	}
	switch {
	case m.Pod != nil:
		if m.Pod.DeletionTimestamp != nil {
			return nil
		}
		p.memory.removed = p.now
		return p.delete(ctx, m.Pod, "Pod", evidence)
	case m.Claim != nil:
		if m.Claim.DeletionTimestamp != nil {
			return nil
		}
		return p.delete(ctx, m.Claim, "Claim", evidence+"; its pod is gone")
	case m.Service != nil && m.Service.DeletionTimestamp == nil:
		return p.delete(ctx, m.Service, "Service", evidence+"; its pod is gone")
	}
	return nil
}

// including is the act of including again what is gone, and of forgetting it.
func (p *pass) including(gone []*v1beta2.ProcessGroupStatus) act {
	ids := idsOf(gone)
	targets := p.exclusions().ToInclude(gone, locks.Global(p.cluster))
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
	case locks.Global(p.cluster):
		return p.together(fdb.Inclusion, a.Name, names(ids), func(ctx context.Context, p *pass, groups []string, addresses map[string][]string) outcome.Outcome {
			for _, target := range p.exclusions().Of(groups, addresses) {
				if !slices.Contains(targets, target) {
					targets = append(targets, target)
				}
			}
			return a.Do(ctx, p)
		})
	}
	return locked(a)
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
