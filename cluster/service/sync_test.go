package service_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/sim"
)

// running creates a cluster of one control node and two workers and waits until
// it runs.
func (w *world) running(policy cluster.Recovery) string {
	w.t.Helper()
	id := w.create("blue", 2, func(c *cluster.Cluster) { c.Recovery = policy })
	w.until(id, 30*time.Minute, cluster.Running)
	time.Sleep(2 * time.Minute) // two passes, and a heartbeat of every node
	if c := w.cluster(id); c.State != cluster.Running || len(c.Findings) > 0 {
		w.t.Fatalf("a new cluster is not healthy: %s\n%s", c.State, w.story(id))
	}
	w.cloud.ClearLog()
	return id
}

// worker returns the VM id of the nth worker.
func (w *world) worker(id string, n int) string {
	w.t.Helper()
	for _, node := range w.record(id).Nodes {
		if node.Role == cluster.Worker {
			if n--; n == 0 {
				return node.VMID
			}
		}
	}
	w.t.Fatal("there is no such worker")
	return ""
}

func (w *world) lists() int { return w.calls("list", "*") }

func types(c *cluster.Cluster) (all []cluster.FindingType) {
	for _, f := range c.Findings {
		all = append(all, f.Type)
	}
	return all
}

var everyKind = []cluster.Kind{cluster.VM, cluster.Network, cluster.Address, cluster.Firewall, cluster.Forward, cluster.Balancer}

// A healthy cluster is only listed: no other read, and no write.
func TestSyncWritesNothingOfAHealthyCluster(t *testing.T) {
	inWorld(t, setup{}, func(t *testing.T, w *world) {
		id := w.running(nil)
		revision, writes := w.cluster(id).Revision, w.records.count()
		time.Sleep(30 * time.Minute)
		if c := w.cluster(id); c.Revision != revision || w.records.count() != writes {
			t.Errorf("%d writes, revision %d then %d", w.records.count()-writes, revision, c.Revision)
		}
		passes := 30 * 60 / 30
		collections := 7
		if most := (passes*11/10 + 1 + collections) * len(everyKind); w.lists() > most || w.lists() < most/2 {
			t.Errorf("%d lists in 30 minutes, at most %d", w.lists(), most)
		}
		if n := w.calls("get", "*"); n != 0 {
			t.Errorf("%d resources were read singly without a suspect", n)
		}
	})
}

func TestAStoppedVMIsStartedAgain(t *testing.T) {
	inWorld(t, setup{sim: sim.Options{Times: slow}}, func(t *testing.T, w *world) {
		id := w.running(nil)
		vm := w.worker(id, 1)
		if err := w.cloud.StopVM(vm); err != nil {
			t.Fatal(err)
		}
		c := w.until(id, time.Minute, cluster.Alert, cluster.Recovering)
		if c.Reason.Code != cluster.ClusterFaulty.Code || !strings.Contains(c.Reason.Text, "power_state") || c.Reason.Resource == "" {
			t.Errorf("reason %+v", c.Reason)
		}
		w.until(id, 10*time.Minute, cluster.Running)
		if r, _ := w.cloud.Lookup(cluster.VM, vm); r.Power != cluster.PoweredOn {
			t.Errorf("the VM is %s", r.State)
		}
		time.Sleep(2 * time.Minute)
		if c = w.cluster(id); c.State != cluster.Running || len(c.Findings) > 0 || c.RecoverTries != 0 {
			t.Errorf("healthy again: %s, %v, %d tries", c.State, c.Findings, c.RecoverTries)
		}
		events, _ := w.records.Events(t.Context(), cluster.EventQuery{Scope: all, Cluster: id, Types: []string{"drift"}})
		if len(events) == 0 || events[0].Reason.Code != cluster.ClusterFaulty.Code || !strings.Contains(string(events[0].Data), "power_state") {
			t.Errorf("drift events: %+v", events)
		}
	})
}

