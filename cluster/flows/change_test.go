package flows_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/cluster/service/servicetest"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/provider/sim"
)

func names(w *servicetest.World, id string, role cluster.Role) string {
	var all []string
	for _, n := range w.Record(id).Nodes {
		if n.Role == role {
			all = append(all, strings.TrimPrefix(n.Name, "blue-8f3b2c-"))
		}
	}
	return strings.Join(all, " ")
}

func TestScale(t *testing.T) {
	s := servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}
	t.Run("up", func(t *testing.T) {
		servicetest.Running(t, s, 2, func(t *testing.T, w *servicetest.World, id string) {
			job := w.Ask(id, cluster.RequestScale, func(c *cluster.Cluster, _ *cluster.Request) { c.NodeCount = 5 })
			w.Until(id, time.Minute, cluster.Scaling)
			c := w.Until(id, time.Hour, cluster.Running)
			w.Done(job)
			if len(w.VMs()) != 6 || c.Cores != 6 || c.Request != nil {
				t.Errorf("%d VMs, %d cores, ask %v", len(w.VMs()), c.Cores, c.Request)
			}
			w.CheckJournal(id)
		})
	})
	t.Run("down to the newest first", func(t *testing.T) {
		servicetest.Running(t, s, 4, func(t *testing.T, w *servicetest.World, id string) {
			job := w.Ask(id, cluster.RequestScale, func(c *cluster.Cluster, _ *cluster.Request) { c.NodeCount = 2 })
			w.Until(id, time.Minute, cluster.Scaling)
			w.Until(id, time.Hour, cluster.Running)
			w.Done(job)
			if got := names(w, id, cluster.Worker); got != "worker1 worker2" || len(w.VMs()) != 3 {
				t.Errorf("workers %s, %d VMs", got, len(w.VMs()))
			}
			w.CheckJournal(id)
		})
	})
	t.Run("the named nodes go, and ordinals are not used again", func(t *testing.T) {
		servicetest.Running(t, s, 3, func(t *testing.T, w *servicetest.World, id string) {
			w.Ask(id, cluster.RequestScale, func(c *cluster.Cluster, a *cluster.Request) {
				c.NodeCount, a.Victims = 1, []string{"blue-8f3b2c-worker1", "blue-8f3b2c-worker3"}
			})
			w.Until(id, time.Minute, cluster.Scaling)
			w.Until(id, time.Hour, cluster.Running)
			if got := names(w, id, cluster.Worker); got != "worker2" {
				t.Errorf("workers %s", got)
			}
			w.Ask(id, cluster.RequestScale, func(c *cluster.Cluster, _ *cluster.Request) { c.NodeCount = 2 })
			w.Until(id, time.Minute, cluster.Scaling)
			w.Until(id, time.Hour, cluster.Running)
			if got := names(w, id, cluster.Worker); got != "worker2 worker4" {
				t.Errorf("workers %s", got)
			}
		})
	})
	t.Run("a failure keeps what is there", func(t *testing.T) {
		servicetest.Running(t, s, 2, func(t *testing.T, w *servicetest.World, id string) {
			w.Cloud.Inject(sim.Rule{Call: sim.Create, Kind: cluster.VM, Name: "*worker5", Do: sim.Fail, Err: cluster.CapacityExhausted})
			job := w.Ask(id, cluster.RequestScale, func(c *cluster.Cluster, _ *cluster.Request) { c.NodeCount = 6 })
			w.Until(id, time.Minute, cluster.Scaling)
			c := w.Until(id, time.Hour, cluster.Alert)
			w.Failed(job, "CAPACITY_EXHAUSTED")
			if c.NodeCount != 6 || c.Reason.Code != cluster.CapacityExhausted.Code || c.Reason.Step != "nodes" {
				t.Errorf("size %d reason %+v", c.NodeCount, c.Reason)
			}
			w.CheckJournal(id)
		})
	})
	t.Run("a failure rolls back", func(t *testing.T) {
		s := s
		s.Settings = settings.Settings{RollbackScale: true}
		servicetest.Running(t, s, 2, func(t *testing.T, w *servicetest.World, id string) {
			w.Cloud.Inject(sim.Rule{Call: sim.Create, Kind: cluster.VM, Name: "*worker5", Do: sim.Fail, Err: cluster.CapacityExhausted})
			job := w.Ask(id, cluster.RequestScale, func(c *cluster.Cluster, _ *cluster.Request) { c.NodeCount = 6 })
			w.Until(id, time.Minute, cluster.Scaling)
			w.AwaitJob(job)
			w.Failed(job, "CAPACITY_EXHAUSTED")
			c := w.Until(id, time.Hour, cluster.Running) // the next passes find it healthy
			if !strings.HasPrefix(w.Path(id), "Starting Running Scaling Alert") {
				t.Errorf("path %s", w.Path(id))
			}
			if c.NodeCount != 2 || names(w, id, cluster.Worker) != "worker1 worker2" || len(w.VMs()) != 3 {
				t.Errorf("size %d workers %s, %d VMs", c.NodeCount, names(w, id, cluster.Worker), len(w.VMs()))
			}
			w.CheckJournal(id)
		})
	})
	t.Run("a changed CIDR list corrects the rules", func(t *testing.T) {
		servicetest.Running(t, s, 1, func(t *testing.T, w *servicetest.World, id string) {
			w.Ask(id, cluster.RequestScale, func(c *cluster.Cluster, _ *cluster.Request) { c.CIDRs = []string{"10.0.0.0/8"} })
			w.Until(id, time.Minute, cluster.Scaling)
			w.Until(id, time.Hour, cluster.Running)
			rules := w.Cloud.All(cluster.Firewall)
			if len(rules) != 1 || len(rules[0].Spec.CIDRs) != 1 || rules[0].Spec.CIDRs[0] != "10.0.0.0/8" {
				t.Errorf("rules %+v", rules)
			}
			w.CheckJournal(id)
		})
	})
}

