package locks

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// Global reports whether the operators of a database exclude, include and restart together. An incompatible
// upgrade has a list of its own.
//
//	UpdateStatus      each operator   pendingFor…  what is to be done with its groups
//	the link          each operator   readyFor…    what can be done now
//	                  one of them     the act, for all that are ready, once all are and nothing has been
//	                                  added for a while
func Global(c *v1beta2.FoundationDBCluster) bool {
	return c.Spec.AutomationOptions.SynchronizationMode == v1beta2.SynchronizationGlobal && Synchronises(c)
}

// Synchronises reports whether the lists of the operators can be read, and count.
func Synchronises(c *v1beta2.FoundationDBCluster) bool {
	return c.Status.Configured && c.Status.Health.Available && !foundationdb.UpgradesIncompatibly(c)
}

// PendingActions are those that groups can be pending for, and readyActions those they can be ready for.
var (
	PendingActions = []fdb.Action{fdb.Removal, fdb.Exclusion, fdb.Inclusion, fdb.Restart}
	readyActions   = []fdb.Action{fdb.Exclusion, fdb.Inclusion, fdb.Restart}
)

// Tell tells the other operators what is to be done with the groups of this one, by action. addresses are those of a group.
func (c Client) Tell(ctx context.Context, pending map[fdb.Action][]string, addresses func(group string) []string) fdb.Result {
	return c.transact(ctx, c.own(), func(values fdb.Values) ([]fdb.Write, error) { return c.entries(values, pending, addresses), nil })
}

// own are the ranges of the lists that may have entries of this operator. Without a prefix they are those of all.
func (c Client) own() []fdb.Range {
	keys, instance := c.keys(), c.owner()
	ranges := []fdb.Range{keys.AddressList(instance)}
	for _, a := range PendingActions {
		ranges = append(ranges, keys.PendingList(a, instance))
	}
	for _, a := range readyActions {
		ranges = append(ranges, keys.ReadyList(a, instance))
	}
	return ranges
}

// entries are the writes that bring the entries of this operator up to what is pending. Nothing is ready any more
// that is not pending, and the addresses are those of the groups that go.
func (c Client) entries(values fdb.Values, pending map[fdb.Action][]string, addresses func(group string) []string) []fdb.Write {
	keys, instance := c.keys(), c.owner()
	var writes []fdb.Write
	tidy := func(list fdb.Range, key func(group string) string, keep []string) {
		for _, entry := range values.In(list) {
			group := fdb.GroupOf(entry.Key)
			if entry.Key == key(group) && !slices.Contains(keep, group) {
				writes = append(writes, fdb.Clear(fdb.SingleKey(entry.Key)))
			}
		}
	}
	for _, a := range PendingActions {
		tidy(keys.PendingList(a, instance), func(group string) string { return keys.Pending(a, instance, group) }, pending[a])
		for _, group := range pending[a] {
			if _, there := values.Get(keys.Pending(a, instance, group)); !there {
				writes = append(writes, fdb.Set(keys.Pending(a, instance, group), fdb.EncodeTime(c.Now)))
			}
		}
	}
	for _, a := range readyActions {
		tidy(keys.ReadyList(a, instance), func(group string) string { return keys.Ready(a, instance, group) }, pending[a])
	}
	tidy(keys.AddressList(instance), func(group string) string { return keys.ProcessAddresses(instance, group) }, pending[fdb.Removal])
	for _, group := range pending[fdb.Removal] {
		value := fdb.EncodeAddresses(addresses(group))
		if old, _ := values.Get(keys.ProcessAddresses(instance, group)); !bytes.Equal(old, value) {
			writes = append(writes, fdb.Set(keys.ProcessAddresses(instance, group), value))
		}
	}
	return writes
}

// Agreed is what the lists say of an action.
type Agreed struct {
	Going     bool                // it is time
	Groups    []string            // that it is done with
	Addresses map[string][]string // of groups that go
	Late      []string            // the groups that are not ready
}

// Agree enters the groups that are ready into the list, and finds out whether it is time: nothing was added for wait.
// begin clears the list: what does not happen has to become ready again.
func (c Client) Agree(ctx context.Context, a fdb.Action, ready []string, wait time.Duration, begin bool) (Agreed, fdb.Result) {
	keys, instance := c.keys(), c.owner()
	pendingList, readyList := keys.PendingList(a, ""), keys.ReadyList(a, "")
	var found Agreed
	result := c.transact(ctx, []fdb.Range{pendingList, readyList, keys.AddressList("")}, func(values fdb.Values) ([]fdb.Write, error) {
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
				writes = append(writes, fdb.Set(keys.Ready(a, instance, group), fdb.EncodeTime(c.Now)))
				listed[group] = c.Now
			}
		}
		found = Agreed{Addresses: map[string][]string{}}
		for group := range pending {
			if _, there := listed[group]; !there {
				found.Late = append(found.Late, group)
			}
		}
		slices.Sort(found.Late)
		if a == fdb.Exclusion {
			found.Groups, found.Going = fdb.ReadyToExclude(pending, listed, c.Now, wait)
		} else {
			found.Groups, found.Going = slices.Sorted(maps.Keys(listed)), fdb.AllReady(pending, listed, c.Now, wait)
		}
		for _, entry := range values.In(keys.AddressList("")) {
			addresses, err := fdb.DecodeAddresses(entry.Value)
			if err != nil {
				return nil, err
			}
			found.Addresses[fdb.GroupOf(entry.Key)] = addresses
		}
		if found.Going && begin && a == fdb.Restart {
			return []fdb.Write{fdb.Clear(readyList)}, nil
		}
		return writes, nil
	})
	return found, result
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
