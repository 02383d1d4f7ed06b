package clusters

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/outcome"
)

// updateLockConfiguration brings the deny list of the database up to the spec: entries that the spec does
// not name stay.
func updateLockConfiguration(p *pass) decision {
	list := p.cluster.Spec.LockOptions.DenyList
	if len(list) == 0 || !p.usesLock() || !p.cluster.Status.Health.Available {
		return decision{}
	}
	entries := make([]lock.Entry, len(list))
	for i, e := range list {
		entries[i] = lock.Entry{ID: e.ID, Allow: e.Allow}
	}
	wanted := lock.Merge(p.cluster.Status.Locks.LockDenyList, entries)
	if slices.Equal(wanted, p.cluster.Status.Locks.LockDenyList) {
		return decision{}
	}
	return acts(outcome.Done(), act{
		Name: "change the deny list of the lock", Targets: wanted,
		Assume: func(p *pass) { p.cluster.Status.Locks.LockDenyList = wanted },
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			at, err := p.endpoint()
			if err != nil {
				return outcome.Later(lockAgain, fdb.DatabaseSilent, "%v", err)
			}
			keys := fdb.Keys(p.cluster.Spec.LockOptions.LockKeyPrefix)
			var merged []string
			result := p.database.Transact(ctx, at, []fdb.Range{keys.DenyList()}, func(values fdb.Values) ([]fdb.Write, error) {
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
			if result.Outcome != fdb.Ok {
				return outcome.Later(lockAgain, "DenyListNotWritten", "%s", result)
			}
			p.cluster.Status.Locks.LockDenyList = merged
			return outcome.Done()
		},
	})
}
