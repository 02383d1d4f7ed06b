package clusters_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// TestUpgradeTakenBack: the version is set back in the middle of an incompatible upgrade, after each of the passes that
// it takes. Before the restart the cluster becomes what it was; after it there is no way back, which is told, and the
// upgrade can be finished.
func TestUpgradeTakenBack(t *testing.T) {
	for _, make := range []func(*v1beta2.FoundationDBCluster){nil, split} {
		for passes := 1; passes < 40; passes += 3 {
			if crashStep(t) > 1 && passes%9 != 1 {
				continue
			}
			t.Run(fmt.Sprintf("%t/%d", make != nil, passes), func(t *testing.T) {
				t.Parallel()
				l := begin(t, sim.Options{}, func(c *v1beta2.FoundationDBCluster) {
					c.Spec.MinimumUptimeSecondsForBounce = 120
					if make != nil {
						make(c)
					}
				})
				l.settle(time.Hour)
				l.writes(2*time.Second, "7.1.67", "7.3.69", "7.4.6")
				l.edit(`{"spec":{"version":"7.4.6"}}`)
				for range passes {
					l.pass()
				}
				l.edit(`{"spec":{"version":"7.3.69"}}`)
				for range 10 {
					l.pass()
				}
				if running := l.cluster().Status.RunningVersion; running != "7.3.69" {
					l.edit(`{"spec":{"version":"7.4.6"}}`)
				}
				l.settle(4 * time.Hour)
				l.settled()
				l.tidy()
				l.kept()
			})
		}
	}
}

// TestCrashesBeforeTheRestart: servers crash between the moment at which their launchers are told of the files of an
// upgrade and the restart of all. The program was missing when they were told, so that what starts is the former version.
func TestCrashesBeforeTheRestart(t *testing.T) {
	for _, crashed := range [][]string{{"storage"}, {"log"}, {"log", "log"}, {"log", "log", "log"}, {"stateless", "log", "storage"}} {
		t.Run(fmt.Sprint(crashed), func(t *testing.T) {
			t.Parallel()
			l := begin(t, sim.Options{}, nil)
			l.settle(time.Hour)
			l.writes(2*time.Second, "7.1.67", "7.3.69", "7.4.6")
			l.edit(`{"spec":{"version":"7.4.6"}}`)
			for range 6 { // launchers are told of their files before the sidecar has brought the program, and take them later
				l.pass()
			}
			if running := l.cluster().Status.RunningVersion; running != "7.3.69" {
				l.fail("it runs %s already", running)
			}
			taken := map[v1beta2.ProcessGroupID]bool{}
			for _, class := range crashed {
				for _, g := range l.cluster().Status.ProcessGroups {
					if g.ProcessClass == v1beta2.ProcessClass(class) && !taken[g.ProcessGroupID] {
						taken[g.ProcessGroupID] = true
						l.Crash(namespace, l.podOf(g.ProcessGroupID), 1)
						break
					}
				}
			}
			l.settle(4 * time.Hour)
			l.settled()
			l.tidy()
			l.kept()
			runs("7.4.6")(l)
		})
	}
}

// coordinatorsCrash upgrades to 7.4.6, and has so many coordinators crash once they have the files, and before the restart.
// They start with the new version.
func (l *life) coordinatorsCrash(count int) {
	l.t.Helper()
	l.edit(`{"spec":{"version":"7.4.6"}}`)
	for until := l.Now().Add(time.Hour); l.pass().Reason() != "RecoveredRecently"; {
		if l.Now().After(until) {
			l.fail("the restart does not wait: %s", l.last)
		}
	}
	runs("7.3.69")(l)
	crashed := l.crashCoordinators(count)
	l.Advance(5 * time.Second)
	if crashed < count || l.Cluster().Protocol().Short() != "7.4" || l.Cluster().Available() {
		l.fail("the coordinators speak %s", l.Cluster().Protocol())
	}
}

// crashCoordinators has so many coordinators crash, and returns how many did.
func (l *life) crashCoordinators(count int) (crashed int) {
	l.t.Helper()
	for _, g := range l.cluster().Status.ProcessGroups {
		pod := l.podOf(g.ProcessGroupID)
		for _, a := range l.Cluster().Connection().Coordinators {
			if crashed < count && (strings.HasPrefix(a.Host, pod+".") || slices.Contains(g.Addresses, a.Host)) {
				l.Crash(namespace, pod, 1)
				l.Crash(namespace, pod, 2)
				crashed++
			}
		}
	}
	return crashed
}

// restartWaits has the restart of an upgrade wait for longer than anything else.
func restartWaits(c *v1beta2.FoundationDBCluster) { c.Spec.MinimumUptimeSecondsForBounce = 4 * 3600 }

