package sharedstorage_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
)

// A change of durability reaches the cluster manager while the cluster is at rest, without a run
// (spec 1).
func TestDurability(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		visit := l.observe("blue").Status.Visit
		for _, want := range []string{"available", "strict", "available", ""} {
			l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Durability = want })
			if want == "" {
				want = "strict"
			}
			l.until("blue", want, 10*time.Second, func(*sharedstorage.Cluster) bool { return l.sim.Topology(ref("blue")).Durability == want })
			l.awaitRunning("blue", time.Minute)
			l.checkInvariants("blue")
		}
		if now := l.observe("blue").Status.Visit; now != visit {
			t.Errorf("the edits made %d moves\n%s", now-visit, l.story())
		}
	})
}

// The cluster manager also gets a change of durability while a run is paused, because the cluster
// still serves clients.
func TestDurabilityWhileARunIsPaused(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.edit("blue", parameters("bad_one", "1"))
		l.interrupted("PARAMETER_INVALID", time.Hour)
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Durability = "available" })
		l.until("blue", "available", time.Minute, func(*sharedstorage.Cluster) bool {
			return l.sim.Topology(ref("blue")).Durability == "available"
		})
	})
}
