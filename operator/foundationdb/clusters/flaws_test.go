package clusters_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// The tests of this file are named after flaws that operators in use have (specification, section 14).

func (l *life) podOf(id v1beta2.ProcessGroupID) string {
	parsed, err := fdb.ParseGroupID(string(id))
	if err != nil {
		l.t.Fatal(err)
	}
	return foundationdb.PodName(l.cluster(), parsed)
}

// marked are the groups that are marked for removal.
func (l *life) marked() map[v1beta2.ProcessGroupID]v1beta2.ProcessClass {
	found := map[v1beta2.ProcessGroupID]v1beta2.ProcessClass{}
	for _, g := range l.cluster().Status.ProcessGroups {
		if g.Marked() {
			found[g.ProcessGroupID] = g.ProcessClass
		}
	}
	return found
}

// Flaw 5: an exclusion that takes its time ends the pass. The links behind it go on.
func TestFlaw5(t *testing.T) {
	l := begin(t, sim.Options{}, func(c *v1beta2.FoundationDBCluster) {
		c.Spec.ProcessCounts = map[v1beta2.ProcessClass]int{"storage": 5}
	})
	l.settle(30 * time.Minute)
	l.lasts(3 * time.Minute)
	l.Cluster().Inject(fdbsim.Fault{Kind: fdbsim.FaultStuckMovement})
	l.edit(fmt.Sprintf(`{"spec":{"processGroupsToRemove":[%q]}}`, l.first("storage")))
	l.lasts(5 * time.Minute)
	l.edit(`{"spec":{"processes":{"general":{"podTemplate":{"metadata":{"labels":{"team":"data"}},"spec":{"containers":[]}}}}}}`)
	l.lasts(2 * time.Minute)
	for _, pod := range l.pods() {
		if pod.Labels["team"] != "data" {
			l.fail("%s has no new label: a stuck exclusion ends the pass", pod.Name)
		}
	}
	l.Cluster().Clear("")
	l.settle(time.Hour)
}

// Flaw 7: the shrinking of one class marks silent groups of all classes.
func TestFlaw7(t *testing.T) {
	l := begin(t, sim.Options{}, func(c *v1beta2.FoundationDBCluster) {
		c.Spec.ProcessCounts = map[v1beta2.ProcessClass]int{"storage": 6}
	})
	l.settle(30 * time.Minute)
	log, stateless := l.first("log"), l.first("stateless")
	l.Cluster().Cut(sim.ServerName(namespace, l.podOf(log), 1), true)
	l.Cluster().Cut(sim.ServerName(namespace, l.podOf(stateless), 1), true)
	l.lasts(10 * time.Minute)
	l.edit(`{"spec":{"processCounts":{"storage":5}}}`)
	for range 20 {
		l.pass()
		for id, class := range l.marked() {
			if class != "storage" {
				l.fail("%s is marked", id)
			}
		}
	}
	l.has("storage", 5)
}

// Flaw 8: an old client freezes everything. It holds back the upgrade, and nothing else.
func TestFlaw8(t *testing.T) {
	l := begin(t, sim.Options{}, nil)
	l.settle(30 * time.Minute)
	l.writes(200*time.Millisecond, "7.3.69", "7.4.6")
	l.Cluster().Connect(fdbsim.Client{Address: "192.0.2.9:4000", LogGroup: "old", Versions: []fdb.Version{{Major: 7, Minor: 3, Patch: 69}}})
	l.edit(fmt.Sprintf(`{"spec":{"version":"7.4.6","processGroupsToRemove":[%q]}}`, l.first("storage")))
	l.lasts(time.Hour)
	if len(l.marked()) > 0 || l.counts()["storage"] != 3 {
		l.fail("the group was not replaced")
	}
	c := meta.FindStatusCondition(l.cluster().Status.Conditions, clusters.TypeUpgradeBlocked)
	if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "192.0.2.9:4000") {
		l.fail("UpgradeBlocked: %v", c)
	}
	if v := l.cluster().Status.RunningVersion; v != "7.3.69" {
		l.fail("it runs %s", v)
	}
	l.Cluster().Disconnect("192.0.2.9:4000")
	l.settle(6 * time.Hour)
	if v := l.cluster().Status.RunningVersion; v != "7.4.6" {
		l.fail("it runs %s", v)
	}
	l.kept()
}

