package clusters_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// A cluster that does not want it cached has its status read before each link that acts by it.
func TestStatusIsNotCached(t *testing.T) {
	reads := func(cached *bool) int {
		l := begin(t, sim.Options{}, func(c *v1beta2.FoundationDBCluster) {
			c.Spec.AutomationOptions.CacheDatabaseStatusForReconciliation = cached
		})
		l.settle(30 * time.Minute)
		l.ResetCalls()
		before := l.passes
		l.settled()
		return l.Calls()[sim.Call{Verb: "Status"}] / (l.passes - before)
	}
	if once, often := reads(nil), reads(new(bool)); once != 1 || often != 7 {
		t.Errorf("%d and %d reads a pass", once, often)
	}
}
