package clusters

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

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

// usesLock reports whether effects on the database need the lock. A database without configuration has
// no transactions, and only the operator that creates it knows of it.
func (p *pass) usesLock() bool {
	return foundationdb.UsesLocks(p.cluster.Spec) && p.cluster.Status.Configured
}

// take takes the lock, or extends it, once in a pass, and again once half of its time is over. What a former
// pass was granted does not count: another operator may have denied this one, or its clock may have let it
// take the lock.
func (p *pass) take(ctx context.Context) outcome.Outcome {
	if !p.usesLock() {
		return outcome.Done()
	}
	if !p.lock.RenewalDue(p.options.Now()) {
		return outcome.Done()
	}
	at, err := p.endpoint()
	if err != nil {
		return outcome.Later(lockAgain, reasonLock, "%v", err)
	}
	keys := fdb.Keys(p.cluster.Spec.LockOptions.LockKeyPrefix)
	owner := p.cluster.Spec.ProcessGroupIDPrefix
	duration := time.Duration(*p.cluster.Spec.LockOptions.LockDurationMinutes) * time.Minute
	p.memory.lockMayBeOurs = true
	result := p.database.Transact(ctx, at, []fdb.Range{fdb.SingleKey(keys.Global()), keys.DenyList()}, func(values fdb.Values) ([]fdb.Write, error) {
		value, _ := values.Get(keys.Global())
		var denied []string
		for _, entry := range values.In(keys.DenyList()) {
			denied = append(denied, string(entry.Value))
		}
		p.lock = lock.Decide(p.options.Now(), fdb.DecodeLock(value), owner, lock.DenyList(denied), duration)
		return lockWrites(keys, p.lock), nil
	})
	switch {
	case result.Outcome != fdb.Ok: // whether it was written is not known: the next try finds its own record
		p.lock = lock.Decision{}
		return outcome.Later(lockAgain, reasonLock, "the lock could not be taken: %s", result)
	case p.lock.Granted:
		return outcome.Done()
	}
	switch d := p.lock; {
	case d.Err != nil:
		return outcome.Later(lockAgain, lock.Unreadable.Reason(), "%v", d.Err)
	case d.Record != nil && !d.Denied: // until when changes all the time
		return outcome.Later(lockAgain, reasonLock, "%s holds the lock", d.Record.Owner)
	}
	return p.lock.Outcome(lockAgain)
}

const reasonLock = "LockNotHeld"

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

// releaseLock gives back the lock of a cluster that is as it should be.
func releaseLock(ctx context.Context, p *pass) outcome.Outcome {
	at, err := p.endpoint()
	if err != nil {
		return outcome.Done()
	}
	keys := fdb.Keys(p.cluster.Spec.LockOptions.LockKeyPrefix)
	result := p.database.Transact(ctx, at, []fdb.Range{fdb.SingleKey(keys.Global())}, func(values fdb.Values) ([]fdb.Write, error) {
		value, _ := values.Get(keys.Global())
		return lockWrites(keys, lock.Release(p.options.Now(), fdb.DecodeLock(value), p.cluster.Spec.ProcessGroupIDPrefix)), nil
	})
	if result.Outcome == fdb.Ok {
		p.memory.lockMayBeOurs, p.lock = false, lock.Decision{}
	}
	return outcome.Done() // it ends by itself
}