func TestStopAndStartAgain(t *testing.T) {
	s := servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}
	t.Run("all stop, all start", func(t *testing.T) {
		servicetest.Running(t, s, 7, func(t *testing.T, w *servicetest.World, id string) {
			before := w.VMs()
			job := w.Ask(id, cluster.RequestStop, nil)
			w.Until(id, time.Hour, cluster.Stopped)
			w.Done(job)
			for name, r := range w.VMs() {
				if r.Power != cluster.PoweredOff {
					t.Errorf("%s is %s", name, r.Power)
				}
			}
			time.Sleep(10 * time.Minute) // nothing is found wrong
			job = w.Ask(id, cluster.RequestStart, nil)
			w.Until(id, time.Hour, cluster.Running)
			w.Done(job)
			for name, r := range w.VMs() {
				if r.Power != cluster.PoweredOn || r.Identity != before[name].Identity {
					t.Errorf("%s is %s, or another one", name, r.Power)
				}
			}
			if got := w.Path(id); got != "Starting Running Stopping Stopped Starting Running" {
				t.Errorf("path %s", got)
			}
		})
	})
	t.Run("one that does not stop is forced", func(t *testing.T) {
		servicetest.Running(t, s, 3, func(t *testing.T, w *servicetest.World, id string) {
			w.Cloud.Inject(sim.Rule{Call: sim.Act, Action: cluster.Stop, Name: "*worker2", Do: sim.Stuck})
			w.Ask(id, cluster.RequestStop, nil)
			w.Until(id, time.Hour, cluster.Stopped, cluster.Alert)
			if c := w.Cluster(id); c.State != cluster.Stopped {
				t.Errorf("reason %+v\n%s", c.Reason, w.Story(id))
			}
		})
	})
	t.Run("without force it is named, and the others stop", func(t *testing.T) {
		s := s
		s.Settings = settings.Settings{NoForceStop: true}
		servicetest.Running(t, s, 3, func(t *testing.T, w *servicetest.World, id string) {
			w.Cloud.Inject(sim.Rule{Call: sim.Act, Name: "*worker2", Do: sim.Fail, Err: cluster.ProviderRefused})
			job := w.Ask(id, cluster.RequestStop, nil)
			c := w.Until(id, time.Hour, cluster.Alert)
			w.Failed(job, "PROVIDER_REFUSED")
			if !strings.Contains(c.Reason.Text, "worker2") && !strings.Contains(c.Reason.Resource, "worker2") {
				t.Errorf("reason %+v", c.Reason)
			}
			down := 0
			for _, r := range w.VMs() {
				if r.Power == cluster.PoweredOff {
					down++
				}
			}
			if down != 3 {
				t.Errorf("%d VMs are down, want 3", down)
			}
		})
	})
	t.Run("a missing VM is named, and the others start", func(t *testing.T) {
		servicetest.Running(t, s, 3, func(t *testing.T, w *servicetest.World, id string) {
			w.Ask(id, cluster.RequestStop, nil)
			w.Until(id, time.Hour, cluster.Stopped)
			if err := w.Cloud.DestroyVM("blue-8f3b2c-worker2"); err != nil {
				t.Fatal(err)
			}
			job := w.Ask(id, cluster.RequestStart, nil)
			c := w.Until(id, time.Hour, cluster.Alert)
			w.Failed(job, "NODE_MISSING")
			if !strings.Contains(c.Reason.Text, "worker2") {
				t.Errorf("reason %+v", c.Reason)
			}
			for name, r := range w.VMs() {
				if r.Power != cluster.PoweredOn {
					t.Errorf("%s is %s", name, r.Power)
				}
			}
		})
	})
}

