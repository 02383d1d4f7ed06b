package clusters

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

// reasonOthers is the reason of what waits for the operators of the other objects of a database.
const reasonOthers = "WaitsForOthers"

// global reports whether the operators of a database exclude, include and restart together. An incompatible
// upgrade has a list of its own.
//
//	UpdateStatus      each operator   pendingFor…  what is to be done with its groups
//	the link          each operator   readyFor…    what can be done now
//	                  one of them     the act, for all that are ready, once all are and nothing has been
//	                                  added for a while
func (p *pass) global() bool {
	return p.cluster.Spec.AutomationOptions.SynchronizationMode == v1beta2.SynchronizationGlobal && p.synchronises()
}

// synchronises reports whether the lists of the operators can be read, and count.
func (p *pass) synchronises() bool {
	return p.cluster.Status.Configured && p.cluster.Status.Health.Available && !foundationdb.UpgradesIncompatibly(p.cluster)
}

// pendingActions are those that groups can be pending for, and readyActions those they can be ready for.
var (
	pendingActions = []fdb.Action{fdb.Removal, fdb.Exclusion, fdb.Inclusion, fdb.Restart}
	readyActions   = []fdb.Action{fdb.Exclusion, fdb.Inclusion, fdb.Restart}
)

// pending are the groups of the cluster that something is to be done with.
func (p *pass) pending() map[fdb.Action][]string {
	found := map[fdb.Action][]string{}
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		id := string(g.ProcessGroupID)
		switch {
		case classOf(g) == fdb.ClassTest:
		case g.Marked():
			found[fdb.Removal] = append(found[fdb.Removal], id)
			if !g.Excluded() && !p.excludedInDatabase(g) {
				found[fdb.Exclusion] = append(found[fdb.Exclusion], id)
			}
			if !p.stuck(g) { // it must not keep others from being included
				found[fdb.Inclusion] = append(found[fdb.Inclusion], id)
			}
		case g.Has(v1beta2.IncorrectCommandLine) && !g.Has(v1beta2.IncorrectPodSpec) && !foundationdb.IgnoredAtRestart(*g, p.cluster.Spec, p.now):
			found[fdb.Restart] = append(found[fdb.Restart], id)
		}
	}
	if held := p.holds(); held != nil && !p.approved { // what is held here is not waited for elsewhere
		for a, link := range map[fdb.Action]string{fdb.Exclusion: "ExcludeProcesses", fdb.Inclusion: "RemoveProcessGroups", fdb.Restart: "BounceProcesses"} {
			if held(link) {
				delete(found, a)
			}
		}
	}
	return found
}

// stuck reports whether the resources of a group do not go.
func (p *pass) stuck(g *v1beta2.ProcessGroupStatus) bool {
	return g.Lasts(v1beta2.ResourcesTerminating, time.Duration(*p.cluster.Spec.AutomationOptions.IgnoreTerminatingPodsSeconds)*time.Second, p.now)
}

// synchronising is the act of telling the other operators what is to be done with the groups of the cluster. There
// is none where they know it: then nothing is read either.
func (p *pass) synchronising() []act {
	told := p.memory.told
	var pending map[fdb.Action][]string
	switch {
	case p.global():
		pending = p.pending()
	case !p.synchronises() || len(told) == 0: // what was told is withdrawn when the mode becomes local
		return nil
	}
	if told != nil && maps.EqualFunc(told, pending, slices.Equal) {
		return nil
	}
	var groups []string
	for _, a := range pendingActions {
		for _, id := range pending[a] {
			if !slices.Contains(groups, id) {
				groups = append(groups, id)
			}
		}
	}
	return []act{{
		Name: "tell the other operators about", Targets: groups,
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			result := p.transact(ctx, p.own(), func(values fdb.Values) ([]fdb.Write, error) { return p.entries(values, pending), nil })
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

// own are the ranges of the lists that may have entries of this operator. Without a prefix they are those of all.
func (p *pass) own() []fdb.Range {
	keys, instance := p.keys(), p.cluster.Spec.ProcessGroupIDPrefix
	ranges := []fdb.Range{keys.AddressList(instance)}
	for _, a := range pendingActions {
		ranges = append(ranges, keys.PendingList(a, instance))
	}
	for _, a := range readyActions {
		ranges = append(ranges, keys.ReadyList(a, instance))
	}
	return ranges
}

// entries are the writes that bring the entries of this operator up to what is pending. Nothing is ready any more
// that is not pending, and the addresses are those of the groups that go.
func (p *pass) entries(values fdb.Values, pending map[fdb.Action][]string) []fdb.Write {
	keys, instance := p.keys(), p.cluster.Spec.ProcessGroupIDPrefix
	var writes []fdb.Write
	tidy := func(list fdb.Range, key func(group string) string, keep []string) {
		for _, entry := range values.In(list) {
			group := fdb.GroupOf(entry.Key)
			if entry.Key == key(group) && !slices.Contains(keep, group) {
				writes = append(writes, fdb.Clear(fdb.SingleKey(entry.Key)))
			}
		}
	}
	for _, a := range pendingActions {
		tidy(keys.PendingList(a, instance), func(group string) string { return keys.Pending(a, instance, group) }, pending[a])
		for _, group := range pending[a] {
			if _, there := values.Get(keys.Pending(a, instance, group)); !there {
				writes = append(writes, fdb.Set(keys.Pending(a, instance, group), fdb.EncodeTime(p.now)))
			}
		}
	}
	for _, a := range readyActions {
		tidy(keys.ReadyList(a, instance), func(group string) string { return keys.Ready(a, instance, group) }, pending[a])
	}
	tidy(keys.AddressList(instance), func(group string) string { return keys.ProcessAddresses(instance, group) }, pending[fdb.Removal])
	for _, group := range pending[fdb.Removal] {
		value := fdb.EncodeAddresses(p.group(v1beta2.ProcessGroupID(group)).Addresses)
		if old, _ := values.Get(keys.ProcessAddresses(instance, group)); !bytes.Equal(old, value) {
			writes = append(writes, fdb.Set(keys.ProcessAddresses(instance, group), value))
		}
	}
	return writes
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
				if _, settled := p.podsSettled(); settled && p.memory.lockMayBeOurs {
					releaseLock(ctx, p)
				}
				return out
			}
			if out := p.take(ctx); !out.IsDone() {
				return out
			}
			groups, out := p.agree(ctx, a, ready, true) // what was read without the lock may be old
			if !out.IsDone() {
				return out
			}
			return run(ctx, p, groups.groups, groups.addresses)
		},
	}
}

