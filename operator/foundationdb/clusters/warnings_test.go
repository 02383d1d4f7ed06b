package clusters_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// TestWarnings: what is allowed and may not do what is expected is an Event, once for each generation of the spec.
func TestWarnings(t *testing.T) {
	t.Parallel()
	l := begin(t, sim.Options{}, func(c *v1beta2.FoundationDBCluster) {
		c.Spec.ProcessGroupsToRemove = []v1beta2.ProcessGroupID{"storage-1"}
	})
	l.settle(30 * time.Minute)
	told := func() (n int) {
		for _, e := range l.Events() {
			if e.Reason == "SpecWarning" && strings.Contains(e.Message, "spec.processGroupsToRemove[0]: there is no group") {
				n++
			}
		}
		return n
	}
	if n := told(); n != 1 {
		t.Errorf("%d times", n)
	}
	l.edit(`{"spec":{"minimumUptimeSecondsForBounce":700}}`)
	l.settle(30 * time.Minute)
	if n := told(); n != 2 {
		t.Errorf("%d times after a change", n)
	}
}