func TestUpgradeReplacesOneAfterTheOther(t *testing.T) {
	s := servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow, Templates: []cluster.Entry{{ID: "node-image", Default: true}, {ID: "node-2"}}}}
	ask := func(c *cluster.Cluster, a *cluster.Request) {
		a.Version, a.Template, a.Surge, a.Downtime = "v2", cluster.Entity{ID: "node-2"}, 1, true
	}
	t.Run("workers", func(t *testing.T) {
		servicetest.Running(t, s, 3, func(t *testing.T, w *servicetest.World, id string) {
			job := w.Ask(id, cluster.RequestUpgrade, ask)
			w.Until(id, time.Minute, cluster.Scaling)
			most := 0
			for w.Cluster(id).State == cluster.Scaling {
				most = max(most, len(w.VMs()))
				time.Sleep(time.Second)
			}
			c := w.Until(id, time.Second, cluster.Running)
			w.Done(job)
			if got := names(w, id, cluster.Worker); got != "worker4 worker5 worker6" || most != 5 || c.Version != "v2" || c.Template.ID != "node-2" {
				t.Errorf("workers %s, at most %d VMs, version %s\n%s", got, most, c.Version, w.Story(id))
			}
			for name, r := range w.VMs() {
				if strings.Contains(name, "worker") && r.Spec.Template != "node-2" {
					t.Errorf("%s is made of %s", name, r.Spec.Template)
				}
			}
			w.CheckJournal(id)
		})
	})
	t.Run("with consent the control node too", func(t *testing.T) {
		servicetest.Running(t, s, 1, func(t *testing.T, w *servicetest.World, id string) {
			w.Ask(id, cluster.RequestUpgrade, func(c *cluster.Cluster, a *cluster.Request) { ask(c, a); a.Consent, a.Downtime = true, false })
			w.Until(id, time.Minute, cluster.Scaling)
			w.Until(id, time.Hour, cluster.Running)
			if got := names(w, id, cluster.Control); got != "control2" {
				t.Errorf("control nodes %s", got)
			}
			if err := w.Cloud.Probe(t.Context(), w.Cluster(id).Endpoint); err != nil {
				t.Error(err)
			}
			w.CheckJournal(id)
		})
	})
	t.Run("a failure leaves Alert, another upgrade goes on", func(t *testing.T) {
		servicetest.Running(t, s, 3, func(t *testing.T, w *servicetest.World, id string) {
			w.Cloud.Inject(sim.Rule{Label: "full", Call: sim.Create, Kind: cluster.VM, Nth: 2, Do: sim.Fail, Err: cluster.CapacityExhausted})
			job := w.Ask(id, cluster.RequestUpgrade, ask)
			w.Until(id, time.Minute, cluster.Scaling)
			for end := time.Now().Add(time.Hour); w.Job(job).Status == cluster.JobOpen && time.Now().Before(end); synctest.Wait() {
				time.Sleep(time.Second) // in Alert it may be for a moment only: the next pass finds it healthy
			}
			w.Failed(job, "CAPACITY_EXHAUSTED")
			if !strings.Contains(w.Path(id), "Scaling Alert") {
				t.Errorf("path %s", w.Path(id))
			}
			w.Cloud.ClearRules()
			job = w.Ask(id, cluster.RequestUpgrade, ask)
			w.Until(id, time.Minute, cluster.Recovering, cluster.Running, cluster.Scaling)
			w.Until(id, time.Hour, cluster.Scaling)
			w.Until(id, time.Hour, cluster.Running)
			w.Done(job)
			for name, r := range w.VMs() {
				if strings.Contains(name, "worker") && r.Spec.Template != "node-2" {
					t.Errorf("%s is made of %s", name, r.Spec.Template)
				}
			}
			if len(w.VMs()) != 4 {
				t.Errorf("%d VMs", len(w.VMs()))
			}
			w.CheckJournal(id)
		})
	})
}

