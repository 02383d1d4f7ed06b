package sync_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service/servicetest"
	"github.com/pawl-dev/pawl/provider/sim"
)

func types(c *cluster.Cluster) (all []cluster.FindingType) {
	for _, f := range c.Findings {
		all = append(all, f.Type)
	}
	return all
}

var everyKind = []cluster.Kind{cluster.VM, cluster.Network, cluster.Address, cluster.Firewall, cluster.Forward, cluster.Balancer}

// A healthy cluster is only listed: no other read, and no write.
func TestSyncWritesNothingOfAHealthyCluster(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{}, func(t *testing.T, w *servicetest.World) {
		id := w.Running(nil)
		revision, writes := w.Cluster(id).Revision, w.Records.Count()
		time.Sleep(30 * time.Minute)
		if c := w.Cluster(id); c.Revision != revision || w.Records.Count() != writes {
			t.Errorf("%d writes, revision %d then %d", w.Records.Count()-writes, revision, c.Revision)
		}
		passes := 30 * 60 / 30
		collections := 7
		if most := (passes*11/10 + 1 + collections) * len(everyKind); w.Lists() > most || w.Lists() < most/2 {
			t.Errorf("%d lists in 30 minutes, at most %d", w.Lists(), most)
		}
		if n := w.Calls("get", "*"); n != 0 {
			t.Errorf("%d resources were read singly without a suspect", n)
		}
	})
}

func TestAStoppedVMIsStartedAgain(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}, func(t *testing.T, w *servicetest.World) {
		id := w.Running(nil)
		vm := w.Worker(id, 1)
		if err := w.Cloud.StopVM(vm); err != nil {
			t.Fatal(err)
		}
		c := w.Until(id, time.Minute, cluster.Alert, cluster.Recovering)
		if c.Reason.Code != cluster.ClusterFaulty.Code || !strings.Contains(c.Reason.Text, "power_state") || c.Reason.Resource == "" {
			t.Errorf("reason %+v", c.Reason)
		}
		w.Until(id, 10*time.Minute, cluster.Running)
		if r, _ := w.Cloud.Lookup(cluster.VM, vm); r.Power != cluster.PoweredOn {
			t.Errorf("the VM is %s", r.State)
		}
		time.Sleep(2 * time.Minute)
		if c = w.Cluster(id); c.State != cluster.Running || len(c.Findings) > 0 || c.RecoverTries != 0 {
			t.Errorf("healthy again: %s, %v, %d tries", c.State, c.Findings, c.RecoverTries)
		}
		events, _ := w.Records.Events(t.Context(), cluster.EventQuery{Scope: servicetest.All, Cluster: id, Types: []string{"drift"}})
		if len(events) == 0 || events[0].Reason.Code != cluster.ClusterFaulty.Code || !strings.Contains(string(events[0].Data), "power_state") {
			t.Errorf("drift events: %+v", events)
		}
	})
}

func TestAMissingVMWaitsForPermission(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}, func(t *testing.T, w *servicetest.World) {
		id := w.Running(nil)
		if err := w.Cloud.DestroyVM(w.Worker(id, 1)); err != nil {
			t.Fatal(err)
		}
		w.Until(id, time.Minute, cluster.Alert)
		w.Cloud.ClearLog()
		revision := w.Cluster(id).Revision
		time.Sleep(3 * time.Hour)
		c := w.Cluster(id)
		if c.State != cluster.Alert || !slices.Equal(types(c), []cluster.FindingType{cluster.Missing}) || c.Revision != revision {
			t.Fatalf("restart only: %s, %v, %d writes\n%s", c.State, c.Findings, c.Revision-revision, w.Story(id))
		}
		if f := c.Findings[0]; !strings.Contains(f.Then, "replace is not allowed") || f.Code != cluster.RecoveryForbidden.Code {
			t.Errorf("what the policy does: %+v", f)
		}
		if n := w.Calls("get", "*"); n != 0 {
			t.Errorf("what was proven gone was read %d times again", n)
		}
		w.Ask(id, cluster.RequestRecover, func(_ *cluster.Cluster, a *cluster.Request) {
			a.Recovery = cluster.Recovery{cluster.Restart, cluster.Replace}
		})
		w.Until(id, 20*time.Minute, cluster.Running)
		w.CheckJournal(id)
	})
}

