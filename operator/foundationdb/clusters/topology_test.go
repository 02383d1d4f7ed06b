package clusters_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// shared are the options of a world in which several instances act on one database.
func shared(nodes, zones int) sim.Options {
	return sim.Options{Nodes: nodes, Zones: zones, Database: fdbsim.Options{Rules: fdbsim.Rules{Locks: true}}}
}

// TestThreeDataHallByNodeLabels: one object over the zones of a Kubernetes cluster; the launcher reads the hall
// from the labels of its node.
func TestThreeDataHallByNodeLabels(t *testing.T) {
	t.Parallel()
	f := newFleet(t, sim.Options{Nodes: 36, Zones: 3})
	u := f.add(example(t, "three-data-hall.yaml")[0])
	f.settle(time.Hour)
	f.writes()
	f.spread(fdb.DataHallLocality, 9, 3)
	f.settled()
	f.costs("grow", 0, time.Hour, func() { f.edit(`{"spec":{"databaseConfiguration":{"storage":12}}}`) })
	u.has("storage", 12)
	f.costs("knob", 1, time.Hour, func() {
		f.edit(`{"spec":{"processes":{"general":{"customParameters":["knob_disable_posix_kernel_aio=1","locality_data_hall=$NODE_LABEL_TOPOLOGY_KUBERNETES_IO_ZONE","knob_max_trace_lines=1000000"]}}}}`)
	})
	f.spread(fdb.DataHallLocality, 9, 3)
	f.kept()
}

// TestKubernetesClusters: one database over three Kubernetes clusters, each a fault domain.
func TestKubernetesClusters(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shared(24, 3))
	objects := example(t, "kubernetes-clusters.yaml")
	f.add(objects[0])
	f.goOn(3 * time.Minute)
	for _, c := range objects[1:] {
		c.Spec.SeedConnectionString = f.units[0].object().Status.ConnectionString
		f.add(c)
	}
	f.settle(2 * time.Hour)
	f.writes()
	f.settled()
	f.kept()
}