// Flaw 15: a group that never had an IP can never be removed.
func TestFlaw15(t *testing.T) {
	l := begin(t, sim.Options{}, nil)
	l.settle(30 * time.Minute)
	for n := range 20 {
		l.Cordon(sim.NodeName(n), true)
	}
	l.edit(`{"spec":{"processCounts":{"storage":4}}}`)
	for l.counts()["storage"] < 4 {
		l.pass()
	}
	l.lasts(5 * time.Minute)
	var lost v1beta2.ProcessGroupID
	for _, g := range l.cluster().Status.ProcessGroups {
		if len(g.Addresses) == 0 {
			lost = g.ProcessGroupID
		}
	}
	l.edit(fmt.Sprintf(`{"spec":{"processCounts":{"storage":3},"processGroupsToRemove":[%q]}}`, lost))
	l.settle(4 * time.Hour)
	for _, g := range l.cluster().Status.ProcessGroups {
		if g.ProcessGroupID == lost {
			l.fail("%s is still there", lost)
		}
	}
	l.has("storage", 3)
}

// Flaw 18: names stop resolving while a cluster file still holds them.
func TestFlaw18(t *testing.T) {
	l := begin(t, sim.Options{}, nil)
	l.settle(30 * time.Minute)
	deleted := false
	l.Before(func(e sim.Effect) error {
		if e.Verb != "Delete" || e.Kind != "Service" {
			return nil
		}
		deleted = true
		for _, pod := range l.pods() {
			for _, a := range l.Cluster().ClusterFile(sim.ServerName(namespace, pod.Name, 1)).Coordinators {
				if _, err := netip.ParseAddr(a.Host); err != nil {
					t.Errorf("%s still has %s in its cluster file", pod.Name, a)
				}
			}
		}
		return nil
	})
	l.edit(`{"spec":{"routing":{"useDNSInClusterFile":false}}}`)
	l.settle(6 * time.Hour)
	if !deleted {
		l.fail("the headless service is still there")
	}
}

// Flaw 19: a process that dies unseen by Kubernetes is noticed at the next change only. The next look sees it.
func TestFlaw19(t *testing.T) {
	l := begin(t, sim.Options{}, nil)
	l.settle(30 * time.Minute)
	id := l.first("storage")
	l.Cluster().Cut(sim.ServerName(namespace, l.podOf(id), 1), true)
	l.lasts(2 * time.Minute)
	for _, g := range l.cluster().Status.ProcessGroups {
		if g.ProcessGroupID == id && !g.Has(v1beta2.MissingProcesses) {
			l.fail("nobody has noticed")
		}
	}
}

// Flaw 20: a stale mark removes a group while nobody reports.
func TestFlaw20(t *testing.T) {
	l := begin(t, sim.Options{}, func(c *v1beta2.FoundationDBCluster) {
		c.Spec.ProcessCounts = map[v1beta2.ProcessClass]int{"storage": 5}
	})
	l.settle(30 * time.Minute)
	l.lasts(3 * time.Minute)
	id := l.first("storage")
	pod := l.podOf(id)
	l.edit(fmt.Sprintf(`{"spec":{"processGroupsToRemoveWithoutExclusion":[%q]}}`, id))
	for _, other := range l.pods() {
		l.Cluster().Cut(sim.ServerName(namespace, other.Name, 1), true)
	}
	l.Before(func(e sim.Effect) error {
		if e.Verb == "Delete" && e.Name == pod {
			t.Errorf("%s is deleted while nobody reports", pod)
		}
		return nil
	})
	for until := l.Now().Add(time.Hour); l.Now().Before(until); {
		l.operator.Reconcile(t.Context(), l.ref())
		l.Advance(15 * time.Second)
	}
}

// Flaw 21: a value of the spec becomes a second command of fdbcli. It is refused with its path, and pods of
// groups that are there still come back.
func TestFlaw21(t *testing.T) {
	l := begin(t, sim.Options{}, nil)
	l.settle(30 * time.Minute)
	l.Before(func(e sim.Effect) error {
		if e.Verb == "Run" {
			t.Errorf("%s", e)
		}
		return nil
	})
	l.edit(`{"spec":{"databaseConfiguration":{"regions":[{"datacenters":[{"id":"dc1; kill; kill all","priority":1}]}]}}}`)
	l.lasts(2 * time.Minute)
	if l.last.Reason() != foundationdb.SpecInvalid.Reason() || !strings.Contains(l.last.Message(), "spec.databaseConfiguration.regions[0].datacenters[0].id") {
		l.fail("it says %s", l.last)
	}
	pod := l.podOf(l.first("log"))
	l.DeletePod(namespace, pod)
	l.lasts(2 * time.Minute)
	for _, p := range l.pods() {
		if p.Name == pod {
			return
		}
	}
	l.fail("%s has not come back", pod)
}