// An upgrade changes control nodes first, a single one in place. It is done only
// when every node has the new version.
func TestFinding17UpgradeControlFirst(t *testing.T) {
	s := servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow, Templates: []cluster.Entry{{ID: "node-image", Default: true}, {ID: "node-2"}}}}
	versions := func(w *servicetest.World) {
		w.Options.Versions = settings.Versions{
			{ID: "v1", Name: "v1", Semantic: "1.0.0", Template: cluster.Entity{ID: "node-image"}},
			{ID: "v2", Name: "v2", Semantic: "1.1.0", Template: cluster.Entity{ID: "node-2"}},
		}
		w.Stop()
		w.Begin()
	}
	with := func(controls, workers int, test func(t *testing.T, w *servicetest.World, id string)) func(t *testing.T) {
		return func(t *testing.T) {
			servicetest.InWorld(t, s, func(t *testing.T, w *servicetest.World) {
				versions(w)
				id := w.Create("blue", workers, func(c *cluster.Cluster) { c.ControlCount, c.Version = controls, "v1" })
				w.Until(id, 30*time.Minute, cluster.Running)
				test(t, w, id)
			})
		}
	}
	upgrade := api.ChangeRequest{Kind: cluster.RequestUpgrade, Version: "v2"}
	allowed := upgrade
	allowed.Downtime = true
	// watch returns the order in which nodes reached the new version.
	watch := func(w *servicetest.World, id string) (order []string, mostControls int) {
		w.Until(id, time.Minute, cluster.Scaling)
		for w.Cluster(id).State == cluster.Scaling {
			controls := 0
			for _, n := range w.Record(id).Nodes {
				if n.Role == cluster.Control {
					controls++
				}
				short := n.Name[strings.LastIndexByte(n.Name, '-')+1:]
				if (n.Version == "v2" || n.Version == "1.1.0") && !n.ReadyAt.IsZero() && !slices.Contains(order, short) {
					order = append(order, short)
				}
			}
			mostControls = max(mostControls, controls)
			time.Sleep(time.Second)
		}
		return order, mostControls
	}

	t.Run("the only one needs leave, and the plan says so", with(1, 2, func(t *testing.T, w *servicetest.World, id string) {
		if _, _, err := w.Service.Change(t.Context(), servicetest.Root, id, upgrade); fault.Of(err) != cluster.DowntimeRefused {
			t.Fatalf("an upgrade without leave: %v", err)
		}
		if c := w.Cluster(id); c.State != cluster.Running || c.Request != nil {
			t.Errorf("a refused upgrade has changed something: %+v", c)
		}
		plan, err := w.Service.PlanChange(t.Context(), servicetest.Root, id, upgrade)
		if err != nil || len(plan.Findings) < 1 || plan.Findings[0].Code != cluster.DowntimeRefused.Code {
			t.Fatalf("plan %+v, %v", plan, err)
		}
		plan, err = w.Service.PlanChange(t.Context(), servicetest.Root, id, allowed)
		if err != nil || len(plan.Findings) != 1 || plan.Findings[0].Type != cluster.Downtime || plan.Findings[0].Code != "" {
			t.Fatalf("plan %+v, %v", plan, err)
		}
		var acts []string
		for _, r := range plan.Resources {
			acts = append(acts, r.Act+" "+string(r.Role))
		}
		if got := strings.Join(acts, ", "); got != "upgrade control, replace worker, replace worker" {
			t.Errorf("the plan: %s", got)
		}
	}))
	t.Run("the only one in place", with(1, 2, func(t *testing.T, w *servicetest.World, id string) {
		before := w.Record(id).Nodes[0]
		endpoint := w.Cluster(id).Endpoint
		_, job, err := w.Service.Change(t.Context(), servicetest.Root, id, allowed)
		if err != nil {
			t.Fatal(err)
		}
		order, _ := watch(w, id)
		w.Until(id, time.Second, cluster.Running)
		w.Done(job.ID)
		if got := strings.Join(order, " "); got != "control1 worker3 worker4" && got != "control1 worker3" { // the last is ready in the second the run ends
			t.Errorf("order %s\n%s", got, w.Story(id))
		}
		after := w.Record(id).Nodes[0]
		if after.Name != before.Name || after.VMID != before.VMID || after.Version != "1.1.0" || after.Template.ID != "node-2" {
			t.Errorf("control node %+v, it was %+v", after, before)
		}
		if c := w.Cluster(id); c.Endpoint != endpoint || c.Version != "v2" {
			t.Errorf("endpoint %s, it was %s; version %s", c.Endpoint, endpoint, c.Version)
		}
		if report, err := w.Service.Drift(t.Context(), servicetest.Root, id); err != nil || len(report.Findings) != 0 {
			t.Errorf("drift %+v, %v", report, err)
		}
		w.CheckJournal(id)
	}))
	t.Run("of three one at a time, before the workers", with(3, 1, func(t *testing.T, w *servicetest.World, id string) {
		wide := upgrade
		wide.Surge = 3
		_, job, err := w.Service.Change(t.Context(), servicetest.Root, id, wide)
		if err != nil {
			t.Fatal(err)
		}
		order, most := watch(w, id)
		w.Until(id, time.Second, cluster.Running)
		w.Done(job.ID)
		if got := strings.Join(order, " "); most != 4 || !strings.HasPrefix(got, "control4 control5 control6") {
			t.Errorf("order %s, at most %d control nodes\n%s", got, most, w.Story(id))
		}
		for _, n := range w.Record(id).Nodes {
			if n.Template.ID != "node-2" {
				t.Errorf("%s is made of %s", n.Name, n.Template.ID)
			}
		}
		w.CheckJournal(id)
	}))
	t.Run("a node that keeps its version: not done, told, and drift; workers are not touched", with(1, 2, func(t *testing.T, w *servicetest.World, id string) {
		control := w.Record(id).Nodes[0]
		if err := w.Cloud.KeepVersion(control.Name, true); err != nil {
			t.Fatal(err)
		}
		_, job, err := w.Service.Change(t.Context(), servicetest.Root, id, allowed)
		if err != nil {
			t.Fatal(err)
		}
		w.Until(id, time.Minute, cluster.Scaling)
		for end := time.Now().Add(2 * time.Hour); w.Job(job.ID).Status == cluster.JobOpen && time.Now().Before(end); synctest.Wait() {
			time.Sleep(time.Second)
		}
		w.Failed(job.ID, string(cluster.UpgradeIncomplete.Code))
		if text := w.Job(job.ID).Text; !strings.Contains(text, control.Name) {
			t.Errorf("the job names nobody: %s", text)
		}
		if c := w.Cluster(id); c.Version != "v1" || names(w, id, cluster.Worker) != "worker1 worker2" {
			t.Errorf("version %s, workers %s", c.Version, names(w, id, cluster.Worker))
		}
	}))
	t.Run("what an older version of this service left behind is drift, and upgraded by the next", with(1, 1, func(t *testing.T, w *servicetest.World, id string) {
		record := w.Record(id)
		record.Cluster.Version, record.Cluster.Template = "v2", cluster.Entity{ID: "node-2"}
		if err := w.Records.Commit(t.Context(), &cluster.Change{Cluster: &record.Cluster}); err != nil {
			t.Fatal(err)
		}
		report, err := w.Service.Drift(t.Context(), servicetest.Root, id)
		if err != nil || len(report.Findings) != 2 || report.Findings[0].Type != cluster.Outdated || !strings.Contains(report.Findings[0].String(), "1.1.0") {
			t.Fatalf("drift %+v, %v", report, err)
		}
		time.Sleep(10 * time.Minute)
		if c := w.Cluster(id); c.State != cluster.Running || len(c.Findings) != 2 {
			t.Errorf("it is %s with %v", c.State, c.Findings)
		}
		_, job, err := w.Service.Change(t.Context(), servicetest.Root, id, allowed)
		if err != nil {
			t.Fatal(err)
		}
		w.Until(id, time.Minute, cluster.Scaling)
		w.Until(id, time.Hour, cluster.Running)
		w.Done(job.ID)
		time.Sleep(2 * time.Minute)
		if report, err = w.Service.Drift(t.Context(), servicetest.Root, id); err != nil || len(report.Findings) != 0 {
			t.Errorf("drift %+v, %v", report, err)
		}
	}))
	t.Run("one that does not call home is replaced by consent only", func(t *testing.T) {
		silent := s
		silent.Silent = true
		servicetest.InWorld(t, silent, func(t *testing.T, w *servicetest.World) {
			versions(w)
			id := w.Create("blue", 1, func(c *cluster.Cluster) { c.Version = "v1" })
			w.Until(id, 30*time.Minute, cluster.Running)
			if _, _, err := w.Service.Change(t.Context(), servicetest.Root, id, allowed); fault.Of(err) != cluster.LastControl {
				t.Fatalf("an upgrade without consent: %v", err)
			}
			consent := upgrade
			consent.Consent = true
			_, job, err := w.Service.Change(t.Context(), servicetest.Root, id, consent)
			if err != nil {
				t.Fatal(err)
			}
			w.Until(id, time.Minute, cluster.Scaling)
			w.Until(id, time.Hour, cluster.Running)
			w.Done(job.ID)
			if got := names(w, id, cluster.Control); got != "control2" {
				t.Errorf("control nodes %s", got)
			}
		})
	})
}

