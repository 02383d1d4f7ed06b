package clusters

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/locks"
	"github.com/pawl-dev/pawl/outcome"
)

// updateLockConfiguration brings the deny list of the database up to the spec: entries that the spec does
// not name stay.
func updateLockConfiguration(p *pass) decision {
	list := p.cluster.Spec.LockOptions.DenyList
	if len(list) == 0 || !locks.Used(p.cluster) || !p.cluster.Status.Health.Available {
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
			merged, result := p.locks().Deny(ctx, entries)
			if result.Outcome != fdb.Ok {
				return outcome.Later(lockAgain, "DenyListNotWritten", "%s", result)
			}
			p.cluster.Status.Locks.LockDenyList = merged
			return outcome.Done()
		},
	})
}