func TestThePolicyReplaces(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}, func(t *testing.T, w *servicetest.World) {
		id := w.Running(cluster.Recovery{cluster.Restart, cluster.Replace})
		if err := w.Cloud.TrashVM(w.Worker(id, 2)); err != nil {
			t.Fatal(err)
		}
		w.Until(id, time.Minute, cluster.Alert, cluster.Recovering)
		w.Until(id, 30*time.Minute, cluster.Running)
		time.Sleep(5 * time.Minute)
		c := w.Cluster(id)
		if c.State != cluster.Running || len(c.Findings) > 0 || len(w.Record(id).Nodes) != 3 {
			t.Errorf("%s, %v\n%s", c.State, c.Findings, w.Story(id))
		}
		w.CheckJournal(id)
	})
}

// While the provider does not answer, no cluster changes its state.
func TestAnOutageIsNoLoss(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(w *servicetest.World, off bool)
		code string
	}{
		"unreachable":         {func(w *servicetest.World, off bool) { w.Cloud.Unreachable(off) }, "PROVIDER_UNREACHABLE since "},
		"refused credentials": {func(w *servicetest.World, off bool) { w.Cloud.RefuseCredentials(off) }, "CREDENTIALS_REFUSED since "},
	} {
		t.Run(name, func(t *testing.T) {
			servicetest.InWorld(t, servicetest.Setup{}, func(t *testing.T, w *servicetest.World) {
				id := w.Running(cluster.Recovery{cluster.Restart, cluster.Replace})
				revision := w.Cluster(id).Revision
				c.do(w, true)
				if err := w.Cloud.StopVM(w.Worker(id, 1)); err != nil { // the service cannot observe it
					t.Fatal(err)
				}
				if err := w.Cloud.StartVM(w.Worker(id, 1)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				now := w.Cluster(id)
				if now.State != cluster.Running || now.Revision != revision || len(now.Findings) > 0 {
					t.Errorf("%s, %v, revision %d then %d\n%s", now.State, now.Findings, revision, now.Revision, w.Story(id))
				}
				if b := w.Alerts()["sim"]; !strings.HasPrefix(b, c.code) {
					t.Errorf("alert %q", b)
				}
				c.do(w, false)
				time.Sleep(6 * time.Minute)
				if b := w.Alerts(); len(b) > 0 {
					t.Errorf("the alert stays: %v", b)
				}
				if got := w.Path(id); got != "Starting Running" {
					t.Errorf("path %s", got)
				}
			})
		})
	}
}

// A failed list proves nothing about its kind; the other lists count.
func TestAFailedPageIsNotSeen(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{}, func(t *testing.T, w *servicetest.World) {
		id := w.Running(cluster.Recovery{})
		w.Cloud.Inject(sim.Rule{Label: "firewall", Call: sim.List, Kind: cluster.Firewall, Do: sim.Fail})
		for _, r := range w.Cloud.All(cluster.Firewall) {
			if err := w.Cloud.ChangeRule(cluster.Firewall, r.ID, func(s *cluster.Spec) { s.CIDRs = []string{"198.51.100.0/24"} }); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Minute)
		if c := w.Cluster(id); c.State != cluster.Running || w.Cloud.Fired("firewall") == 0 {
			t.Fatalf("%s: %v", c.State, c.Findings)
		}
		if w.Alerts()["sim"] == "" {
			t.Error("no alert")
		}
		if err := w.Cloud.StopVM(w.Worker(id, 1)); err != nil {
			t.Fatal(err)
		}
		c := w.Until(id, time.Minute, cluster.Alert)
		if !slices.Equal(types(c), []cluster.FindingType{cluster.PowerState}) {
			t.Errorf("found %v", c.Findings)
		}
		w.Cloud.ClearRules()
		time.Sleep(2 * time.Minute)
		if c := w.Cluster(id); !slices.Equal(types(c), []cluster.FindingType{cluster.PowerState, cluster.RuleChanged}) {
			t.Errorf("found %v", c.Findings)
		}
	})
}

