package api_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/cluster/service/servicetest"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/provider/sim"
)

// Leaks of an unknown cluster, by id or by name, are an error. An empty list would
// read as "nothing has leaked".
func TestFinding21LeaksOfAnUnknownClusterAreAnError(t *testing.T) {
	c := newFixture(t, cluster.Limits{})
	created := c.make(as("uma"), "blue")
	for _, known := range []string{"", created.UUID, "blue"} {
		if leaks, total, err := c.Leaks(t.Context(), superuser, known, "", 0, 10); err != nil || total != 0 || len(leaks) != 0 {
			t.Errorf("%q: %v %d %v", known, leaks, total, err)
		}
	}
	for _, unknown := range []string{"nope", "00000000-0000-4000-8000-00000000ffff"} {
		if leaks, _, err := c.Leaks(t.Context(), superuser, unknown, "", 0, 10); !errors.Is(err, cluster.NotFound) {
			t.Errorf("%q: %v %v", unknown, leaks, err)
		}
	}
	// A leak outlives the record of its cluster.
	b, err := c.records.Record(t.Context(), created.UUID)
	if err != nil {
		t.Fatal(err)
	}
	row := &cluster.JournalRow{Kind: cluster.VM, Name: "blue-worker1", Key: "k", Phase: cluster.Leaked, Origin: cluster.OriginCreated}
	if err := c.records.Commit(t.Context(), &cluster.Change{ClusterID: b.Cluster.ID, Journal: []*cluster.JournalRow{row}}); err != nil {
		t.Fatal(err)
	}
	if leaks, total, err := c.Leaks(t.Context(), superuser, "blue", "", 0, 10); err != nil || total != 1 || leaks[0].Resource != "blue-worker1" {
		t.Errorf("by name: %v %d %v", leaks, total, err)
	}
}

// A scale beyond the account's limits is refused at once: nothing is written, and
// the cluster does not enter Alert.
func TestFinding21ScaleBeyondTheLimitIsRefused(t *testing.T) {
	c := newFixture(t, cluster.Limits{Nodes: 4})
	id := c.make(as("uma"), "blue").UUID
	size := 4
	for _, state := range []func(*cluster.Cluster){
		func(c *cluster.Cluster) { c.State, c.Started = cluster.Running, true },
		func(c *cluster.Cluster) { c.State, c.Started, c.NodeCount = cluster.Alert, true, 9 }, // a scale to 9 has failed
	} {
		c.put(id, cluster.Running, state)
		before, _ := c.Get(t.Context(), superuser, id)
		jobs := func() int { _, n, _ := c.Jobs(t.Context(), superuser, cluster.JobQuery{}); return n }
		had := jobs()
		for name, ask := range map[string]func() error{
			"scale": func() error {
				_, _, err := c.Change(t.Context(), as("uma"), id, api.ChangeRequest{Kind: cluster.RequestScale, Size: size})
				return err
			},
			"patch": func() error {
				_, _, err := c.Patch(t.Context(), as("uma"), id, api.PatchRequest{Size: &size})
				return err
			},
		} {
			if err := ask(); !errors.Is(err, cluster.AccountLimit) {
				t.Errorf("%s of a cluster that is %s: %v", name, before.Cluster.State, err)
			}
		}
		if after, _ := c.Get(t.Context(), superuser, id); after.Cluster.Revision != before.Cluster.Revision || jobs() != had {
			t.Errorf("a refused scale has written: %+v", after.Cluster)
		}
	}
	// A size within the limit is allowed.
	if _, _, err := c.Change(t.Context(), as("uma"), id, api.ChangeRequest{Kind: cluster.RequestScale, Size: 3}); err != nil {
		t.Errorf("a size that fits: %v", err)
	}
}

// A scale beyond the capacity of the provider is refused at once too, and its plan has the same fault.
func TestFinding21ScaleWithoutCapacityIsRefused(t *testing.T) {
	servicetest.Running(t, servicetest.Setup{Sim: sim.Options{Zones: []sim.Zone{{ID: "zone-1", Name: "zone-1", VMs: 4}}}}, 2, func(t *testing.T, w *servicetest.World, id string) {
		before := w.Record(id)
		_, _, err := w.Service.Change(t.Context(), superuser, id, api.ChangeRequest{Kind: cluster.RequestScale, Size: 4})
		if !errors.Is(err, cluster.CapacityExhausted) {
			t.Errorf("one VM too many: %v", err)
		}
		if after := w.Record(id); after.Cluster.Revision != before.Cluster.Revision || after.Cluster.State != cluster.Running || after.Cluster.NodeCount != 2 {
			t.Errorf("a refused scale has written: %+v", after.Cluster)
		}
		plan, err := w.Service.PlanChange(t.Context(), superuser, id, api.ChangeRequest{Kind: cluster.RequestScale, Size: 4})
		if err != nil || fault.Of(plan.Err()) != cluster.CapacityExhausted {
			t.Errorf("the plan: %v %+v", err, plan)
		}
		// A provider that does not answer is no refusal: the run waits for it.
		w.Cloud.Inject(sim.Rule{Label: "away", Call: sim.Check, Do: sim.Fail, Err: cluster.ProviderUnreachable})
		if _, _, err := w.Service.Change(t.Context(), superuser, id, api.ChangeRequest{Kind: cluster.RequestScale, Size: 3}); err != nil {
			t.Errorf("while the provider is away: %v", err)
		}
	})
}

// The plan of a recovery fails while the provider cannot be read.
func TestFinding21PlanOfARecoveryThatCannotBeDone(t *testing.T) {
	servicetest.Running(t, servicetest.Setup{}, 2, func(t *testing.T, w *servicetest.World, id string) {
		for name, vm := range w.VMs() {
			if strings.Contains(name, "worker1") {
				w.Cloud.DestroyVM(vm.ID)
			}
		}
		w.Until(id, time.Hour, cluster.Alert)
		w.Cloud.Inject(sim.Rule{Label: "away", Call: sim.List, Do: sim.Fail, Err: cluster.ProviderUnreachable})
		plan, err := w.Service.PlanChange(t.Context(), superuser, id, api.ChangeRequest{Kind: cluster.RequestRecover})
		if err != nil || fault.Of(plan.Err()) != cluster.ProviderUnreachable || len(plan.Steps) > 0 {
			t.Errorf("%v %+v", err, plan)
		}
	})
}
