package locks

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/lock"
)

// Take takes the lock, or extends it. The decision counts only if the result is Ok: else whether it was written is
// not known, and the next try finds its own record.
func (c Client) Take(ctx context.Context, clock func() time.Time) (lock.Decision, fdb.Result) {
	keys := c.keys()
	duration := time.Duration(*c.Cluster.Spec.LockOptions.LockDurationMinutes) * time.Minute
	var d lock.Decision
	result := c.transact(ctx, []fdb.Range{fdb.SingleKey(keys.Global()), keys.DenyList()}, func(values fdb.Values) ([]fdb.Write, error) {
		value, _ := values.Get(keys.Global())
		var denied []string
		for _, entry := range values.In(keys.DenyList()) {
			denied = append(denied, string(entry.Value))
		}
		d = lock.Decide(clock(), fdb.DecodeLock(value), c.owner(), lock.DenyList(denied), duration)
		return lockWrites(keys, d), nil
	})
	return d, result
}

// lockWrites are what a decision changes.
func lockWrites(keys fdb.LockKeys, d lock.Decision) []fdb.Write {
	switch {
	case !d.Write:
		return nil
	case d.Record == nil:
		return []fdb.Write{fdb.Clear(fdb.SingleKey(keys.Global()))}
	}
	return []fdb.Write{fdb.Set(keys.Global(), fdb.EncodeLock(*d.Record))}
}

// Release gives back the lock.
func (c Client) Release(ctx context.Context, clock func() time.Time) fdb.Result {
	keys := c.keys()
	return c.transact(ctx, []fdb.Range{fdb.SingleKey(keys.Global())}, func(values fdb.Values) ([]fdb.Write, error) {
		value, _ := values.Get(keys.Global())
		return lockWrites(keys, lock.Release(clock(), fdb.DecodeLock(value), c.owner())), nil
	})
}

// Deny merges entries into the deny list, and returns the list as it is then.
func (c Client) Deny(ctx context.Context, entries []lock.Entry) ([]string, fdb.Result) {
	keys := c.keys()
	var merged []string
	result := c.transact(ctx, []fdb.Range{keys.DenyList()}, func(values fdb.Values) ([]fdb.Write, error) {
		var stored []string
		for _, entry := range values.In(keys.DenyList()) {
			stored = append(stored, string(entry.Value))
		}
		merged = lock.Merge(stored, entries)
		var writes []fdb.Write
		for _, id := range stored {
			if !slices.Contains(merged, id) {
				writes = append(writes, fdb.Clear(fdb.SingleKey(keys.Denied(id))))
			}
		}
		for _, id := range merged {
			if !slices.Contains(stored, id) {
				writes = append(writes, fdb.Set(keys.Denied(id), []byte(id)))
			}
		}
		return writes, nil
	})
	return merged, result
}
