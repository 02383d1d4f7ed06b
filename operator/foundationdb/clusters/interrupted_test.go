package clusters_test

import (
	"fmt"
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
