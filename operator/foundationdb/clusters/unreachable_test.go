package clusters_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// TestWhyASidecarIsNotReachedIsTold: an operator that starts and reaches no sidecar tells why, once for each.
func TestWhyASidecarIsNotReachedIsTold(t *testing.T) {
	t.Parallel()
	l := begin(t, sim.Options{}, func(c *v1beta2.FoundationDBCluster) { c.Spec.ImageType = v1beta2.ImageTypeSplit })
	l.settle(time.Hour)
	l.Inject(sim.Fault{Kind: sim.FaultSidecarSilent, For: 10 * time.Minute})
	l.restart(sim.Operator)
	for range 3 {
		l.pass()
	}
	told := 0
	for _, e := range l.Events() {
		if e.Reason == string(v1beta2.SidecarUnreachable) && e.Warning && strings.Contains(e.Message, ": ") {
			told++
		}
	}
	if n := len(l.cluster().Status.ProcessGroups); told != n {
		l.fail("%d Events tell why, for %d groups", told, n)
	}
}
