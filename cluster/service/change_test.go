package service_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/provider/sim"
)

// running runs a test with one running cluster.
func running(t *testing.T, s setup, workers int, test func(t *testing.T, w *world, id string)) {
	t.Helper()
	inWorld(t, s, func(t *testing.T, w *world) {
		id := w.create("blue", workers)
		w.until(id, 30*time.Minute, cluster.Running)
		test(t, w, id)
	})
}

func (w *world) done(job string) {
	w.t.Helper()
	if j := w.job(job); j.Status != cluster.JobDone {
		w.t.Errorf("job %+v\n%s", j, w.story(j.Cluster))
	}
}

func (w *world) failed(job string, code string) {
	w.t.Helper()
	if j := w.job(job); j.Status != cluster.JobFailed || string(j.Code) != code {
		w.t.Errorf("job %+v, want %s\n%s", j, code, w.story(j.Cluster))
	}
}

func names(w *world, id string, role cluster.Role) string {
	var all []string
	for _, n := range w.record(id).Nodes {
		if n.Role == role {
			all = append(all, strings.TrimPrefix(n.Name, "blue-8f3b2c-"))
		}
	}
	return strings.Join(all, " ")
}

func TestScale(t *testing.T) {
	s := setup{sim: sim.Options{Times: slow}}
	t.Run("up", func(t *testing.T) {
		running(t, s, 2, func(t *testing.T, w *world, id string) {
			job := w.ask(id, cluster.RequestScale, func(c *cluster.Cluster, _ *cluster.Request) { c.NodeCount = 5 })
			w.until(id, time.Minute, cluster.Scaling)
			c := w.until(id, time.Hour, cluster.Running)
			w.done(job)
			if len(w.vms()) != 6 || c.Cores != 6 || c.Request != nil {
				t.Errorf("%d VMs, %d cores, ask %v", len(w.vms()), c.Cores, c.Request)
			}
			w.checkJournal(id)
		})
	})
	t.Run("down to the newest first", func(t *testing.T) {
		running(t, s, 4, func(t *testing.T, w *world, id string) {
			job := w.ask(id, cluster.RequestScale, func(c *cluster.Cluster, _ *cluster.Request) { c.NodeCount = 2 })
			w.until(id, time.Minute, cluster.Scaling)
			w.until(id, time.Hour, cluster.Running)
			w.done(job)
			if got := names(w, id, cluster.Worker); got != "worker1 worker2" || len(w.vms()) != 3 {
				t.Errorf("workers %s, %d VMs", got, len(w.vms()))
			}
			w.checkJournal(id)
		})
	})
	t.Run("the named nodes go, and ordinals are not used again", func(t *testing.T) {
		running(t, s, 3, func(t *testing.T, w *world, id string) {
			w.ask(id, cluster.RequestScale, func(c *cluster.Cluster, a *cluster.Request) {
				c.NodeCount, a.Victims = 1, []string{"blue-8f3b2c-worker1", "blue-8f3b2c-worker3"}
			})
			w.until(id, time.Minute, cluster.Scaling)
			w.until(id, time.Hour, cluster.Running)
			if got := names(w, id, cluster.Worker); got != "worker2" {
				t.Errorf("workers %s", got)
			}
			w.ask(id, cluster.RequestScale, func(c *cluster.Cluster, _ *cluster.Request) { c.NodeCount = 2 })
			w.until(id, time.Minute, cluster.Scaling)
			w.until(id, time.Hour, cluster.Running)
			if got := names(w, id, cluster.Worker); got != "worker2 worker4" {
				t.Errorf("workers %s", got)
			}
		})
	})
	t.Run("a failure keeps what is there", func(t *testing.T) {
		running(t, s, 2, func(t *testing.T, w *world, id string) {
			w.cloud.Inject(sim.Rule{Call: sim.Create, Kind: cluster.VM, Name: "*worker5", Do: sim.Fail, Err: cluster.CapacityExhausted})
			job := w.ask(id, cluster.RequestScale, func(c *cluster.Cluster, _ *cluster.Request) { c.NodeCount = 6 })
			w.until(id, time.Minute, cluster.Scaling)
			c := w.until(id, time.Hour, cluster.Alert)
			w.failed(job, "CAPACITY_EXHAUSTED")
			if c.NodeCount != 6 || c.Reason.Code != cluster.CapacityExhausted.Code || c.Reason.Step != "nodes" {
				t.Errorf("size %d reason %+v", c.NodeCount, c.Reason)
			}
			w.checkJournal(id)
		})
	})
	t.Run("a failure rolls back", func(t *testing.T) {
		s := s
		s.settings = service.Settings{RollbackScale: true}
		running(t, s, 2, func(t *testing.T, w *world, id string) {
			w.cloud.Inject(sim.Rule{Call: sim.Create, Kind: cluster.VM, Name: "*worker5", Do: sim.Fail, Err: cluster.CapacityExhausted})
			job := w.ask(id, cluster.RequestScale, func(c *cluster.Cluster, _ *cluster.Request) { c.NodeCount = 6 })
			w.until(id, time.Minute, cluster.Scaling)
			w.awaitJob(job)
			w.failed(job, "CAPACITY_EXHAUSTED")
			c := w.until(id, time.Hour, cluster.Running) // the next passes find it healthy
			if !strings.HasPrefix(w.path(id), "Starting Running Scaling Alert") {
				t.Errorf("path %s", w.path(id))
			}
			if c.NodeCount != 2 || names(w, id, cluster.Worker) != "worker1 worker2" || len(w.vms()) != 3 {
				t.Errorf("size %d workers %s, %d VMs", c.NodeCount, names(w, id, cluster.Worker), len(w.vms()))
			}
			w.checkJournal(id)
		})
	})
	t.Run("a changed CIDR list corrects the rules", func(t *testing.T) {
		running(t, s, 1, func(t *testing.T, w *world, id string) {
			w.ask(id, cluster.RequestScale, func(c *cluster.Cluster, _ *cluster.Request) { c.CIDRs = []string{"10.0.0.0/8"} })
			w.until(id, time.Minute, cluster.Scaling)
			w.until(id, time.Hour, cluster.Running)
			rules := w.cloud.All(cluster.Firewall)
			if len(rules) != 1 || len(rules[0].Spec.CIDRs) != 1 || rules[0].Spec.CIDRs[0] != "10.0.0.0/8" {
				t.Errorf("rules %+v", rules)
			}
			w.checkJournal(id)
		})
	})
}