// A page that fails once is read again: one lost answer does not end the pass.
func TestAPageThatFailsOnceIsReadAgain(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{}, func(t *testing.T, w *servicetest.World) {
		id := w.Running(cluster.Recovery{})
		w.Cloud.Inject(sim.Rule{Label: "once", Call: sim.List, Kind: cluster.VM, Do: sim.Throttle, Times: 1})
		if err := w.Cloud.StopVM(w.Worker(id, 1)); err != nil {
			t.Fatal(err)
		}
		w.Until(id, 34*time.Second, cluster.Alert)
		if w.Cloud.Fired("once") != 1 || len(w.Alerts()) > 0 {
			t.Errorf("fired %d, alerts %v", w.Cloud.Fired("once"), w.Alerts())
		}
	})
}

func TestToleratedFindings(t *testing.T) {
	t.Run("a migration of nine minutes", func(t *testing.T) {
		servicetest.InWorld(t, servicetest.Setup{Sim: sim.Options{Times: sim.Times{Migrate: 9 * time.Minute}}}, func(t *testing.T, w *servicetest.World) {
			id := w.Running(nil)
			if err := w.Cloud.Migrate(w.Worker(id, 1)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(15 * time.Minute)
			if got := w.Path(id); got != "Starting Running" || len(w.Cluster(id).Findings) > 0 {
				t.Errorf("path %s, %v", got, w.Cluster(id).Findings)
			}
		})
	})
	t.Run("a foreign VM in the network", func(t *testing.T) {
		servicetest.InWorld(t, servicetest.Setup{}, func(t *testing.T, w *servicetest.World) {
			id := w.Running(nil)
			if _, err := w.Cloud.AddForeignVM("stranger", w.Cluster(id).Network.ID); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute) // a pass reports it
			if c := w.Cluster(id); !slices.Equal(types(c), []cluster.FindingType{cluster.Foreign}) || c.Findings[0].Resource != "stranger" {
				t.Errorf("found %v", c.Findings)
			}
			writes := w.Records.Count()
			time.Sleep(2 * time.Hour)
			if got := w.Path(id); got != "Starting Running" || w.Cluster(id).Alarm || w.Records.Count() != writes {
				t.Errorf("path %s, %v, %d more writes", got, w.Cluster(id).Findings, w.Records.Count()-writes)
			}
			if err := w.Cloud.DestroyVM("stranger"); err != nil {
				t.Errorf("the foreign VM is gone: %v", err)
			}
			time.Sleep(time.Minute)
			if c := w.Cluster(id); len(c.Findings) > 0 {
				t.Errorf("nobody is there any more, and yet %v", c.Findings)
			}
		})
	})
	t.Run("a VM of ours whose tags were taken away", func(t *testing.T) {
		servicetest.InWorld(t, servicetest.Setup{}, func(t *testing.T, w *servicetest.World) {
			id := w.Running(nil)
			if err := w.Cloud.StripTags(cluster.VM, w.Worker(id, 1)); err != nil {
				t.Fatal(err)
			}
			reads := w.Calls("get", "*")
			time.Sleep(time.Hour)
			if c := w.Cluster(id); c.State != cluster.Running || len(c.Findings) > 0 || w.Calls("get", "*") != reads {
				t.Errorf("it is %s, found %v, read %d times: the list shows it by its id", c.State, c.Findings, w.Calls("get", "*")-reads)
			}
			report, err := w.Service.Drift(t.Context(), servicetest.Root, id)
			if err != nil || len(report.Findings) > 0 {
				t.Errorf("drift: %+v, %v", report, err)
			}
		})
	})
	t.Run("a node that is silent for two minutes", func(t *testing.T) {
		servicetest.InWorld(t, servicetest.Setup{}, func(t *testing.T, w *servicetest.World) {
			id := w.Running(nil)
			vm := w.Worker(id, 1)
			if err := w.Cloud.Silence(vm, true); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Second)
			if err := w.Cloud.Silence(vm, false); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Minute)
			if got := w.Path(id); got != "Starting Running" {
				t.Errorf("path %s", got)
			}
		})
	})
}

