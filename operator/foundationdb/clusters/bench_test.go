package clusters_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

func BenchmarkSteady(b *testing.B) {
	l := begin(b, sim.Options{Nodes: 300}, func(c *v1beta2.FoundationDBCluster) {
		c.Spec.ProcessCounts = map[v1beta2.ProcessClass]int{"storage": 240, "log": 30, "stateless": 30}
	})
	l.settle(time.Hour)
	l.pass()
	b.ResetTimer()
	for range b.N {
		l.operator.Reconcile(b.Context(), l.ref())
	}
}
