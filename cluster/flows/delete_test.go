package flows_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service/servicetest"
	"github.com/pawl-dev/pawl/provider/sim"
)

func TestDeleteTouchesNothingOfOthers(t *testing.T) {
	s := servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}
	t.Run("a foreign VM keeps the network, and is named", func(t *testing.T) {
		servicetest.Running(t, s, 2, func(t *testing.T, w *servicetest.World, id string) {
			if _, err := w.Cloud.AddForeignVM("stranger", w.Cluster(id).Network.ID); err != nil {
				t.Fatal(err)
			}
			job := w.RequestUntil(id, cluster.RequestDelete, cluster.Expunge)
			w.Failed(job, "NETWORK_HAS_FOREIGN_VM")
			if c := w.Cluster(id); !strings.Contains(c.Reason.Text, "stranger") || len(w.VMs()) != 1 {
				t.Errorf("reason %+v, VMs %v", c.Reason, w.VMs())
			}
			if err := w.Cloud.DestroyVM("stranger"); err != nil {
				t.Fatal(err)
			}
			if c := w.Until(id, time.Hour, cluster.Destroyed); c.Reason != (cluster.Reason{}) { // by the collector
				t.Errorf("what stood in the way is out of it: %+v", c.Reason)
			}
			w.CheckEmpty()
		})
	})
	t.Run("of a create that failed, the reason stays beyond what stood in the way", func(t *testing.T) {
		servicetest.InWorld(t, s, func(t *testing.T, w *servicetest.World) {
			w.Cloud.Inject(sim.Rule{Call: sim.Create, Kind: cluster.VM, Name: "*worker*", Do: sim.Fail, Err: cluster.CapacityExhausted})
			w.Cloud.Inject(sim.Rule{Call: sim.Act, Kind: cluster.VM, Do: sim.Fail, Err: cluster.ResourceInUse})
			id := w.Create("blue", 2)
			if c := w.Until(id, 2*time.Hour, cluster.Expunge); c.Reason.Code == cluster.CapacityExhausted.Code {
				t.Errorf("it could not be deleted for %+v", c.Reason)
			}
			w.Cloud.ClearRules()
			if c := w.Until(id, 2*time.Hour, cluster.Destroyed); c.Reason.Code != cluster.CapacityExhausted.Code {
				t.Errorf("reason %+v\n%s", c.Reason, w.Story(id))
			}
			w.CheckEmpty()
		})
	})
	t.Run("a given network stays", func(t *testing.T) {
		servicetest.InWorld(t, s, func(t *testing.T, w *servicetest.World) {
			net, err := w.Cloud.AddNetwork("theirs", servicetest.Me)
			if err != nil {
				t.Fatal(err)
			}
			id := w.Create("blue", 2, func(c *cluster.Cluster) { c.Network = cluster.Entity{ID: net.ID, Name: net.Name} })
			w.Until(id, time.Hour, cluster.Running)
			w.RequestUntil(id, cluster.RequestDelete, cluster.Destroyed)
			w.CheckEmpty()
			if _, there := w.Cloud.Lookup(cluster.Network, net.ID); !there {
				t.Error("the network is gone")
			}
			for _, r := range w.Cloud.All(cluster.Firewall, cluster.Forward, cluster.Balancer) {
				t.Errorf("rule %s is left", r.Name)
			}
		})
	})
}

