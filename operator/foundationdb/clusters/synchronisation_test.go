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