// If the only control node is gone, it is replaced by an empty one only with
// consent.
func TestFinding17LastControlNodeGone(t *testing.T) {
	servicetest.Running(t, servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}, 2, func(t *testing.T, w *servicetest.World, id string) {
		record := w.Record(id)
		record.Cluster.Recovery = cluster.Recovery{cluster.Restart, cluster.Replace}
		if err := w.Records.Commit(t.Context(), &cluster.Change{Cluster: &record.Cluster}); err != nil {
			t.Fatal(err)
		}
		if err := w.Cloud.DestroyVM(record.Nodes[0].VMID); err != nil {
			t.Fatal(err)
		}
		if err := w.Cloud.DestroyVM(record.Nodes[1].VMID); err != nil { // and a worker, which may be replaced
			t.Fatal(err)
		}
		w.Until(id, 10*time.Minute, cluster.Alert)
		time.Sleep(3 * time.Hour)
		if got := names(w, id, cluster.Control); got != "control1" {
			t.Fatalf("control nodes %s\n%s", got, w.Story(id))
		}
		if c := w.Cluster(id); c.State != cluster.Alert && c.State != cluster.Recovering {
			t.Errorf("it is %s", c.State)
		}
		w.Until(id, time.Hour, cluster.Alert)
		job := w.Ask(id, cluster.RequestRecover, func(_ *cluster.Cluster, a *cluster.Request) {
			a.Recovery = cluster.Recovery{cluster.Restart, cluster.Replace}
		})
		for end := time.Now().Add(2 * time.Hour); w.Job(job).Status == cluster.JobOpen && time.Now().Before(end); synctest.Wait() {
			time.Sleep(time.Second)
		}
		w.Failed(job, string(cluster.LastControl.Code))
		w.Until(id, time.Hour, cluster.Alert)
		w.Ask(id, cluster.RequestRecover, func(_ *cluster.Cluster, a *cluster.Request) { a.Consent = true })
		w.Until(id, time.Hour, cluster.Running)
		if got := names(w, id, cluster.Control); got != "control2" {
			t.Errorf("control nodes %s\n%s", got, w.Story(id))
		}
	})
}

