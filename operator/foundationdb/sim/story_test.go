package sim_test

import (
	"testing"

	"encoding/json"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

func (f *fixture) patch(o port.Object, patch map[string]any) {
	f.t.Helper()
	text, err := json.Marshal(patch)
	f.must(err)
	f.must(f.Objects().Patch(f.t.Context(), o, text))
}

func TestCreate(t *testing.T) {
	for _, image := range []v1beta2.ImageType{v1beta2.ImageTypeUnified, v1beta2.ImageTypeSplit} {
		t.Run(string(image), func(t *testing.T) {
			f := newFixture(t, sim.Options{Seed: 1}, image)
			f.create(5, 3, 4)
			t.Logf("available %v, unhealthy: %s", f.Cluster().Available(), f.Cluster().Unhealthy())
			s := f.status()
			t.Log(len(s.Cluster.Processes), s.Cluster.DatabaseAvailable)
			for _, l := range f.Cluster().Transcript() {
				t.Log(l)
			}
			t.Log(f.get("sample-storage-1").Annotations)
			for _, v := range f.Cluster().Violations() {
				t.Error(v)
			}
		})
	}
}
