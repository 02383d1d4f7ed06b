package flows_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service/servicetest"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/provider/sim"
)

func TestFirstStartCreatesEverythingOnce(t *testing.T) {
	for name, s := range map[string]servicetest.Setup{
		"at once":              {},
		"slow":                 {Sim: sim.Options{Times: servicetest.Slow, Latency: 200 * time.Millisecond, Visible: 5 * time.Second}},
		"without calling home": {Silent: true},
		"VMs only":             {Sim: sim.Options{Kinds: []cluster.Kind{cluster.VM}}},
		"no call ids":          {Sim: sim.Options{NoCallIDs: true, Times: servicetest.Slow}},
	} {
		t.Run(name, func(t *testing.T) {
			servicetest.InWorld(t, s, func(t *testing.T, w *servicetest.World) {
				id := w.Create("blue", 10)
				c := w.Until(id, 30*time.Minute, cluster.Running)
				if got := len(w.VMs()); got != 11 {
					t.Errorf("%d VMs, want 11\n%s", got, w.Story(id))
				}
				w.CheckJournal(id)
				if w.Path(id) != "Starting Running" || !c.Started || c.Request != nil || c.RunID != "" {
					t.Errorf("path %s, cluster %+v", w.Path(id), c)
				}
				if j := w.Job("create-blue"); j.Status != cluster.JobDone || j.RunID == "" {
					t.Errorf("job %+v", j)
				}
				d, _ := w.Records.Details(t.Context(), id)
				if d.JoinTokenHash != "" {
					t.Error("the join token was not revoked")
				}
				if c.Cores != 11 || c.MemoryMB != 11*1024 {
					t.Errorf("totals %d cores, %d MB", c.Cores, c.MemoryMB)
				}
				if !s.Silent && (c.Endpoint == "" || d.ConfigData == "" || len(d.Credentials) != 11) {
					t.Errorf("endpoint %q, config %d bytes, %d credentials", c.Endpoint, len(d.ConfigData.Reveal()), len(d.Credentials))
				}
			})
		})
	}
}

// All VMs of a cluster have the requested size of the root disk.
func TestRootDisksAreAsLargeAsAskedFor(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{}, func(t *testing.T, w *servicetest.World) {
		id := w.Create("blue", 2, func(c *cluster.Cluster) { c.DiskGB = 40 })
		w.Until(id, 30*time.Minute, cluster.Running)
		for name, vm := range w.VMs() {
			if vm.Spec.DiskGB != 40 {
				t.Errorf("%s has %+v", name, vm.Spec)
			}
		}
		for _, row := range w.Record(id).Journal {
			if (row.Spec.DiskGB == 40) != (row.Kind == cluster.VM) {
				t.Errorf("the journal says %s %+v", row.Kind, row.Spec)
			}
		}
		w.Ask(id, cluster.RequestScale, func(c *cluster.Cluster, _ *cluster.Request) { c.NodeCount = 3 })
		w.Until(id, 30*time.Minute, cluster.Running)
		if vms := w.VMs(); len(vms) != 4 {
			t.Errorf("%d VMs", len(vms))
		}
		for name, vm := range w.VMs() {
			if vm.Spec.DiskGB != 40 {
				t.Errorf("after a scale, %s has %+v", name, vm.Spec)
			}
		}
	})
}

// checked adds a finding to every check.
type checked struct {
	cluster.Provider
	code fault.Code
}

func (c checked) Check(ctx context.Context, n cluster.Need) ([]cluster.Finding, error) {
	found, err := c.Provider.Check(ctx, n)
	return append(found, cluster.Finding{Type: cluster.PlanObstacle, Code: c.code, Evidence: "the size of a disk has no effect"}), err
}

// A finding with the code of a fault ends a run before anything is created; a
// finding without a code is a remark.
func TestFindingsWithoutACodeAreRemarks(t *testing.T) {
	for code, vms := range map[fault.Code]int{"": 3, cluster.EntityRefused.Code: 0} {
		servicetest.InWorld(t, servicetest.Setup{}, func(t *testing.T, w *servicetest.World) {
			w.Stop()
			w.Options.Providers[0].Provider = checked{w.Options.Providers[0].Provider, code}
			w.Begin()
			id := w.Create("blue", 2)
			c := w.Until(id, 30*time.Minute, cluster.Running, cluster.Destroyed)
			if got := len(w.VMs()); got != vms || (vms == 0) != (c.Reason.Code == code && code != "") {
				t.Errorf("%q: %d VMs, want %d; %s %+v", code, got, vms, c.State, c.Reason)
			}
		})
	}
}

// A cluster works on five VMs at a time, and on no fewer while more are missing.
func TestFiveVMsAreCreatedAtATime(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}, func(t *testing.T, w *servicetest.World) {
		id, most := w.Create("blue", 12), 0
		for range 3600 {
			time.Sleep(time.Second)
			open := 0
			for _, r := range w.Record(id).Journal {
				if r.Kind == cluster.VM && (r.Phase == cluster.Intent || r.Phase == cluster.Accepted) {
					open++
				}
			}
			most = max(most, open)
			if w.Cluster(id).State == cluster.Running {
				break
			}
		}
		if w.Cluster(id).State != cluster.Running || most != 5 {
			t.Errorf("it is %s, %d VMs were made at once\n%s", w.Cluster(id).State, most, w.Story(id))
		}
	})
}