func TestRecover(t *testing.T) {
	s := servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}
	for name, c := range map[string]struct {
		harm func(w *servicetest.World) error
		mend func(w *servicetest.World) error
		ask  func(c *cluster.Cluster, a *cluster.Request)
		code string // empty: success
	}{
		"nothing to do":                 {harm: func(w *servicetest.World) error { return w.Cloud.StopVM("blue-8f3b2c-worker2") }, mend: func(w *servicetest.World) error { return w.Cloud.StartVM("blue-8f3b2c-worker2") }},
		"a stopped worker":              {harm: func(w *servicetest.World) error { return w.Cloud.StopVM("blue-8f3b2c-worker2") }},
		"a missing worker":              {harm: func(w *servicetest.World) error { return w.Cloud.DestroyVM("blue-8f3b2c-worker2") }},
		"a broken worker":               {harm: func(w *servicetest.World) error { return w.Cloud.BreakVM("blue-8f3b2c-worker2") }},
		"a missing control node":        {harm: func(w *servicetest.World) error { return w.Cloud.DestroyVM("blue-8f3b2c-control1") }, ask: func(_ *cluster.Cluster, a *cluster.Request) { a.Consent = true }},
		"a rule that is gone":           {harm: func(w *servicetest.World) error { return w.Cloud.Delete(cluster.Firewall, "blue-8f3b2c-firewall") }},
		"replace is not allowed":        {harm: func(w *servicetest.World) error { return w.Cloud.DestroyVM("blue-8f3b2c-worker2") }, ask: func(_ *cluster.Cluster, a *cluster.Request) { a.Recovery = cluster.Recovery{cluster.Restart} }, code: "RECOVERY_FORBIDDEN"},
		"the last control node, broken": {harm: func(w *servicetest.World) error { return w.Cloud.BreakVM("blue-8f3b2c-control1") }, code: "LAST_CONTROL_NODE"},
	} {
		t.Run(name, func(t *testing.T) {
			servicetest.Running(t, s, 3, func(t *testing.T, w *servicetest.World, id string) {
				w.CauseAlert(id, c.harm)
				if c.mend != nil {
					if err := c.mend(w); err != nil {
						t.Fatal(err)
					}
				}
				job := w.Ask(id, cluster.RequestRecover, c.ask)
				w.AwaitJob(job)
				if c.code != "" {
					w.Until(id, time.Hour, cluster.Alert)
					w.Failed(job, c.code)
					return
				}
				w.Until(id, 2*time.Hour, cluster.Running)
				w.Done(job)
				if len(w.VMs()) != 4 {
					t.Errorf("%d VMs\n%s", len(w.VMs()), w.Story(id))
				}
				if err := w.Cloud.Probe(t.Context(), w.Cluster(id).Endpoint); err != nil {
					t.Errorf("%v\n%s", err, w.Story(id))
				}
				w.CheckJournal(id)
			})
		})
	}
}