func TestAMissingVMWaitsForPermission(t *testing.T) {
	inWorld(t, setup{sim: sim.Options{Times: slow}}, func(t *testing.T, w *world) {
		id := w.running(nil)
		if err := w.cloud.DestroyVM(w.worker(id, 1)); err != nil {
			t.Fatal(err)
		}
		w.until(id, time.Minute, cluster.Alert)
		w.cloud.ClearLog()
		revision := w.cluster(id).Revision
		time.Sleep(3 * time.Hour)
		c := w.cluster(id)
		if c.State != cluster.Alert || !slices.Equal(types(c), []cluster.FindingType{cluster.Missing}) || c.Revision != revision {
			t.Fatalf("restart only: %s, %v, %d writes\n%s", c.State, c.Findings, c.Revision-revision, w.story(id))
		}
		if f := c.Findings[0]; !strings.Contains(f.Then, "replace is not allowed") || f.Code != cluster.RecoveryForbidden.Code {
			t.Errorf("what the policy does: %+v", f)
		}
		if n := w.calls("get", "*"); n != 0 {
			t.Errorf("what was proven gone was read %d times again", n)
		}
		w.ask(id, cluster.RequestRecover, func(_ *cluster.Cluster, a *cluster.Request) {
			a.Recovery = cluster.Recovery{cluster.Restart, cluster.Replace}
		})
		w.until(id, 20*time.Minute, cluster.Running)
		w.checkJournal(id)
	})
}

func TestThePolicyReplaces(t *testing.T) {
	inWorld(t, setup{sim: sim.Options{Times: slow}}, func(t *testing.T, w *world) {
		id := w.running(cluster.Recovery{cluster.Restart, cluster.Replace})
		if err := w.cloud.TrashVM(w.worker(id, 2)); err != nil {
			t.Fatal(err)
		}
		w.until(id, time.Minute, cluster.Alert, cluster.Recovering)
		w.until(id, 30*time.Minute, cluster.Running)
		time.Sleep(5 * time.Minute)
		c := w.cluster(id)
		if c.State != cluster.Running || len(c.Findings) > 0 || len(w.record(id).Nodes) != 3 {
			t.Errorf("%s, %v\n%s", c.State, c.Findings, w.story(id))
		}
		w.checkJournal(id)
	})
}

// While the provider does not answer, no cluster changes its state.
func TestAnOutageIsNoLoss(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(w *world, off bool)
		code string
	}{
		"unreachable":         {func(w *world, off bool) { w.cloud.Unreachable(off) }, "PROVIDER_UNREACHABLE since "},
		"refused credentials": {func(w *world, off bool) { w.cloud.RefuseCredentials(off) }, "CREDENTIALS_REFUSED since "},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, setup{}, func(t *testing.T, w *world) {
				id := w.running(cluster.Recovery{cluster.Restart, cluster.Replace})
				revision := w.cluster(id).Revision
				c.do(w, true)
				if err := w.cloud.StopVM(w.worker(id, 1)); err != nil { // the service cannot observe it
					t.Fatal(err)
				}
				if err := w.cloud.StartVM(w.worker(id, 1)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				now := w.cluster(id)
				if now.State != cluster.Running || now.Revision != revision || len(now.Findings) > 0 {
					t.Errorf("%s, %v, revision %d then %d\n%s", now.State, now.Findings, revision, now.Revision, w.story(id))
				}
				if b := w.alerts()["sim"]; !strings.HasPrefix(b, c.code) {
					t.Errorf("alert %q", b)
				}
				c.do(w, false)
				time.Sleep(6 * time.Minute)
				if b := w.alerts(); len(b) > 0 {
					t.Errorf("the alert stays: %v", b)
				}
				if got := w.path(id); got != "Starting Running" {
					t.Errorf("path %s", got)
				}
			})
		})
	}
}