// A VM that cannot be destroyed does not end the deletion: all other VMs are
// deleted, the network stays, and the cluster is in Expunge with a reason. Once
// the VM can be destroyed, another delete completes the deletion.
func TestDeleteGoesOnAfterAFailure(t *testing.T) {
	servicetest.Running(t, servicetest.Setup{}, 3, func(t *testing.T, w *servicetest.World, id string) {
		w.Cloud.Inject(sim.Rule{Call: "act", Action: cluster.Destroy, Kind: cluster.VM, Name: "blue-*-worker1", Do: sim.Fail})
		job := w.Ask(id, cluster.RequestDelete, func(c *cluster.Cluster, _ *cluster.Request) { c.Desired = cluster.WantDestroyed })
		c := w.Until(id, time.Hour, cluster.Expunge)
		left := slices.Collect(maps.Keys(w.VMs()))
		if len(left) != 1 || !strings.HasSuffix(left[0], "worker1") || len(w.Cloud.All(cluster.Network)) != 1 {
			t.Errorf("VMs %v and %d networks are left\n%s", left, len(w.Cloud.All(cluster.Network)), w.Story(id))
		}
		if c.Reason.Code != cluster.ProviderRefused.Code {
			t.Errorf("reason %+v", c.Reason)
		}
		w.Failed(job, string(cluster.ProviderRefused.Code))
		w.Cloud.ClearRules()
		w.Ask(id, cluster.RequestDelete, nil)
		w.Until(id, time.Hour, cluster.Destroyed)
		w.CheckEmpty()
	})
}

// On a cloud that makes the first address of a network its source NAT, that
// address cannot be released. It goes with the network, and the deletion succeeds
// without the collector.
func TestFinding16SourceNATGoesWithItsNetwork(t *testing.T) {
	late := servicetest.Setup{Sim: sim.Options{LateSourceNAT: true, Times: servicetest.Slow}}
	t.Run("its own network", func(t *testing.T) {
		servicetest.Running(t, late, 2, func(t *testing.T, w *servicetest.World, id string) {
			job := w.RequestUntil(id, cluster.RequestDelete, cluster.Destroyed)
			w.Done(job)
			w.CheckEmpty()
			if w.Path(id) != "Starting Running Stopping Stopped Expunging Destroyed" {
				t.Errorf("path %s\n%s", w.Path(id), w.Story(id))
			}
			for _, e := range w.Cloud.Calls() {
				if e.Call == "act" && e.Kind == cluster.Address {
					t.Errorf("address %s was to be %sed", e.Name, e.Action)
				}
			}
			for _, row := range w.Record(id).Journal {
				if row.Phase.Open() {
					t.Errorf("%s %s is %s", row.Kind, row.Name, row.Phase)
				}
			}
		})
	})
	t.Run("a row of an older version, recorded as one to be released", func(t *testing.T) {
		servicetest.Running(t, late, 1, func(t *testing.T, w *servicetest.World, id string) {
			record := w.Record(id)
			i := slices.IndexFunc(record.Journal, func(r cluster.JournalRow) bool { return r.Kind == cluster.Address })
			row := &record.Journal[i]
			row.Origin = cluster.OriginCreated
			if err := w.Records.Commit(t.Context(), &cluster.Change{ClusterID: record.Cluster.ID, Journal: []*cluster.JournalRow{row}}); err != nil {
				t.Fatal(err)
			}
			w.Done(w.RequestUntil(id, cluster.RequestDelete, cluster.Destroyed))
			w.CheckEmpty()
		})
	})
	t.Run("one that is there already is used, and stays", func(t *testing.T) {
		servicetest.InWorld(t, late, func(t *testing.T, w *servicetest.World) {
			net, err := w.Cloud.AddNetwork("theirs", servicetest.Me)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Cloud.Add(cluster.DesiredResource{Kind: cluster.Address, Name: "nat", Owner: servicetest.Me, Spec: cluster.Spec{Network: net.ID}}); err != nil {
				t.Fatal(err)
			}
			id := w.Create("blue", 1, func(c *cluster.Cluster) { c.Network = cluster.Entity{ID: net.ID, Name: net.Name} })
			w.Until(id, time.Hour, cluster.Running)
			w.Done(w.RequestUntil(id, cluster.RequestDelete, cluster.Destroyed))
			w.CheckEmpty()
			if left := w.Cloud.All(cluster.Address); len(left) != 1 || left[0].Name != "nat" {
				t.Errorf("addresses %v are left", left)
			}
		})
	})
}
