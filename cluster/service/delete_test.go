package service_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/sim"
)

func TestDeleteTouchesNothingOfOthers(t *testing.T) {
	s := setup{sim: sim.Options{Times: slow}}
	t.Run("a foreign VM keeps the network, and is named", func(t *testing.T) {
		running(t, s, 2, func(t *testing.T, w *world, id string) {
			if _, err := w.cloud.AddForeignVM("stranger", w.cluster(id).Network.ID); err != nil {
				t.Fatal(err)
			}
			job := w.requestUntil(id, cluster.RequestDelete, cluster.Expunge)
			w.failed(job, "NETWORK_HAS_FOREIGN_VM")
			if c := w.cluster(id); !strings.Contains(c.Reason.Text, "stranger") || len(w.vms()) != 1 {
				t.Errorf("reason %+v, VMs %v", c.Reason, w.vms())
			}
			if err := w.cloud.DestroyVM("stranger"); err != nil {
				t.Fatal(err)
			}
			if c := w.until(id, time.Hour, cluster.Destroyed); c.Reason != (cluster.Reason{}) { // by the collector
				t.Errorf("what stood in the way is out of it: %+v", c.Reason)
			}
			w.checkEmpty()
		})
	})
	t.Run("of a create that failed, the reason stays beyond what stood in the way", func(t *testing.T) {
		inWorld(t, s, func(t *testing.T, w *world) {
			w.cloud.Inject(sim.Rule{Call: sim.Create, Kind: cluster.VM, Name: "*worker*", Do: sim.Fail, Err: cluster.CapacityExhausted})
			w.cloud.Inject(sim.Rule{Call: sim.Act, Kind: cluster.VM, Do: sim.Fail, Err: cluster.ResourceInUse})
			id := w.create("blue", 2)
			if c := w.until(id, 2*time.Hour, cluster.Expunge); c.Reason.Code == cluster.CapacityExhausted.Code {
				t.Errorf("it could not be deleted for %+v", c.Reason)
			}
			w.cloud.ClearRules()
			if c := w.until(id, 2*time.Hour, cluster.Destroyed); c.Reason.Code != cluster.CapacityExhausted.Code {
				t.Errorf("reason %+v\n%s", c.Reason, w.story(id))
			}
			w.checkEmpty()
		})
	})
	t.Run("a given network stays", func(t *testing.T) {
		inWorld(t, s, func(t *testing.T, w *world) {
			net, err := w.cloud.AddNetwork("theirs", me)
			if err != nil {
				t.Fatal(err)
			}
			id := w.create("blue", 2, func(c *cluster.Cluster) { c.Network = cluster.Entity{ID: net.ID, Name: net.Name} })
			w.until(id, time.Hour, cluster.Running)
			w.requestUntil(id, cluster.RequestDelete, cluster.Destroyed)
			w.checkEmpty()
			if _, there := w.cloud.Lookup(cluster.Network, net.ID); !there {
				t.Error("the network is gone")
			}
			for _, r := range w.cloud.All(cluster.Firewall, cluster.Forward, cluster.Balancer) {
				t.Errorf("rule %s is left", r.Name)
			}
		})
	})
}

// A VM that cannot be destroyed does not end the deletion: all other VMs are
// deleted, the network stays, and the cluster is in Expunge with a reason. Once
// the VM can be destroyed, another delete completes the deletion.
func TestDeleteGoesOnAfterAFailure(t *testing.T) {
	running(t, setup{}, 3, func(t *testing.T, w *world, id string) {
		w.cloud.Inject(sim.Rule{Call: "act", Action: cluster.Destroy, Kind: cluster.VM, Name: "blue-*-worker1", Do: sim.Fail})
		job := w.ask(id, cluster.RequestDelete, func(c *cluster.Cluster, _ *cluster.Request) { c.Desired = cluster.WantDestroyed })
		c := w.until(id, time.Hour, cluster.Expunge)
		left := slices.Collect(maps.Keys(w.vms()))
		if len(left) != 1 || !strings.HasSuffix(left[0], "worker1") || len(w.cloud.All(cluster.Network)) != 1 {
			t.Errorf("VMs %v and %d networks are left\n%s", left, len(w.cloud.All(cluster.Network)), w.story(id))
		}
		if c.Reason.Code != cluster.ProviderRefused.Code {
			t.Errorf("reason %+v", c.Reason)
		}
		w.failed(job, string(cluster.ProviderRefused.Code))
		w.cloud.ClearRules()
		w.ask(id, cluster.RequestDelete, nil)
		w.until(id, time.Hour, cluster.Destroyed)
		w.checkEmpty()
	})
}

// On a cloud that makes the first address of a network its source NAT, that
// address cannot be released. It goes with the network, and the deletion succeeds
// without the collector.
func TestFinding16SourceNATGoesWithItsNetwork(t *testing.T) {
	late := setup{sim: sim.Options{LateSourceNAT: true, Times: slow}}
	t.Run("its own network", func(t *testing.T) {
		running(t, late, 2, func(t *testing.T, w *world, id string) {
			job := w.requestUntil(id, cluster.RequestDelete, cluster.Destroyed)
			w.done(job)
			w.checkEmpty()
			if w.path(id) != "Starting Running Stopping Stopped Expunging Destroyed" {
				t.Errorf("path %s\n%s", w.path(id), w.story(id))
			}
			for _, e := range w.cloud.Calls() {
				if e.Call == "act" && e.Kind == cluster.Address {
					t.Errorf("address %s was to be %sed", e.Name, e.Action)
				}
			}
			for _, row := range w.record(id).Journal {
				if row.Phase.Open() {
					t.Errorf("%s %s is %s", row.Kind, row.Name, row.Phase)
				}
			}
		})
	})
	t.Run("a row of an older version, recorded as one to be released", func(t *testing.T) {
		running(t, late, 1, func(t *testing.T, w *world, id string) {
			record := w.record(id)
			i := slices.IndexFunc(record.Journal, func(r cluster.JournalRow) bool { return r.Kind == cluster.Address })
			row := &record.Journal[i]
			row.Origin = cluster.OriginCreated
			if err := w.records.Commit(t.Context(), &cluster.Change{ClusterID: record.Cluster.ID, Journal: []*cluster.JournalRow{row}}); err != nil {
				t.Fatal(err)
			}
			w.done(w.requestUntil(id, cluster.RequestDelete, cluster.Destroyed))
			w.checkEmpty()
		})
	})
	t.Run("one that is there already is used, and stays", func(t *testing.T) {
		inWorld(t, late, func(t *testing.T, w *world) {
			net, err := w.cloud.AddNetwork("theirs", me)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.cloud.Add(cluster.DesiredResource{Kind: cluster.Address, Name: "nat", Owner: me, Spec: cluster.Spec{Network: net.ID}}); err != nil {
				t.Fatal(err)
			}
			id := w.create("blue", 1, func(c *cluster.Cluster) { c.Network = cluster.Entity{ID: net.ID, Name: net.Name} })
			w.until(id, time.Hour, cluster.Running)
			w.done(w.requestUntil(id, cluster.RequestDelete, cluster.Destroyed))
			w.checkEmpty()
			if left := w.cloud.All(cluster.Address); len(left) != 1 || left[0].Name != "nat" {
				t.Errorf("addresses %v are left", left)
			}
		})
	})
}