// TestCrashesOfCoordinatorsBeforeTheRestart: a majority of the coordinators, or all, start with the version of an upgrade
// before its restart, and reach nobody else. The pods of the others are made anew.
func TestCrashesOfCoordinatorsBeforeTheRestart(t *testing.T) {
	none := func(*v1beta2.FoundationDBCluster) {}
	storage := func(c *v1beta2.FoundationDBCluster) {
		c.Spec.CoordinatorSelection = []v1beta2.CoordinatorSelection{{ProcessClass: "storage", Priority: 10}}
	}
	for name, one := range map[string]struct {
		make    func(*v1beta2.FoundationDBCluster)
		crashed int
	}{
		"all":                 {none, 3},
		"a majority":          {none, 2},
		"split":               {split, 3},
		"another patch":       {none, 2},
		"storage":             {storage, 3},
		"majority of storage": {storage, 2},
		"by address":          {func(c *v1beta2.FoundationDBCluster) { c.Spec.Routing.UseDNSInClusterFile = new(false) }, 2},
		"locks": {func(c *v1beta2.FoundationDBCluster) {
			c.Spec.LockOptions.DisableLocks, c.Spec.ProcessGroupIDPrefix = new(false), "operator"
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := sim.Options{}
			o.Database.Rules.Locks = name == "locks"
			l := begin(t, o, func(c *v1beta2.FoundationDBCluster) {
				restartWaits(c)
				one.make(c)
			})
			l.settle(2 * time.Hour)
			l.writes(2*time.Second, "7.1.67", "7.3.69", "7.4.6")
			l.coordinatorsCrash(one.crashed)
			version := "7.4.6"
			if name == "another patch" {
				version = "7.4.7"
				l.edit(`{"spec":{"version":"7.4.7"}}`)
			}
			l.settle(8 * time.Hour)
			l.settled()
			l.tidy()
			l.kept()
			runs(version)(l)
			if w := l.Cluster().Written("192.0.2.1:4000"); w.Gap > 3*time.Minute {
				l.fail("the database was not available for %s", w.Gap)
			}
		})
	}
}

// TestUpgradeTakenBackTooLate: the version is set back right after the restart, before a status has told what runs. The
// operator finds out, refuses the downgrade, and finishes the upgrade when it is asked for again.
func TestUpgradeTakenBackTooLate(t *testing.T) {
	t.Parallel()
	l := begin(t, sim.Options{}, func(c *v1beta2.FoundationDBCluster) { c.Spec.MinimumUptimeSecondsForBounce = 60 })
	l.settle(time.Hour)
	l.writes(2*time.Second, "7.1.67", "7.3.69", "7.4.6")
	restarted := false
	l.After(func(e sim.Effect) error {
		restarted = restarted || e.Verb == "Run" && e.Call.Command == fdb.CommandKill
		return nil
	})
	l.edit(`{"spec":{"version":"7.4.6"}}`)
	for !restarted {
		l.pass()
	}
	l.edit(`{"spec":{"version":"7.3.69"}}`)
	for range 10 {
		l.pass()
	}
	runs("7.4.6")(l)
	if reason := l.last.Reason(); reason != "FdbSpecInvalid" {
		l.fail("%s", reason)
	}
	l.edit(`{"spec":{"version":"7.4.6"}}`)
	l.settle(4 * time.Hour)
	l.settled()
	l.tidy()
	l.kept()
}

// TestUpgradeHeldIsTold: an upgrade that waits, here for pods that have to be made anew, is told by its condition and
// among what the cluster needs.
func TestUpgradeHeldIsTold(t *testing.T) {
	t.Parallel()
	l := begin(t, sim.Options{}, func(c *v1beta2.FoundationDBCluster) { c.Spec.Routing.UseDNSInClusterFile = new(false) })
	l.settle(time.Hour)
	l.edit(`{"spec":{"version":"7.4.6","routing":{"useDNSInClusterFile":true},"automationOptions":{"deletionMode":"None"}}}`)
	for range 5 {
		l.pass()
	}
	for _, c := range l.cluster().Status.Conditions {
		if c.Type == clusters.TypeUpgradeBlocked && (c.Status != "True" || c.Reason != "UpgradeWaitsForPods" || !strings.Contains(c.Message, "FDB_DNS_NAME")) {
			l.fail("%s %s %s", c.Status, c.Reason, c.Message)
		}
		if c.Type == clusters.TypeReconciled && c.Status != "False" {
			l.fail("reconciled: %s %s", c.Status, c.Message)
		}
	}
	runs("7.3.69")(l)
}
