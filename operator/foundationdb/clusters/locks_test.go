package clusters_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// kubernetesClusters are three objects that make one database, settled.
func kubernetesClusters(t tester, o sim.Options, change func(*v1beta2.FoundationDBCluster)) *fleet {
	t.Helper()
	f := newFleet(t, o)
	for n, c := range example(t, "kubernetes-clusters.yaml") {
		if change != nil {
			change(c)
		}
		if n == 0 {
			f.add(c)
			f.goOn(3 * time.Minute)
			continue
		}
		f.join(c)
	}
	f.settle(2 * time.Hour)
	f.writes()
	return f
}

// held is the lock as the database has it.
func (f *fleet) held() lock.Stored {
	f.t.Helper()
	value, _, err := f.Cluster().Transaction().Get(fdb.Keys("").Global())
	if err != nil {
		f.t.Fatal(err)
	}
	return fdb.DecodeLock(value)
}

// set writes a key as a person does.
func (f *fleet) set(w fdb.Write) {
	f.t.Helper()
	tx := f.Cluster().Transaction()
	tx.Write(w)
	if err := tx.Commit(); err != nil {
		f.t.Fatal(err)
	}
}

// until makes passes until something is true.
func (f *fleet) until(what string, limit time.Duration, true func() bool) {
	f.t.Helper()
	for until := f.Now().Add(limit); !true(); f.step() {
		if f.Now().After(until) {
			f.fail("not within %s: %s", limit, what)
		}
	}
}

// holds waits until an instance holds the lock.
func (f *fleet) holds(owner string) {
	f.t.Helper()
	f.until(owner+" holds the lock", time.Hour, func() bool {
		held := f.held()
		return held.Record != nil && held.Record.Owner == owner && held.Record.Valid(f.Now())
	})
}

// did are the acts on the database of an instance since a number of acts until a time, transactions apart. A zero
// time is now.
func (f *fleet) did(owner string, since int, until time.Time) []done {
	var found []done
	for _, d := range f.acts[since:] {
		if d.Owner == owner && d.Verb == "Run" && d.Call.Command != fdb.CommandConnection && (until.IsZero() || d.at.Before(until)) {
			found = append(found, d)
		}
	}
	return found
}

// replace asks a unit to replace a storage group: that takes the lock for some minutes.
func (u *unit) replace() {
	u.f.t.Helper()
	for _, g := range u.object().Status.ProcessGroups {
		if g.ProcessClass == "storage" && !g.Marked() {
			u.edit(`{"spec":{"processGroupsToRemove":["` + string(g.ProcessGroupID) + `"]}}`)
			return
		}
	}
	u.f.fail("no storage group")
}

// TestFlaw1: an owner that is denied while it holds the lock does nothing any more, also when the lock is free.
// Another one goes on, and once the owner is allowed again it ends what it has begun.
func TestFlaw1(t *testing.T) {
	t.Parallel()
	f := kubernetesClusters(t, shared(24, 3), nil)
	kc1, kc2 := f.units[0], f.units[1]
	kc1.replace()
	f.holds("kc1")
	kc2.edit(`{"spec":{"lockOptions":{"denyList":[{"id":"kc1"}]}}}`)
	kc2.replace()
	f.until("kc1 is denied", time.Minute, func() bool { return len(kc2.object().Status.Locks.LockDenyList) == 1 })
	since := len(f.acts)
	f.until("kc2 has replaced", time.Hour, func() bool { return kc2.last.IsDone() })
	if held := f.held(); held.Record != nil {
		f.fail("%s still has the lock", held.Record.Owner)
	}
	f.goOn(5 * time.Minute)
	if acts := f.did("kc1", since, time.Time{}); len(acts) > 0 {
		f.fail("a denied owner has acted: %s", acts)
	}
	if kc1.last.Reason() != "LockNotHeld" || !strings.Contains(kc1.last.Message(), "deny list") {
		f.fail("kc1: %s", kc1.last)
	}
	kc2.edit(`{"spec":{"lockOptions":{"denyList":[{"id":"kc1","allow":true}]}}}`)
	f.settle(time.Hour)
	if len(f.did("kc1", since, time.Time{})) == 0 || len(kc2.object().Status.Locks.LockDenyList) > 0 {
		f.fail("kc1 is still denied: %s", kc2.object().Status.Locks.LockDenyList)
	}
	f.settled()
	f.kept()
}