func TestASilentNodeIsAnAlertUntilItSpeaks(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{}, func(t *testing.T, w *servicetest.World) {
		id := w.Running(nil)
		vm := w.Worker(id, 1)
		if err := w.Cloud.Silence(vm, true); err != nil {
			t.Fatal(err)
		}
		c := w.Until(id, 4*time.Minute, cluster.Alert)
		if !slices.Contains(types(c), cluster.NotReady) {
			t.Errorf("found %v", c.Findings)
		}
		time.Sleep(5 * time.Minute)
		if c = w.Cluster(id); c.State != cluster.Alert {
			t.Errorf("restart cannot help, but the cluster is %s", c.State)
		}
		if err := w.Cloud.Silence(vm, false); err != nil {
			t.Fatal(err)
		}
		w.Until(id, 5*time.Minute, cluster.Running)
	})
}

func TestAVMThatRunsInAStoppedClusterIsStopped(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{}, func(t *testing.T, w *servicetest.World) {
		id := w.Running(nil)
		w.Ask(id, cluster.RequestStop, nil)
		w.Until(id, 10*time.Minute, cluster.Stopped)
		time.Sleep(5 * time.Minute)
		if c := w.Cluster(id); c.State != cluster.Stopped || len(c.Findings) > 0 {
			t.Fatalf("%s, %v", c.State, c.Findings)
		}
		vm := w.Worker(id, 1)
		if err := w.Cloud.StartVM(vm); err != nil {
			t.Fatal(err)
		}
		w.Until(id, time.Minute, cluster.Alert, cluster.Stopping)
		w.Until(id, 10*time.Minute, cluster.Stopped)
		if r, _ := w.Cloud.Lookup(cluster.VM, vm); r.Power != cluster.PoweredOff {
			t.Errorf("the VM is %s", r.State)
		}
	})
}

func TestAnOpenedRuleIsClosedAgain(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{}, func(t *testing.T, w *servicetest.World) {
		id := w.Create("blue", 2, func(c *cluster.Cluster) { c.CIDRs = []string{"192.0.2.0/24"} })
		w.Until(id, 30*time.Minute, cluster.Running)
		for _, r := range w.Cloud.All(cluster.Firewall) {
			if err := w.Cloud.ChangeRule(cluster.Firewall, r.ID, func(s *cluster.Spec) { s.CIDRs = []string{"0.0.0.0/0"} }); err != nil {
				t.Fatal(err)
			}
		}
		w.Until(id, time.Minute, cluster.Alert, cluster.Recovering)
		w.Until(id, 10*time.Minute, cluster.Running)
		time.Sleep(5 * time.Minute)
		rules := w.Cloud.All(cluster.Firewall)
		if c := w.Cluster(id); c.State != cluster.Running || len(c.Findings) > 0 || len(rules) != 1 || !slices.Equal(rules[0].Spec.CIDRs, []string{"192.0.2.0/24"}) {
			t.Errorf("%s, %v, %d rules\n%s", c.State, c.Findings, len(rules), w.Story(id))
		}
		w.CheckJournal(id)
	})
}