func TestDeleteInEachState(t *testing.T) {
	s := servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}
	for name, c := range map[string]struct {
		to   func(w *servicetest.World, id string)
		path string
	}{
		"Created": {func(w *servicetest.World, id string) {}, ""},
		"Starting, first": {func(w *servicetest.World, id string) {
			w.Until(id, time.Minute, cluster.Starting)
			time.Sleep(20 * time.Second)
		}, "Starting Expunging Destroyed"},
		"Running":  {func(w *servicetest.World, id string) { w.Until(id, time.Hour, cluster.Running) }, "Starting Running Stopping Stopped Expunging Destroyed"},
		"Stopping": {func(w *servicetest.World, id string) { w.RequestUntil(id, cluster.RequestStop, cluster.Stopping) }, "Starting Running Stopping Stopped Expunging Destroyed"},
		"Stopped":  {func(w *servicetest.World, id string) { w.RequestUntil(id, cluster.RequestStop, cluster.Stopped) }, "Starting Running Stopping Stopped Expunging Destroyed"},
		"Starting, later": {func(w *servicetest.World, id string) {
			w.RequestUntil(id, cluster.RequestStop, cluster.Stopped)
			w.Ask(id, cluster.RequestStart, nil)
			w.Until(id, time.Minute, cluster.Starting)
			time.Sleep(5 * time.Second)
		}, "Starting Running Stopping Stopped Starting Alert Expunging Destroyed"},
		"Scaling": {func(w *servicetest.World, id string) {
			w.Until(id, time.Hour, cluster.Running)
			w.Ask(id, cluster.RequestScale, func(c *cluster.Cluster, _ *cluster.Request) { c.NodeCount = 6 })
			w.Until(id, time.Minute, cluster.Scaling)
			time.Sleep(10 * time.Second)
		}, "Starting Running Scaling Alert Expunging Destroyed"},
		"Alert": {func(w *servicetest.World, id string) { w.CauseAlert(id, nil) }, "Starting Running Alert Expunging Destroyed"},
		"Recovering": {func(w *servicetest.World, id string) {
			w.CauseAlert(id, nil)
			if err := w.Cloud.DestroyVM("blue-8f3b2c-worker2"); err != nil {
				w.T.Fatal(err)
			}
			w.RequestUntil(id, cluster.RequestRecover, cluster.Recovering)
			time.Sleep(10 * time.Second)
		}, "Starting Running Alert Recovering Alert Expunging Destroyed"},
		"Expunge": {func(w *servicetest.World, id string) {
			w.CauseAlert(id, nil)
			w.Cloud.Inject(sim.Rule{Call: sim.Act, Action: cluster.Destroy, Do: sim.Fail})
			w.Failed(w.RequestUntil(id, cluster.RequestDelete, cluster.Expunge), "PROVIDER_REFUSED")
			w.Cloud.ClearRules()
		}, "Starting Running Alert Expunging Expunge Expunging Destroyed"},
	} {
		t.Run(name, func(t *testing.T) {
			servicetest.InWorld(t, s, func(t *testing.T, w *servicetest.World) {
				id := w.Create("blue", 3)
				if name != "Created" && name != "Starting, first" {
					w.Until(id, time.Hour, cluster.Running)
				}
				c.to(w, id)
				job := w.Ask(id, cluster.RequestDelete, func(c *cluster.Cluster, a *cluster.Request) {})
				end := w.Until(id, 2*time.Hour, cluster.Destroyed)
				w.Done(job)
				w.CheckEmpty()
				if got := w.Path(id); c.path != "" && got != c.path {
					t.Errorf("path %s\nwant %s", got, c.path)
				}
				if end.Removed.IsZero() || len(w.Record(id).Nodes) != 0 {
					t.Errorf("removed %s, nodes %v", end.Removed, w.Record(id).Nodes)
				}
				for _, r := range w.Record(id).Journal {
					if r.Phase.Open() && r.Origin != cluster.OriginGiven {
						t.Errorf("row %s is %s", r.Name, r.Phase)
					}
				}
				if jobs, _, _ := w.Records.Jobs(t.Context(), cluster.JobQuery{Scope: servicetest.All, Cluster: id, OnlyOpen: true}); len(jobs) != 0 {
					t.Errorf("open jobs %+v", jobs)
				}
			})
		})
	}
}