// agreed are the groups that something is done with.
type agreed struct {
	groups    []string
	addresses map[string][]string
}

// agree enters the groups that are ready into the list, and finds out whether it is time. begin clears the list:
// what does not happen has to become ready again.
func (p *pass) agree(ctx context.Context, a fdb.Action, ready []string, begin bool) (agreed, outcome.Outcome) {
	keys, instance := p.keys(), p.cluster.Spec.ProcessGroupIDPrefix
	pendingList, readyList := keys.PendingList(a, ""), keys.ReadyList(a, "")
	var found agreed
	var late []string
	var going bool
	result := p.transact(ctx, []fdb.Range{pendingList, readyList, keys.AddressList("")}, func(values fdb.Values) ([]fdb.Write, error) {
		pending, err := times(values.In(pendingList))
		if err != nil {
			return nil, err
		}
		listed, err := times(values.In(readyList))
		if err != nil {
			return nil, err
		}
		var writes []fdb.Write
		for _, entry := range values.In(keys.ReadyList(a, instance)) { // it was ready, and is no longer
			if group := fdb.GroupOf(entry.Key); entry.Key == keys.Ready(a, instance, group) && !slices.Contains(ready, group) {
				writes = append(writes, fdb.Clear(fdb.SingleKey(entry.Key)))
				delete(listed, group)
			}
		}
		for _, group := range ready {
			if _, there := listed[group]; !there {
				writes = append(writes, fdb.Set(keys.Ready(a, instance, group), fdb.EncodeTime(p.now)))
				listed[group] = p.now
			}
		}
		found, late = agreed{addresses: map[string][]string{}}, nil
		for group := range pending {
			if _, there := listed[group]; !there {
				late = append(late, group)
			}
		}
		slices.Sort(late)
		wait := p.limits.WithDefaults().GlobalSynchronizationWait
		if a == fdb.Exclusion {
			found.groups, going = fdb.ReadyToExclude(pending, listed, p.now, wait)
		} else {
			found.groups, going = slices.Sorted(maps.Keys(listed)), fdb.AllReady(pending, listed, p.now, wait)
		}
		for _, entry := range values.In(keys.AddressList("")) {
			addresses, err := fdb.DecodeAddresses(entry.Value)
			if err != nil {
				return nil, err
			}
			found.addresses[fdb.GroupOf(entry.Key)] = addresses
		}
		if going && begin && a == fdb.Restart {
			return []fdb.Write{fdb.Clear(readyList)}, nil
		}
		return writes, nil
	})
	switch {
	case result.Outcome != fdb.Ok:
		return agreed{}, outcome.Later(lockAgain, reasonOf(result), "the lists of the other operators could not be read: %s", result)
	case len(late) > 0 && !going:
		return agreed{}, outcome.Later(lockAgain, reasonOthers, "%s are not ready", some(late))
	case !going:
		return agreed{}, outcome.Later(lockAgain, reasonOthers, "the lists of the operators have changed a moment ago")
	}
	return found, outcome.Done()
}

// times reads the entries of a list.
func times(entries fdb.Values) (map[string]time.Time, error) {
	found := map[string]time.Time{}
	for _, entry := range entries {
		at, err := fdb.DecodeTime(entry.Value)
		if err != nil {
			return nil, err
		}
		found[fdb.GroupOf(entry.Key)] = at
	}
	return found, nil
}

// keys are the keys that the operators of the database share.
func (p *pass) keys() fdb.LockKeys { return fdb.Keys(p.cluster.Spec.LockOptions.LockKeyPrefix) }

// transact runs one transaction on the database of the cluster.
func (p *pass) transact(ctx context.Context, read []fdb.Range, decide func(fdb.Values) ([]fdb.Write, error)) fdb.Result {
	at, err := p.endpoint()
	if err != nil {
		return fdb.Result{Outcome: fdb.Refused, Reason: fdb.DatabaseUnreachable, Text: err.Error()}
	}
	return p.database.Transact(ctx, at, read, decide)
}