// TestFlaw14: the lock of an instance that is gone ends by itself, nothing is done before, and who takes it over has
// a start of its own.
func TestFlaw14(t *testing.T) {
	t.Parallel()
	f := kubernetesClusters(t, shared(24, 3), nil)
	kc1, kc2 := f.units[0], f.units[1]
	kc1.replace()
	f.holds("kc1")
	kc1.stopped = true
	end := f.held().Record.End
	kc2.replace()
	since := len(f.acts)
	f.until("the lock has ended", time.Hour, func() bool { return !f.Now().Before(end) })
	if acts := f.did("kc2", since, end); len(acts) > 0 {
		f.fail("kc2 has acted while kc1 had the lock: %s", acts)
	}
	f.holds("kc2")
	if start := f.held().Record.Start; start.Before(end) {
		f.fail("the lock of kc2 began at %s, that of kc1 ended at %s", start, end)
	}
	f.until("kc2 has replaced", 30*time.Minute, func() bool { return kc2.last.IsDone() })
	kc1.stopped = false
	kc1.restart()
	f.settle(time.Hour)
	f.settled()
	f.kept()
}

// TestClocksApart: the clock of one instance is an hour early. It takes the lock while the other one believes that
// it has it; the other one sees that before its next act.
func TestClocksApart(t *testing.T) {
	t.Parallel()
	f := kubernetesClusters(t, shared(24, 3), nil)
	kc1, kc2 := f.units[0], f.units[1]
	kc2.skew = time.Hour
	kc1.replace()
	f.holds("kc1")
	kc2.replace()
	f.until("both have replaced", 6*time.Hour, func() bool { return kc1.last.IsDone() && kc2.last.IsDone() })
	f.settle(time.Hour)
	f.settled()
	f.kept()
}

// TestUnreadableLock: nothing is done under a lock that cannot be read, and nothing is written over it.
func TestUnreadableLock(t *testing.T) {
	t.Parallel()
	f := kubernetesClusters(t, shared(24, 3), nil)
	f.set(fdb.Set(fdb.Keys("").Global(), []byte("no tuple")))
	kc1 := f.units[0]
	kc1.replace()
	since := len(f.acts)
	f.goOn(30 * time.Minute)
	if acts := f.did("kc1", since, time.Time{}); len(acts) > 0 {
		f.fail("kc1 has acted: %s", acts)
	}
	if kc1.last.Reason() != lock.Unreadable.Reason() || f.held().Err == nil {
		f.fail("kc1: %s", kc1.last)
	}
	f.set(fdb.Clear(fdb.SingleKey(fdb.Keys("").Global())))
	f.settle(time.Hour)
	f.settled()
	f.kept()
}

// TestLockCommitUnknown: whether a lock was taken, the next pass finds out.
func TestLockCommitUnknown(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"before": true, "after": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := kubernetesClusters(t, shared(24, 3), nil)
			f.units[0].replace()
			for range 20 {
				f.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultCommitUnknown, Before: before})
			}
			f.settle(2 * time.Hour)
			f.Cluster().Clear(fdbsim.FaultCommitUnknown)
			f.settled()
			f.kept()
		})
	}
}

// TestPrefixChanged: all groups are replaced, and the lock is taken by the new name, once the old one's is over.
func TestPrefixChanged(t *testing.T) {
	t.Parallel()
	f := kubernetesClusters(t, shared(24, 3), nil)
	kc3 := f.units[2]
	kc3.replace()
	f.holds("kc3")
	end := f.held().Record.End
	kc3.edit(`{"spec":{"processGroupIDPrefix":"kc4","processGroupsToRemove":null}}`)
	kc3.owner = "kc4"
	kc3.restart()
	since := len(f.acts)
	f.until("the lock of kc3 has ended", time.Hour, func() bool { return !f.Now().Before(end) })
	if acts := f.did("kc4", since, end); len(acts) > 0 {
		f.fail("kc4 has acted while kc3 had the lock: %s", acts)
	}
	f.settle(4 * time.Hour)
	for _, g := range kc3.object().Status.ProcessGroups {
		if !strings.HasPrefix(string(g.ProcessGroupID), "kc4-") {
			f.fail("%s is still there", g.ProcessGroupID)
		}
	}
	f.settled()
	f.kept()
}

// TestLocksDisabled: without locks the shared keys are neither read nor written.
func TestLocksDisabled(t *testing.T) {
	t.Parallel()
	f := kubernetesClusters(t, sim.Options{Nodes: 24}, func(c *v1beta2.FoundationDBCluster) { c.Spec.LockOptions.DisableLocks = new(true) })
	f.units[0].replace()
	f.settle(time.Hour)
	f.settled()
	for _, d := range f.acts {
		if d.Verb == "Transact" {
			f.fail("%s", d)
		}
	}
	f.kept()
}