// A provider job that fails ends its try: the next try begins after the pause of
// retries, not after the time limit of the try.
func TestAFailedJobIsNotWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		ends machine.State
	}{
		"blocked":   {cluster.ProviderRefused.Errorf("the process has ended"), cluster.Alert},
		"transient": {cluster.ProviderUnreachable.Errorf("the host went away"), cluster.Running},
	} {
		t.Run(name, func(t *testing.T) {
			servicetest.Running(t, servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}, 1, func(t *testing.T, w *servicetest.World, id string) {
				w.Ask(id, cluster.RequestStop, func(c *cluster.Cluster, _ *cluster.Request) { c.Desired = cluster.WantStopped })
				w.Until(id, time.Hour, cluster.Stopped)
				w.DisableRecovery(id) // otherwise Alert may end between two checks
				w.Cloud.Inject(sim.Rule{Call: "act", Action: cluster.Start, Name: "blue-*-control*", Times: 1, Do: sim.FailJob, Err: c.err})
				began := time.Now()
				w.Ask(id, cluster.RequestStart, func(c *cluster.Cluster, _ *cluster.Request) { c.Desired = cluster.WantRunning })
				w.Until(id, time.Hour, c.ends)
				if took := time.Since(began); took > 3*time.Minute {
					t.Errorf("it is %s after %s\n%s", c.ends, took, w.Story(id))
				}
			})
		})
	}
}