// A failed list proves nothing about its kind; the other lists count.
func TestAFailedPageIsNotSeen(t *testing.T) {
	inWorld(t, setup{}, func(t *testing.T, w *world) {
		id := w.running(cluster.Recovery{})
		w.cloud.Inject(sim.Rule{Label: "firewall", Call: sim.List, Kind: cluster.Firewall, Do: sim.Fail})
		for _, r := range w.cloud.All(cluster.Firewall) {
			if err := w.cloud.ChangeRule(cluster.Firewall, r.ID, func(s *cluster.Spec) { s.CIDRs = []string{"198.51.100.0/24"} }); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Minute)
		if c := w.cluster(id); c.State != cluster.Running || w.cloud.Fired("firewall") == 0 {
			t.Fatalf("%s: %v", c.State, c.Findings)
		}
		if w.alerts()["sim"] == "" {
			t.Error("no alert")
		}
		if err := w.cloud.StopVM(w.worker(id, 1)); err != nil {
			t.Fatal(err)
		}
		c := w.until(id, time.Minute, cluster.Alert)
		if !slices.Equal(types(c), []cluster.FindingType{cluster.PowerState}) {
			t.Errorf("found %v", c.Findings)
		}
		w.cloud.ClearRules()
		time.Sleep(2 * time.Minute)
		if c := w.cluster(id); !slices.Equal(types(c), []cluster.FindingType{cluster.PowerState, cluster.RuleChanged}) {
			t.Errorf("found %v", c.Findings)
		}
	})
}

// A page that fails once is read again: one lost answer does not end the pass.
func TestAPageThatFailsOnceIsReadAgain(t *testing.T) {
	inWorld(t, setup{}, func(t *testing.T, w *world) {
		id := w.running(cluster.Recovery{})
		w.cloud.Inject(sim.Rule{Label: "once", Call: sim.List, Kind: cluster.VM, Do: sim.Throttle, Times: 1})
		if err := w.cloud.StopVM(w.worker(id, 1)); err != nil {
			t.Fatal(err)
		}
		w.until(id, 34*time.Second, cluster.Alert)
		if w.cloud.Fired("once") != 1 || len(w.alerts()) > 0 {
			t.Errorf("fired %d, alerts %v", w.cloud.Fired("once"), w.alerts())
		}
	})
}

func TestToleratedFindings(t *testing.T) {
	t.Run("a migration of nine minutes", func(t *testing.T) {
		inWorld(t, setup{sim: sim.Options{Times: sim.Times{Migrate: 9 * time.Minute}}}, func(t *testing.T, w *world) {
			id := w.running(nil)
			if err := w.cloud.Migrate(w.worker(id, 1)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(15 * time.Minute)
			if got := w.path(id); got != "Starting Running" || len(w.cluster(id).Findings) > 0 {
				t.Errorf("path %s, %v", got, w.cluster(id).Findings)
			}
		})
	})
	t.Run("a foreign VM in the network", func(t *testing.T) {
		inWorld(t, setup{}, func(t *testing.T, w *world) {
			id := w.running(nil)
			if _, err := w.cloud.AddForeignVM("stranger", w.cluster(id).Network.ID); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute) // a pass reports it
			if c := w.cluster(id); !slices.Equal(types(c), []cluster.FindingType{cluster.Foreign}) || c.Findings[0].Resource != "stranger" {
				t.Errorf("found %v", c.Findings)
			}
			writes := w.records.count()
			time.Sleep(2 * time.Hour)
			if got := w.path(id); got != "Starting Running" || w.cluster(id).Alarm || w.records.count() != writes {
				t.Errorf("path %s, %v, %d more writes", got, w.cluster(id).Findings, w.records.count()-writes)
			}
			if err := w.cloud.DestroyVM("stranger"); err != nil {
				t.Errorf("the foreign VM is gone: %v", err)
			}
			time.Sleep(time.Minute)
			if c := w.cluster(id); len(c.Findings) > 0 {
				t.Errorf("nobody is there any more, and yet %v", c.Findings)
			}
		})
	})
	t.Run("a VM of ours whose tags were taken away", func(t *testing.T) {
		inWorld(t, setup{}, func(t *testing.T, w *world) {
			id := w.running(nil)
			if err := w.cloud.StripTags(cluster.VM, w.worker(id, 1)); err != nil {
				t.Fatal(err)
			}
			reads := w.calls("get", "*")
			time.Sleep(time.Hour)
			if c := w.cluster(id); c.State != cluster.Running || len(c.Findings) > 0 || w.calls("get", "*") != reads {
				t.Errorf("it is %s, found %v, read %d times: the list shows it by its id", c.State, c.Findings, w.calls("get", "*")-reads)
			}
			report, err := w.service.Drift(t.Context(), root, id)
			if err != nil || len(report.Findings) > 0 {
				t.Errorf("drift: %+v, %v", report, err)
			}
		})
	})
	t.Run("a node that is silent for two minutes", func(t *testing.T) {
		inWorld(t, setup{}, func(t *testing.T, w *world) {
			id := w.running(nil)
			vm := w.worker(id, 1)
			if err := w.cloud.Silence(vm, true); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Second)
			if err := w.cloud.Silence(vm, false); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Minute)
			if got := w.path(id); got != "Starting Running" {
				t.Errorf("path %s", got)
			}
		})
	})
}

