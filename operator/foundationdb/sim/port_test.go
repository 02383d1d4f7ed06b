package sim_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/port/porttest"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

func TestObjects(t *testing.T) {
	var w *sim.World
	porttest.Objects(t, porttest.ObjectsHarness{
		Open: func(testing.TB) porttest.ObjectsFixture {
			w = sim.New(sim.Options{Seed: 1})
			return porttest.ObjectsFixture{Objects: w.Objects(), Namespaces: [2]string{"a", "b"}}
		},
		Wait: func(testing.TB) { w.Advance(time.Second) }, Collects: true,
	})
}

func TestObjectsWithLateLists(t *testing.T) {
	var w *sim.World
	porttest.Objects(t, porttest.ObjectsHarness{
		Open: func(testing.TB) porttest.ObjectsFixture {
			w = sim.New(sim.Options{Seed: 1})
			w.Inject(sim.Fault{Kind: sim.FaultStaleList, Lag: 3 * time.Second})
			return porttest.ObjectsFixture{Objects: w.Objects(), Namespaces: [2]string{"a", "b"}}
		},
		Wait: func(testing.TB) { w.Advance(time.Second) }, Collects: true,
	})
}

func TestDatabase(t *testing.T) {
	var f *fixture
	porttest.Database(t, porttest.DatabaseHarness{
		Open: func(t testing.TB) porttest.DatabaseFixture {
			f = newFixture(t, sim.Options{Seed: 1}, v1beta2.ImageTypeUnified)
			f.create(5, 3, 4)
			return porttest.DatabaseFixture{Database: f.Database(), At: f.at()}
		},
		Wait: func(testing.TB) { f.Advance(time.Second) },
	})
}

func TestSidecars(t *testing.T) {
	var f *fixture
	porttest.Sidecars(t, porttest.SidecarsHarness{
		Open: func(t testing.TB) porttest.SidecarsFixture {
			f = newFixture(t, sim.Options{Seed: 1}, v1beta2.ImageTypeSplit)
			f.create(5, 3, 4)
			pod := f.get("sample-storage-1")
			silent := f.get("sample-storage-2")
			f.LoseNode(silent.Spec.NodeName)
			return porttest.SidecarsFixture{
				Sidecars: f.Sidecars(), Pod: pod, Silent: silent,
				Variables: map[string]string{
					"FDB_PUBLIC_IP": pod.Status.PodIP, "FDB_INSTANCE_ID": "storage-1", "FDB_ZONE_ID": pod.Spec.NodeName, "FDB_MACHINE_ID": pod.Spec.NodeName,
					"BINARY_DIR": "/usr/bin", "FDB_DNS_NAME": "sample-storage-1.sample.demo.svc.cluster.local",
				},
				Files: map[string]string{"fdb.cluster": f.cluster.Status.ConnectionString},
				Change: func(_ testing.TB, _, content string) {
					f.patch(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sample-config"}}, map[string]any{"data": map[string]any{"cluster-file": content}})
				},
			}
		},
		Wait: func(testing.TB) { f.Advance(time.Second) },
	})
}
