package clusters_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
)

// TestTwoObjectsWithOnePrefix: the object that joins a database under the prefix of another one is refused, with its
// field and the name of the other; with a prefix of its own it joins. The first one goes on all the while.
func TestTwoObjectsWithOnePrefix(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shared(12, 1))
	f.add(small("one", "a"))
	f.settle(time.Hour)
	f.writes()
	second := f.join(small("two", "a"))
	f.goOn(30 * time.Minute)
	c := meta.FindStatusCondition(second.object().Status.Conditions, clusters.TypeReconciled)
	if c == nil || c.Reason != "FdbSpecInvalid" || !strings.Contains(c.Message, "spec.processGroupIDPrefix: cluster "+namespace+"/one of the same database has this prefix too") {
		f.fail("the second object: %+v", c)
	}
	if n := len(second.object().Status.ProcessGroups); n > 0 {
		f.fail("the second object has %d groups", n)
	}
	f.units[0].edit(`{"spec":{"processCounts":{"storage":4}}}`)
	f.goOn(time.Hour)
	f.units[0].has("storage", 4)
	second.edit(`{"spec":{"processGroupIDPrefix":"b"}}`)
	f.settle(2 * time.Hour)
	second.has("storage", 3)
	f.kept()
}

// small is a cluster with locks, to share a database with others.
func small(name, prefix string) *v1beta2.FoundationDBCluster {
	c := &v1beta2.FoundationDBCluster{}
	c.Namespace, c.Name = namespace, name
	c.Spec.Version, c.Spec.ProcessGroupIDPrefix = "7.3.69", prefix
	c.Spec.LockOptions.DisableLocks = new(false)
	c.Spec.ProcessCounts = map[v1beta2.ProcessClass]int{"storage": 3, "log": 3, "stateless": 3}
	return c
}