func TestASilentNodeIsAnAlertUntilItSpeaks(t *testing.T) {
	inWorld(t, setup{}, func(t *testing.T, w *world) {
		id := w.running(nil)
		vm := w.worker(id, 1)
		if err := w.cloud.Silence(vm, true); err != nil {
			t.Fatal(err)
		}
		c := w.until(id, 4*time.Minute, cluster.Alert)
		if !slices.Contains(types(c), cluster.NotReady) {
			t.Errorf("found %v", c.Findings)
		}
		time.Sleep(5 * time.Minute)
		if c = w.cluster(id); c.State != cluster.Alert {
			t.Errorf("restart cannot help, but the cluster is %s", c.State)
		}
		if err := w.cloud.Silence(vm, false); err != nil {
			t.Fatal(err)
		}
		w.until(id, 5*time.Minute, cluster.Running)
	})
}

func TestAVMThatRunsInAStoppedClusterIsStopped(t *testing.T) {
	inWorld(t, setup{}, func(t *testing.T, w *world) {
		id := w.running(nil)
		w.ask(id, cluster.RequestStop, nil)
		w.until(id, 10*time.Minute, cluster.Stopped)
		time.Sleep(5 * time.Minute)
		if c := w.cluster(id); c.State != cluster.Stopped || len(c.Findings) > 0 {
			t.Fatalf("%s, %v", c.State, c.Findings)
		}
		vm := w.worker(id, 1)
		if err := w.cloud.StartVM(vm); err != nil {
			t.Fatal(err)
		}
		w.until(id, time.Minute, cluster.Alert, cluster.Stopping)
		w.until(id, 10*time.Minute, cluster.Stopped)
		if r, _ := w.cloud.Lookup(cluster.VM, vm); r.Power != cluster.PoweredOff {
			t.Errorf("the VM is %s", r.State)
		}
	})
}

func TestAnOpenedRuleIsClosedAgain(t *testing.T) {
	inWorld(t, setup{}, func(t *testing.T, w *world) {
		id := w.create("blue", 2, func(c *cluster.Cluster) { c.CIDRs = []string{"192.0.2.0/24"} })
		w.until(id, 30*time.Minute, cluster.Running)
		for _, r := range w.cloud.All(cluster.Firewall) {
			if err := w.cloud.ChangeRule(cluster.Firewall, r.ID, func(s *cluster.Spec) { s.CIDRs = []string{"0.0.0.0/0"} }); err != nil {
				t.Fatal(err)
			}
		}
		w.until(id, time.Minute, cluster.Alert, cluster.Recovering)
		w.until(id, 10*time.Minute, cluster.Running)
		time.Sleep(5 * time.Minute)
		rules := w.cloud.All(cluster.Firewall)
		if c := w.cluster(id); c.State != cluster.Running || len(c.Findings) > 0 || len(rules) != 1 || !slices.Equal(rules[0].Spec.CIDRs, []string{"192.0.2.0/24"}) {
			t.Errorf("%s, %v, %d rules\n%s", c.State, c.Findings, len(rules), w.story(id))
		}
		w.checkJournal(id)
	})
}
