package clusters_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// beginWithOneCoordinator begins a life without redundancy: its one coordinator is known by its address.
func beginWithOneCoordinator(t *testing.T) *life {
	t.Helper()
	l := begin(t, sim.Options{}, func(c *v1beta2.FoundationDBCluster) {
		c.Spec.DatabaseConfiguration.RedundancyMode = "single"
		c.Spec.Routing.UseDNSInClusterFile = new(false)
		c.Spec.AutomationOptions.PodUpdateStrategy = v1beta2.PodUpdateDelete
		c.Spec.MinimumUptimeSecondsForBounce = 60
	})
	l.settle(time.Hour)
	l.writes(2*time.Second, "7.3.69")
	return l
}

// TestTheOnlyCoordinator: without redundancy there is one coordinator, which would come back at another address. Its
// group is replaced, where the pods of others are made anew.
func TestTheOnlyCoordinator(t *testing.T) {
	t.Parallel()
	l := beginWithOneCoordinator(t)
	pods := map[string]bool{}
	for _, pod := range l.podList() {
		pods[pod.Name] = true
	}
	l.edit(`{"spec":{"processes":{"general":{"podTemplate":{"spec":{"terminationGracePeriodSeconds":60}}}}}}`)
	l.settle(4 * time.Hour)
	l.settled()
	l.tidy()
	replaced := 0
	for _, pod := range l.podList() {
		if !pods[pod.Name] {
			replaced++
		}
	}
	if replaced != 1 {
		l.fail("%d groups were replaced", replaced)
	}
	l.kept()
}

// TestTheOnlyCoordinatorInAConversion: a conversion to TLS waits for pods that do not know their name. That of the only
// coordinator is replaced, though other replacements wait for the conversion.
func TestTheOnlyCoordinatorInAConversion(t *testing.T) {
	t.Parallel()
	l := beginWithOneCoordinator(t)
	l.edit(`{"spec":{"mainContainer":{"enableTls":true},"routing":{"useDNSInClusterFile":true}}}`)
	l.settle(6 * time.Hour)
	l.settled()
	l.tidy()
	for _, a := range l.Cluster().Connection().Coordinators {
		if _, err := netip.ParseAddr(a.Host); err == nil || !a.TLS {
			l.fail("the coordinator is %s", a)
		}
	}
	l.kept()
}
