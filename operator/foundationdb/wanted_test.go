package foundationdb

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// What was worked out for a cluster is used again when its children stay the same, and only then.
func TestWantedRenewed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w *Wanted
		for range 3 {
			c, id := drawCluster(t)
			c.Status.ConnectionString = rapid.SampledFrom([]string{"", "a:b@10.0.0.1:4501", "a:b@sample-storage-1.sample.default.svc.cluster.local:4501"}).Draw(t, "connection")
			c.Status.HasListenIPsForAllPods = rapid.Bool().Draw(t, "all listen")
			c.Status.RequiredAddresses = v1beta2.RequiredAddressSet{TLS: rapid.Bool().Draw(t, "TLS"), NonTLS: rapid.Bool().Draw(t, "no TLS")}
			w = w.Renewed(c)
			spec, err := PodSpec(c, id)
			if err != nil {
				t.Fatal(err)
			}
			if hash, err := w.PodHash(id); err != nil || hash != PodHash(spec) {
				t.Fatalf("%s: %s %v, expected %s", id, hash, err, PodHash(spec))
			}
			want, err := StartCommands(c, id.Class, c.Spec.ImageType, 2, nil)
			if got, err2 := w.StartCommands(id.Class, c.Spec.ImageType, 2, nil); !slices.Equal(got, want) || (err == nil) != (err2 == nil) {
				t.Fatalf("%s: %q %v, expected %q %v", id, got, err2, want, err)
			}
			later := c.DeepCopy()
			later.ResourceVersion, later.Status.ProcessGroups = "2", []v1beta2.ProcessGroupStatus{{ProcessGroupID: "storage-1"}}
			if w.Renewed(later) != w {
				t.Fatal("worked out again, though nothing that counts has changed")
			}
		}
	})
}