func TestStopAndStartAgain(t *testing.T) {
	s := setup{sim: sim.Options{Times: slow}}
	t.Run("all stop, all start", func(t *testing.T) {
		running(t, s, 7, func(t *testing.T, w *world, id string) {
			before := w.vms()
			job := w.ask(id, cluster.RequestStop, nil)
			w.until(id, time.Hour, cluster.Stopped)
			w.done(job)
			for name, r := range w.vms() {
				if r.Power != cluster.PoweredOff {
					t.Errorf("%s is %s", name, r.Power)
				}
			}
			time.Sleep(10 * time.Minute) // nothing is found wrong
			job = w.ask(id, cluster.RequestStart, nil)
			w.until(id, time.Hour, cluster.Running)
			w.done(job)
			for name, r := range w.vms() {
				if r.Power != cluster.PoweredOn || r.Identity != before[name].Identity {
					t.Errorf("%s is %s, or another one", name, r.Power)
				}
			}
			if got := w.path(id); got != "Starting Running Stopping Stopped Starting Running" {
				t.Errorf("path %s", got)
			}
		})
	})
	t.Run("one that does not stop is forced", func(t *testing.T) {
		running(t, s, 3, func(t *testing.T, w *world, id string) {
			w.cloud.Inject(sim.Rule{Call: sim.Act, Action: cluster.Stop, Name: "*worker2", Do: sim.Stuck})
			w.ask(id, cluster.RequestStop, nil)
			w.until(id, time.Hour, cluster.Stopped, cluster.Alert)
			if c := w.cluster(id); c.State != cluster.Stopped {
				t.Errorf("reason %+v\n%s", c.Reason, w.story(id))
			}
		})
	})
	t.Run("without force it is named, and the others stop", func(t *testing.T) {
		s := s
		s.settings = service.Settings{NoForceStop: true}
		running(t, s, 3, func(t *testing.T, w *world, id string) {
			w.cloud.Inject(sim.Rule{Call: sim.Act, Name: "*worker2", Do: sim.Fail, Err: cluster.ProviderRefused})
			job := w.ask(id, cluster.RequestStop, nil)
			c := w.until(id, time.Hour, cluster.Alert)
			w.failed(job, "PROVIDER_REFUSED")
			if !strings.Contains(c.Reason.Text, "worker2") && !strings.Contains(c.Reason.Resource, "worker2") {
				t.Errorf("reason %+v", c.Reason)
			}
			down := 0
			for _, r := range w.vms() {
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
		running(t, s, 3, func(t *testing.T, w *world, id string) {
			w.ask(id, cluster.RequestStop, nil)
			w.until(id, time.Hour, cluster.Stopped)
			if err := w.cloud.DestroyVM("blue-8f3b2c-worker2"); err != nil {
				t.Fatal(err)
			}
			job := w.ask(id, cluster.RequestStart, nil)
			c := w.until(id, time.Hour, cluster.Alert)
			w.failed(job, "NODE_MISSING")
			if !strings.Contains(c.Reason.Text, "worker2") {
				t.Errorf("reason %+v", c.Reason)
			}
			for name, r := range w.vms() {
				if r.Power != cluster.PoweredOn {
					t.Errorf("%s is %s", name, r.Power)
				}
			}
		})
	})
}

func TestUpgradeReplacesOneAfterTheOther(t *testing.T) {
	s := setup{sim: sim.Options{Times: slow, Templates: []cluster.Entry{{ID: "node-image", Default: true}, {ID: "node-2"}}}}
	ask := func(c *cluster.Cluster, a *cluster.Request) {
		a.Version, a.Template, a.Surge, a.Downtime = "v2", cluster.Entity{ID: "node-2"}, 1, true
	}
	t.Run("workers", func(t *testing.T) {
		running(t, s, 3, func(t *testing.T, w *world, id string) {
			job := w.ask(id, cluster.RequestUpgrade, ask)
			w.until(id, time.Minute, cluster.Scaling)
			most := 0
			for w.cluster(id).State == cluster.Scaling {
				most = max(most, len(w.vms()))
				time.Sleep(time.Second)
			}
			c := w.until(id, time.Second, cluster.Running)
			w.done(job)
			if got := names(w, id, cluster.Worker); got != "worker4 worker5 worker6" || most != 5 || c.Version != "v2" || c.Template.ID != "node-2" {
				t.Errorf("workers %s, at most %d VMs, version %s\n%s", got, most, c.Version, w.story(id))
			}
			for name, r := range w.vms() {
				if strings.Contains(name, "worker") && r.Spec.Template != "node-2" {
					t.Errorf("%s is made of %s", name, r.Spec.Template)
				}
			}
			w.checkJournal(id)
		})
	})
	t.Run("with consent the control node too", func(t *testing.T) {
		running(t, s, 1, func(t *testing.T, w *world, id string) {
			w.ask(id, cluster.RequestUpgrade, func(c *cluster.Cluster, a *cluster.Request) { ask(c, a); a.Consent, a.Downtime = true, false })
			w.until(id, time.Minute, cluster.Scaling)
			w.until(id, time.Hour, cluster.Running)
			if got := names(w, id, cluster.Control); got != "control2" {
				t.Errorf("control nodes %s", got)
			}
			if err := w.cloud.Probe(t.Context(), w.cluster(id).Endpoint); err != nil {
				t.Error(err)
			}
			w.checkJournal(id)
		})
	})
	t.Run("a failure leaves Alert, another upgrade goes on", func(t *testing.T) {
		running(t, s, 3, func(t *testing.T, w *world, id string) {
			w.cloud.Inject(sim.Rule{Label: "full", Call: sim.Create, Kind: cluster.VM, Nth: 2, Do: sim.Fail, Err: cluster.CapacityExhausted})
			job := w.ask(id, cluster.RequestUpgrade, ask)
			w.until(id, time.Minute, cluster.Scaling)
			for end := time.Now().Add(time.Hour); w.job(job).Status == cluster.JobOpen && time.Now().Before(end); synctest.Wait() {
				time.Sleep(time.Second) // in Alert it may be for a moment only: the next pass finds it healthy
			}
			w.failed(job, "CAPACITY_EXHAUSTED")
			if !strings.Contains(w.path(id), "Scaling Alert") {
				t.Errorf("path %s", w.path(id))
			}
			w.cloud.ClearRules()
			job = w.ask(id, cluster.RequestUpgrade, ask)
			w.until(id, time.Minute, cluster.Recovering, cluster.Running, cluster.Scaling)
			w.until(id, time.Hour, cluster.Scaling)
			w.until(id, time.Hour, cluster.Running)
			w.done(job)
			for name, r := range w.vms() {
				if strings.Contains(name, "worker") && r.Spec.Template != "node-2" {
					t.Errorf("%s is made of %s", name, r.Spec.Template)
				}
			}
			if len(w.vms()) != 4 {
				t.Errorf("%d VMs", len(w.vms()))
			}
			w.checkJournal(id)
		})
	})
}

// An upgrade changes control nodes first, a single one in place. It is done only
// when every node has the new version.
func TestFinding17UpgradeControlFirst(t *testing.T) {
	s := setup{sim: sim.Options{Times: slow, Templates: []cluster.Entry{{ID: "node-image", Default: true}, {ID: "node-2"}}}}
	versions := func(w *world) {
		w.options.Versions = []service.Version{
			{ID: "v1", Name: "v1", Semantic: "1.0.0", Template: cluster.Entity{ID: "node-image"}},
			{ID: "v2", Name: "v2", Semantic: "1.1.0", Template: cluster.Entity{ID: "node-2"}},
		}
		w.stop()
		w.begin()
	}
	with := func(controls, workers int, test func(t *testing.T, w *world, id string)) func(t *testing.T) {
		return func(t *testing.T) {
			inWorld(t, s, func(t *testing.T, w *world) {
				versions(w)
				id := w.create("blue", workers, func(c *cluster.Cluster) { c.ControlCount, c.Version = controls, "v1" })
				w.until(id, 30*time.Minute, cluster.Running)
				test(t, w, id)
			})
		}
	}
	upgrade := service.ChangeRequest{Kind: cluster.RequestUpgrade, Version: "v2"}
	allowed := upgrade
	allowed.Downtime = true
	// watch returns the order in which nodes reached the new version.
	watch := func(w *world, id string) (order []string, mostControls int) {
		w.until(id, time.Minute, cluster.Scaling)
		for w.cluster(id).State == cluster.Scaling {
			controls := 0
			for _, n := range w.record(id).Nodes {
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

	t.Run("the only one needs leave, and the plan says so", with(1, 2, func(t *testing.T, w *world, id string) {
		if _, _, err := w.service.Change(t.Context(), root, id, upgrade); fault.Of(err) != cluster.DowntimeRefused {
			t.Fatalf("an upgrade without leave: %v", err)
		}
		if c := w.cluster(id); c.State != cluster.Running || c.Request != nil {
			t.Errorf("a refused upgrade has changed something: %+v", c)
		}
		plan, err := w.service.PlanChange(t.Context(), root, id, upgrade)
		if err != nil || len(plan.Findings) < 1 || plan.Findings[0].Code != cluster.DowntimeRefused.Code {
			t.Fatalf("plan %+v, %v", plan, err)
		}
		plan, err = w.service.PlanChange(t.Context(), root, id, allowed)
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
	t.Run("the only one in place", with(1, 2, func(t *testing.T, w *world, id string) {
		before := w.record(id).Nodes[0]
		endpoint := w.cluster(id).Endpoint
		_, job, err := w.service.Change(t.Context(), root, id, allowed)
		if err != nil {
			t.Fatal(err)
		}
		order, _ := watch(w, id)
		w.until(id, time.Second, cluster.Running)
		w.done(job.ID)
		if got := strings.Join(order, " "); got != "control1 worker3 worker4" && got != "control1 worker3" { // the last is ready in the second the run ends
			t.Errorf("order %s\n%s", got, w.story(id))
		}
		after := w.record(id).Nodes[0]
		if after.Name != before.Name || after.VMID != before.VMID || after.Version != "1.1.0" || after.Template.ID != "node-2" {
			t.Errorf("control node %+v, it was %+v", after, before)
		}
		if c := w.cluster(id); c.Endpoint != endpoint || c.Version != "v2" {
			t.Errorf("endpoint %s, it was %s; version %s", c.Endpoint, endpoint, c.Version)
		}
		if report, err := w.service.Drift(t.Context(), root, id); err != nil || len(report.Findings) != 0 {
			t.Errorf("drift %+v, %v", report, err)
		}
		w.checkJournal(id)
	}))
	t.Run("of three one at a time, before the workers", with(3, 1, func(t *testing.T, w *world, id string) {
		wide := upgrade
		wide.Surge = 3
		_, job, err := w.service.Change(t.Context(), root, id, wide)
		if err != nil {
			t.Fatal(err)
		}
		order, most := watch(w, id)
		w.until(id, time.Second, cluster.Running)
		w.done(job.ID)
		if got := strings.Join(order, " "); most != 4 || !strings.HasPrefix(got, "control4 control5 control6") {
			t.Errorf("order %s, at most %d control nodes\n%s", got, most, w.story(id))
		}
		for _, n := range w.record(id).Nodes {
			if n.Template.ID != "node-2" {
				t.Errorf("%s is made of %s", n.Name, n.Template.ID)
			}
		}
		w.checkJournal(id)
	}))
	t.Run("a node that keeps its version: not done, told, and drift; workers are not touched", with(1, 2, func(t *testing.T, w *world, id string) {
		control := w.record(id).Nodes[0]
		if err := w.cloud.KeepVersion(control.Name, true); err != nil {
			t.Fatal(err)
		}
		_, job, err := w.service.Change(t.Context(), root, id, allowed)
		if err != nil {
			t.Fatal(err)
		}
		w.until(id, time.Minute, cluster.Scaling)
		for end := time.Now().Add(2 * time.Hour); w.job(job.ID).Status == cluster.JobOpen && time.Now().Before(end); synctest.Wait() {
			time.Sleep(time.Second)
		}
		w.failed(job.ID, string(cluster.UpgradeIncomplete.Code))
		if text := w.job(job.ID).Text; !strings.Contains(text, control.Name) {
			t.Errorf("the job names nobody: %s", text)
		}
		if c := w.cluster(id); c.Version != "v1" || names(w, id, cluster.Worker) != "worker1 worker2" {
			t.Errorf("version %s, workers %s", c.Version, names(w, id, cluster.Worker))
		}
	}))
	t.Run("what an older version of this service left behind is drift, and upgraded by the next", with(1, 1, func(t *testing.T, w *world, id string) {
		record := w.record(id)
		record.Cluster.Version, record.Cluster.Template = "v2", cluster.Entity{ID: "node-2"}
		if err := w.records.Commit(t.Context(), &cluster.Change{Cluster: &record.Cluster}); err != nil {
			t.Fatal(err)
		}
		report, err := w.service.Drift(t.Context(), root, id)
		if err != nil || len(report.Findings) != 2 || report.Findings[0].Type != cluster.Outdated || !strings.Contains(report.Findings[0].String(), "1.1.0") {
			t.Fatalf("drift %+v, %v", report, err)
		}
		time.Sleep(10 * time.Minute)
		if c := w.cluster(id); c.State != cluster.Running || len(c.Findings) != 2 {
			t.Errorf("it is %s with %v", c.State, c.Findings)
		}
		_, job, err := w.service.Change(t.Context(), root, id, allowed)
		if err != nil {
			t.Fatal(err)
		}
		w.until(id, time.Minute, cluster.Scaling)
		w.until(id, time.Hour, cluster.Running)
		w.done(job.ID)
		time.Sleep(2 * time.Minute)
		if report, err = w.service.Drift(t.Context(), root, id); err != nil || len(report.Findings) != 0 {
			t.Errorf("drift %+v, %v", report, err)
		}
	}))
	t.Run("one that does not call home is replaced by consent only", func(t *testing.T) {
		silent := s
		silent.silent = true
		inWorld(t, silent, func(t *testing.T, w *world) {
			versions(w)
			id := w.create("blue", 1, func(c *cluster.Cluster) { c.Version = "v1" })
			w.until(id, 30*time.Minute, cluster.Running)
			if _, _, err := w.service.Change(t.Context(), root, id, allowed); fault.Of(err) != cluster.LastControl {
				t.Fatalf("an upgrade without consent: %v", err)
			}
			consent := upgrade
			consent.Consent = true
			_, job, err := w.service.Change(t.Context(), root, id, consent)
			if err != nil {
				t.Fatal(err)
			}
			w.until(id, time.Minute, cluster.Scaling)
			w.until(id, time.Hour, cluster.Running)
			w.done(job.ID)
			if got := names(w, id, cluster.Control); got != "control2" {
				t.Errorf("control nodes %s", got)
			}
		})
	})
}

// If the only control node is gone, it is replaced by an empty one only with
// consent.
func TestFinding17LastControlNodeGone(t *testing.T) {
	running(t, setup{sim: sim.Options{Times: slow}}, 2, func(t *testing.T, w *world, id string) {
		record := w.record(id)
		record.Cluster.Recovery = cluster.Recovery{cluster.Restart, cluster.Replace}
		if err := w.records.Commit(t.Context(), &cluster.Change{Cluster: &record.Cluster}); err != nil {
			t.Fatal(err)
		}
		if err := w.cloud.DestroyVM(record.Nodes[0].VMID); err != nil {
			t.Fatal(err)
		}
		if err := w.cloud.DestroyVM(record.Nodes[1].VMID); err != nil { // and a worker, which may be replaced
			t.Fatal(err)
		}
		w.until(id, 10*time.Minute, cluster.Alert)
		time.Sleep(3 * time.Hour)
		if got := names(w, id, cluster.Control); got != "control1" {
			t.Fatalf("control nodes %s\n%s", got, w.story(id))
		}
		if c := w.cluster(id); c.State != cluster.Alert && c.State != cluster.Recovering {
			t.Errorf("it is %s", c.State)
		}
		w.until(id, time.Hour, cluster.Alert)
		job := w.ask(id, cluster.RequestRecover, func(_ *cluster.Cluster, a *cluster.Request) {
			a.Recovery = cluster.Recovery{cluster.Restart, cluster.Replace}
		})
		for end := time.Now().Add(2 * time.Hour); w.job(job).Status == cluster.JobOpen && time.Now().Before(end); synctest.Wait() {
			time.Sleep(time.Second)
		}
		w.failed(job, string(cluster.LastControl.Code))
		w.until(id, time.Hour, cluster.Alert)
		w.ask(id, cluster.RequestRecover, func(_ *cluster.Cluster, a *cluster.Request) { a.Consent = true })
		w.until(id, time.Hour, cluster.Running)
		if got := names(w, id, cluster.Control); got != "control2" {
			t.Errorf("control nodes %s\n%s", got, w.story(id))
		}
	})
}

func TestRecover(t *testing.T) {
	s := setup{sim: sim.Options{Times: slow}}
	for name, c := range map[string]struct {
		harm func(w *world) error
		mend func(w *world) error
		ask  func(c *cluster.Cluster, a *cluster.Request)
		code string // empty: success
	}{
		"nothing to do":                 {harm: func(w *world) error { return w.cloud.StopVM("blue-8f3b2c-worker2") }, mend: func(w *world) error { return w.cloud.StartVM("blue-8f3b2c-worker2") }},
		"a stopped worker":              {harm: func(w *world) error { return w.cloud.StopVM("blue-8f3b2c-worker2") }},
		"a missing worker":              {harm: func(w *world) error { return w.cloud.DestroyVM("blue-8f3b2c-worker2") }},
		"a broken worker":               {harm: func(w *world) error { return w.cloud.BreakVM("blue-8f3b2c-worker2") }},
		"a missing control node":        {harm: func(w *world) error { return w.cloud.DestroyVM("blue-8f3b2c-control1") }, ask: func(_ *cluster.Cluster, a *cluster.Request) { a.Consent = true }},
		"a rule that is gone":           {harm: func(w *world) error { return w.cloud.Delete(cluster.Firewall, "blue-8f3b2c-firewall") }},
		"replace is not allowed":        {harm: func(w *world) error { return w.cloud.DestroyVM("blue-8f3b2c-worker2") }, ask: func(_ *cluster.Cluster, a *cluster.Request) { a.Recovery = cluster.Recovery{cluster.Restart} }, code: "RECOVERY_FORBIDDEN"},
		"the last control node, broken": {harm: func(w *world) error { return w.cloud.BreakVM("blue-8f3b2c-control1") }, code: "LAST_CONTROL_NODE"},
	} {
		t.Run(name, func(t *testing.T) {
			running(t, s, 3, func(t *testing.T, w *world, id string) {
				w.causeAlert(id, c.harm)
				if c.mend != nil {
					if err := c.mend(w); err != nil {
						t.Fatal(err)
					}
				}
				job := w.ask(id, cluster.RequestRecover, c.ask)
				w.awaitJob(job)
				if c.code != "" {
					w.until(id, time.Hour, cluster.Alert)
					w.failed(job, c.code)
					return
				}
				w.until(id, 2*time.Hour, cluster.Running)
				w.done(job)
				if len(w.vms()) != 4 {
					t.Errorf("%d VMs\n%s", len(w.vms()), w.story(id))
				}
				if err := w.cloud.Probe(t.Context(), w.cluster(id).Endpoint); err != nil {
					t.Errorf("%v\n%s", err, w.story(id))
				}
				w.checkJournal(id)
			})
		})
	}
}

func TestDeleteInEachState(t *testing.T) {
	s := setup{sim: sim.Options{Times: slow}}
	for name, c := range map[string]struct {
		to   func(w *world, id string)
		path string
	}{
		"Created": {func(w *world, id string) {}, ""},
		"Starting, first": {func(w *world, id string) {
			w.until(id, time.Minute, cluster.Starting)
			time.Sleep(20 * time.Second)
		}, "Starting Expunging Destroyed"},
		"Running":  {func(w *world, id string) { w.until(id, time.Hour, cluster.Running) }, "Starting Running Stopping Stopped Expunging Destroyed"},
		"Stopping": {func(w *world, id string) { w.requestUntil(id, cluster.RequestStop, cluster.Stopping) }, "Starting Running Stopping Stopped Expunging Destroyed"},
		"Stopped":  {func(w *world, id string) { w.requestUntil(id, cluster.RequestStop, cluster.Stopped) }, "Starting Running Stopping Stopped Expunging Destroyed"},
		"Starting, later": {func(w *world, id string) {
			w.requestUntil(id, cluster.RequestStop, cluster.Stopped)
			w.ask(id, cluster.RequestStart, nil)
			w.until(id, time.Minute, cluster.Starting)
			time.Sleep(5 * time.Second)
		}, "Starting Running Stopping Stopped Starting Alert Expunging Destroyed"},
		"Scaling": {func(w *world, id string) {
			w.until(id, time.Hour, cluster.Running)
			w.ask(id, cluster.RequestScale, func(c *cluster.Cluster, _ *cluster.Request) { c.NodeCount = 6 })
			w.until(id, time.Minute, cluster.Scaling)
			time.Sleep(10 * time.Second)
		}, "Starting Running Scaling Alert Expunging Destroyed"},
		"Alert": {func(w *world, id string) { w.causeAlert(id, nil) }, "Starting Running Alert Expunging Destroyed"},
		"Recovering": {func(w *world, id string) {
			w.causeAlert(id, nil)
			if err := w.cloud.DestroyVM("blue-8f3b2c-worker2"); err != nil {
				w.t.Fatal(err)
			}
			w.requestUntil(id, cluster.RequestRecover, cluster.Recovering)
			time.Sleep(10 * time.Second)
		}, "Starting Running Alert Recovering Alert Expunging Destroyed"},
		"Expunge": {func(w *world, id string) {
			w.causeAlert(id, nil)
			w.cloud.Inject(sim.Rule{Call: sim.Act, Action: cluster.Destroy, Do: sim.Fail})
			w.failed(w.requestUntil(id, cluster.RequestDelete, cluster.Expunge), "PROVIDER_REFUSED")
			w.cloud.ClearRules()
		}, "Starting Running Alert Expunging Expunge Expunging Destroyed"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, s, func(t *testing.T, w *world) {
				id := w.create("blue", 3)
				if name != "Created" && name != "Starting, first" {
					w.until(id, time.Hour, cluster.Running)
				}
				c.to(w, id)
				job := w.ask(id, cluster.RequestDelete, func(c *cluster.Cluster, a *cluster.Request) {})
				end := w.until(id, 2*time.Hour, cluster.Destroyed)
				w.done(job)
				w.checkEmpty()
				if got := w.path(id); c.path != "" && got != c.path {
					t.Errorf("path %s\nwant %s", got, c.path)
				}
				if end.Removed.IsZero() || len(w.record(id).Nodes) != 0 {
					t.Errorf("removed %s, nodes %v", end.Removed, w.record(id).Nodes)
				}
				for _, r := range w.record(id).Journal {
					if r.Phase.Open() && r.Origin != cluster.OriginGiven {
						t.Errorf("row %s is %s", r.Name, r.Phase)
					}
				}
				if jobs, _, _ := w.records.Jobs(t.Context(), cluster.JobQuery{Scope: all, Cluster: id, OnlyOpen: true}); len(jobs) != 0 {
					t.Errorf("open jobs %+v", jobs)
				}
			})
		})
	}
}

// requestUntil sends a request and waits for a state.
func (w *world) requestUntil(id string, kind cluster.RequestKind, state machine.State) string {
	w.t.Helper()
	job := w.ask(id, kind, nil)
	w.until(id, time.Hour, state)
	return job
}

// disableRecovery forbids automatic recovery of a cluster.
func (w *world) disableRecovery(id string) {
	w.t.Helper()
	record := w.record(id)
	record.Cluster.Recovery = cluster.Recovery{}
	if err := w.records.Commit(w.t.Context(), &cluster.Change{Cluster: &record.Cluster}); err != nil {
		w.t.Fatal(err)
	}
}

// causeAlert forbids recovery and harms a running cluster until it is in Alert.
func (w *world) causeAlert(id string, harm func(w *world) error) {
	w.t.Helper()
	w.disableRecovery(id)
	if harm == nil {
		harm = func(w *world) error { return w.cloud.StopVM("blue-8f3b2c-worker3") }
	}
	if err := harm(w); err != nil {
		w.t.Fatal(err)
	}
	w.until(id, 10*time.Minute, cluster.Alert)
}

// awaitJob waits for the end of a job.
func (w *world) awaitJob(job string) {
	w.t.Helper()
	for range 7200 {
		if w.job(job).Status != cluster.JobOpen {
			return
		}
		time.Sleep(time.Second)
	}
	w.t.Fatalf("job %s does not end\n%s", job, w.story(w.job(job).Cluster))
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
			running(t, setup{sim: sim.Options{Times: slow}}, 1, func(t *testing.T, w *world, id string) {
				w.ask(id, cluster.RequestStop, func(c *cluster.Cluster, _ *cluster.Request) { c.Desired = cluster.WantStopped })
				w.until(id, time.Hour, cluster.Stopped)
				w.disableRecovery(id) // otherwise Alert may end between two checks
				w.cloud.Inject(sim.Rule{Call: "act", Action: cluster.Start, Name: "blue-*-control*", Times: 1, Do: sim.FailJob, Err: c.err})
				began := time.Now()
				w.ask(id, cluster.RequestStart, func(c *cluster.Cluster, _ *cluster.Request) { c.Desired = cluster.WantRunning })
				w.until(id, time.Hour, c.ends)
				if took := time.Since(began); took > 3*time.Minute {
					t.Errorf("it is %s after %s\n%s", c.ends, took, w.story(id))
				}
			})
		})
	}
}
