package clusters

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/locks"
	"github.com/pawl-dev/pawl/outcome"
)

const (
	reasonLock = "LockNotHeld"
	// reasonOthers is the reason of what waits for the operators of the other objects of a database.
	reasonOthers = "WaitsForOthers"
)

// locks is what this pass shares with the other operators of the database.
func (p *pass) locks() locks.Client {
	return locks.Client{Database: p.database, Cluster: p.cluster, Now: p.now}
}

// locked returns an act that takes the lock right before it begins. Not granted, it does nothing.
func locked(a act) act {
	do := a.Do
	a.Do = func(ctx context.Context, p *pass) outcome.Outcome {
		if out := p.take(ctx); !out.IsDone() {
			return out
		}
		return do(ctx, p)
	}
	return a
}

// take takes the lock, or extends it, once in a pass, and again once half of its time is over. What a former
// pass was granted does not count: another operator may have denied this one, or its clock may have let it
// take the lock.
func (p *pass) take(ctx context.Context) outcome.Outcome {
	if !locks.Used(p.cluster) || !p.lock.RenewalDue(p.options.Now()) {
		return outcome.Done()
	}
	p.memory.lockMayBeOurs = true
	d, result := p.locks().Take(ctx, p.options.Now)
	if result.Outcome != fdb.Ok { // whether it was written is not known: the next try finds its own record
		p.lock = lock.Decision{}
		if !p.cluster.Status.Health.Available { // the lock is kept in it
			return outcome.Later(lockAgain, reasonLock, "the lock cannot be taken in a database that is not available: %s; if no other operator works on it, spec.lockOptions.disableLocks: true does without", result)
		}
		return outcome.Later(lockAgain, reasonLock, "the lock could not be taken: %s", result)
	}
	p.lock = d
	switch {
	case d.Granted:
		return outcome.Done()
	case d.Err != nil:
		return outcome.Later(lockAgain, lock.Unreadable.Reason(), "%v", d.Err)
	case d.Record != nil && !d.Denied: // until when changes all the time
		return outcome.Later(lockAgain, reasonLock, "%s holds the lock", d.Record.Owner)
	}
	return d.Outcome(lockAgain)
}

// releaseLock gives back the lock of a cluster that is as it should be.
func releaseLock(ctx context.Context, p *pass) outcome.Outcome {
	if p.locks().Release(ctx, p.options.Now).Outcome == fdb.Ok {
		p.memory.lockMayBeOurs, p.lock = false, lock.Decision{}
	}
	return outcome.Done() // it ends by itself
}

// pending are the groups of the cluster that something is to be done with.
func (p *pass) pending() map[fdb.Action][]string {
	terminating := time.Duration(*p.cluster.Spec.AutomationOptions.IgnoreTerminatingPodsSeconds) * time.Second
	found := map[fdb.Action][]string{}
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		id := string(g.ProcessGroupID)
		switch {
		case classOf(g) == fdb.ClassTest:
		case g.Marked():
			found[fdb.Removal] = append(found[fdb.Removal], id)
			if !g.Excluded() && !p.exclusions().Holds(g) {
				found[fdb.Exclusion] = append(found[fdb.Exclusion], id)
			}
			if !g.Lasts(v1beta2.ResourcesTerminating, terminating, p.now) { // what does not go must not keep others from being included
				found[fdb.Inclusion] = append(found[fdb.Inclusion], id)
			}
		case g.Has(v1beta2.IncorrectCommandLine) && !g.Has(v1beta2.IncorrectPodSpec) && !foundationdb.IgnoredAtRestart(*g, p.cluster.Spec, p.now):
			found[fdb.Restart] = append(found[fdb.Restart], id)
		}
	}
	if held := p.owner.Holds(); held != nil && !p.approved { // what is held here is not waited for elsewhere
		for a, link := range map[fdb.Action]string{fdb.Exclusion: "ExcludeProcesses", fdb.Inclusion: "RemoveProcessGroups", fdb.Restart: "BounceProcesses"} {
			if held(link) {
				delete(found, a)
			}
		}
	}
	return found
}

// synchronising is the act of telling the other operators what is to be done with the groups of the cluster. There
// is none where they know it: then nothing is read either.
func (p *pass) synchronising() []act {
	told := p.memory.told
	var pending map[fdb.Action][]string
	switch {
	case locks.Global(p.cluster):
		pending = p.pending()
	case !locks.Synchronises(p.cluster) || len(told) == 0: // what was told is withdrawn when the mode becomes local
		return nil
	}
	if told != nil && maps.EqualFunc(told, pending, slices.Equal) {
		return nil
	}
	var groups []string
	for _, a := range locks.PendingActions {
		for _, id := range pending[a] {
			if !slices.Contains(groups, id) {
				groups = append(groups, id)
			}
		}
	}
	return []act{{
		Name: "tell the other operators about", Targets: groups,
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			result := p.locks().Tell(ctx, pending, func(id string) []string { return p.ours[v1beta2.ProcessGroupID(id)].Addresses })
			if result.Outcome != fdb.Ok {
				p.memory.told = nil
				return outcome.Later(startAgain, reasonOf(result), "the lists of the other operators could not be written: %s", result)
			}
			p.memory.told = map[fdb.Action][]string{}
			maps.Copy(p.memory.told, pending)
			return outcome.Done()
		},
	}}
}

// together is the act of doing something with the groups of all operators that are ready for it, once the lists say
// so. Until then it only tells that those of the cluster are.
func (p *pass) together(a fdb.Action, name string, ready []string, run func(ctx context.Context, p *pass, groups []string, addresses map[string][]string) outcome.Outcome) act {
	return act{
		Name: name + ", together with the groups of the other operators", Targets: ready,
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			if _, out := p.agree(ctx, a, ready, false); !out.IsDone() {
				// The others may need it to become ready; but the status does not know for a minute of a pod that is
				// being made anew, and another operator would make one anew in its own zone.
				if unsettled, _ := p.servers().Unsettled(); unsettled == "" && p.memory.lockMayBeOurs {
					releaseLock(ctx, p)
				}
				return out
			}
			if out := p.take(ctx); !out.IsDone() {
				return out
			}
			agreed, out := p.agree(ctx, a, ready, true) // what was read without the lock may be old
			if !out.IsDone() {
				return out
			}
			return run(ctx, p, agreed.Groups, agreed.Addresses)
		},
	}
}

// agree enters the groups that are ready into the list, and finds out whether it is time.
func (p *pass) agree(ctx context.Context, a fdb.Action, ready []string, begin bool) (locks.Agreed, outcome.Outcome) {
	agreed, result := p.locks().Agree(ctx, a, ready, p.limits.WithDefaults().GlobalSynchronizationWait, begin)
	switch {
	case result.Outcome != fdb.Ok:
		return agreed, outcome.Later(lockAgain, reasonOf(result), "the lists of the other operators could not be read: %s", result)
	case len(agreed.Late) > 0 && !agreed.Going:
		return agreed, outcome.Later(lockAgain, reasonOthers, "%s are not ready", some(agreed.Late))
	case !agreed.Going:
		return agreed, outcome.Later(lockAgain, reasonOthers, "the lists of the operators have changed a moment ago")
	}
	return agreed, outcome.Done()
}
