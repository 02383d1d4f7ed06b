package clusters_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// TestCoordinatorLostInAConversion: the pod of a coordinator by its IP comes back at another one while servers are to
// listen with TLS, and wait for pods that can tell their names.
func TestCoordinatorLostInAConversion(t *testing.T) {
	l := begin(t, sim.Options{Nodes: 14}, func(c *v1beta2.FoundationDBCluster) {
		c.Spec.Routing.UseDNSInClusterFile = new(false)
		c.Spec.AutomationOptions.Replacements.Enabled = new(false)
	})
	l.settle(time.Hour)
	l.writes(time.Second, "7.1.67", "7.3.69", "7.4.6")
	l.edit(`{"spec":{"mainContainer":{"enableTls":true},"routing":{"useDNSInClusterFile":true}}}`)
	for range 2 {
		l.pass()
	}
	pods := l.podList()
	at := slices.IndexFunc(l.Cluster().Connection().Coordinators, func(a fdb.Address) bool { return a.Host == pods[0].Status.PodIP })
	for at < 0 && len(pods) > 1 {
		pods = pods[1:]
		at = slices.IndexFunc(l.Cluster().Connection().Coordinators, func(a fdb.Address) bool { return a.Host == pods[0].Status.PodIP })
	}
	l.Evict(namespace, pods[0].Name)
	l.settle(4 * time.Hour)
	l.settled()
	l.tidy()
	l.kept()
	for _, a := range l.Cluster().Connection().Coordinators {
		if !a.TLS {
			l.fail("coordinator %s", a)
		}
	}
}
