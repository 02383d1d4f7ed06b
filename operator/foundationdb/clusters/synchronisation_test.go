package clusters_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// synchronised lets the operators of three Kubernetes clusters act together.
func synchronised(c *v1beta2.FoundationDBCluster) {
	c.Spec.AutomationOptions.SynchronizationMode = v1beta2.SynchronizationGlobal
}

// commands counts the calls of a command by all instances since a number of acts.
func (f *fleet) commands(command fdb.Command, since int) (count int) {
	for _, d := range f.acts[since:] {
		if d.Verb == "Run" && d.Call.Command == command {
			count++
		}
	}
	return count
}

// tidy checks that the lists of the operators are empty.
func (f *fleet) tidy() {
	f.t.Helper()
	entries, err := f.Cluster().Transaction().GetRange(fdb.PrefixRange(fdb.LockPrefix+"/"), 1000)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Key, "/global") {
			f.fail("%q is left", entry.Key)
		}
	}
}

// TestSynchronisation: three operators restart, exclude and include once for all of them.
func TestSynchronisation(t *testing.T) {
	t.Parallel()
	f := kubernetesClusters(t, shared(24, 3), synchronised)
	since := len(f.acts)
	f.costs("knob", 1, 2*time.Hour, func() { f.edit(knob) })
	if n := f.commands(fdb.CommandKill, since); n != 1 {
		f.fail("%d restarts for a knob", n)
	}
	f.tidy()

	since = len(f.acts)
	f.costs("a storage and a log server of each are replaced", 1, 2*time.Hour, func() {
		for _, u := range f.units {
			var ids []string
			for _, class := range []v1beta2.ProcessClass{"storage", "log"} {
				for _, g := range u.object().Status.ProcessGroups {
					if g.ProcessClass == class {
						ids = append(ids, `"`+string(g.ProcessGroupID)+`"`)
						break
					}
				}
			}
			u.edit(`{"spec":{"processGroupsToRemove":[` + strings.Join(ids, ",") + `]}}`)
		}
	})
	for _, u := range f.units {
		u.has("storage", 1)
	}
	excludes := 0
	for _, d := range f.acts[since:] {
		if d.Verb == "Run" && d.Call.Command == fdb.CommandExclude && d.Call.NoWait {
			excludes++
		}
	}
	if includes := f.commands(fdb.CommandInclude, since); excludes != 1 || includes != 1 {
		f.fail("%d exclusions and %d inclusions", excludes, includes)
	}
	f.tidy()
	f.upgraded("7.4.6", 1)
	f.tidy()
	f.kept()
}

// TestSynchronisationWithoutOne: what an instance that is gone has not announced does not hold up the others, and it
// comes after them by itself.
func TestSynchronisationWithoutOne(t *testing.T) {
	t.Parallel()
	f := kubernetesClusters(t, shared(24, 3), synchronised)
	kc3 := f.units[2]
	kc3.stopped = true
	since := len(f.acts)
	f.edit(knob)
	f.until("the others have restarted", time.Hour, func() bool { return f.commands(fdb.CommandKill, since) == 1 })
	f.goOn(15 * time.Minute)
	if n := f.commands(fdb.CommandKill, since); n != 1 {
		f.fail("%d restarts", n)
	}
	kc3.stopped = false
	kc3.restart()
	f.settle(time.Hour)
	if n := f.commands(fdb.CommandKill, since); n != 2 {
		f.fail("%d restarts", n)
	}
	f.settled()
	f.tidy()
	f.kept()
}

// TestSynchronisationByAddress: exclusions by address are included again by whoever comes last, with the addresses
// that the others have told.
func TestSynchronisationByAddress(t *testing.T) {
	t.Parallel()
	f := kubernetesClusters(t, shared(24, 3), func(c *v1beta2.FoundationDBCluster) {
		synchronised(c)
		c.Spec.AutomationOptions.UseLocalitiesForExclusion = new(false)
	})
	since := len(f.acts)
	f.costs("a storage server of each is replaced", 0, 2*time.Hour, func() {
		for _, u := range f.units {
			u.replace()
		}
	})
	if n := f.commands(fdb.CommandInclude, since); n != 1 {
		f.fail("%d inclusions", n)
	}
	f.tidy()
	f.kept()
}

// TestSynchronisationWithALateOne: an exclusion waits some minutes for groups that were announced and do not become
// ready, and then goes on without them; an inclusion waits.
func TestSynchronisationWithALateOne(t *testing.T) {
	t.Parallel()
	f := kubernetesClusters(t, shared(24, 3), synchronised)
	kc1, kc3 := f.units[0], f.units[2]
	kc3.replace()
	f.until("kc3 has told", time.Minute, func() bool {
		entries, err := f.Cluster().Transaction().GetRange(fdb.Keys("").PendingList(fdb.Exclusion, "kc3"), 10)
		return err == nil && len(entries) == 1
	})
	kc3.stopped = true
	kc1.replace()
	began := f.Now()
	since := len(f.acts)
	f.until("kc1 is excluded", time.Hour, func() bool { return f.commands(fdb.CommandExclude, since) > 0 })
	if took := f.Now().Sub(began); took < 5*time.Minute {
		f.fail("excluded after %s", took)
	}
	f.goOn(30 * time.Minute)
	if n := f.commands(fdb.CommandInclude, since); n != 0 || kc1.last.Reason() != "WaitsForOthers" {
		f.fail("%d inclusions, %s", n, kc1.last)
	}
	kc3.stopped = false
	kc3.restart()
	f.settle(2 * time.Hour)
	if n := f.commands(fdb.CommandInclude, since); n != 1 {
		f.fail("%d inclusions", n)
	}
	f.settled()
	f.tidy()
	f.kept()
}

// TestSynchronisationHeld: what a person holds in one object is not waited for in the others.
func TestSynchronisationHeld(t *testing.T) {
	t.Parallel()
	f := kubernetesClusters(t, shared(24, 3), synchronised)
	kc3 := f.units[2]
	kc3.edit(`{"metadata":{"annotations":{"pawl.dev/hold":"BounceProcesses"}}}`)
	since := len(f.acts)
	f.edit(knob)
	f.until("the others have restarted", time.Hour, func() bool { return f.commands(fdb.CommandKill, since) == 1 })
	f.goOn(15 * time.Minute)
	if n := f.commands(fdb.CommandKill, since); n != 1 {
		f.fail("%d restarts", n)
	}
	kc3.edit(`{"metadata":{"annotations":{"pawl.dev/hold":null}}}`)
	f.settle(time.Hour)
	f.settled()
	f.tidy()
	f.kept()
}

// TestSynchronisationBecomesLocal: an operator that acts alone from now on withdraws what it has told.
func TestSynchronisationBecomesLocal(t *testing.T) {
	t.Parallel()
	f := kubernetesClusters(t, shared(24, 3), synchronised)
	f.edit(knob)
	f.goOn(time.Minute)
	kc3 := f.units[2]
	kc3.edit(`{"spec":{"automationOptions":{"synchronizationMode":"local"}}}`)
	f.settle(2 * time.Hour)
	f.settled()
	f.tidy()
	f.kept()
}
