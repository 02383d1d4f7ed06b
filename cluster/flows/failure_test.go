package flows_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service/servicetest"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func TestCapacityEndsHalfWay(t *testing.T) {
	for _, inJob := range []bool{false, true} {
		how := map[bool]string{false: "refused by the call", true: "refused by the job"}[inJob]
		t.Run("rollback, "+how, func(t *testing.T) {
			servicetest.InWorld(t, servicetest.SixVMs(inJob), func(t *testing.T, w *servicetest.World) {
				servicetest.Blind(w)
				id := w.Create("blue", 10)
				c := w.Until(id, time.Hour, cluster.Destroyed)
				if got := w.Path(id); got != "Starting Expunging Destroyed" {
					t.Errorf("path %s", got)
				}
				w.CheckEmpty()
				if j := w.Job("create-blue"); j.Status != cluster.JobFailed || j.Code != cluster.CapacityExhausted.Code || j.Step != "workers" {
					t.Errorf("job %+v", j)
				}
				if c.Reason.Code != cluster.CapacityExhausted.Code {
					t.Errorf("reason %+v", c.Reason)
				}
				if created := w.Calls("create", "blue-*-worker*"); created > 11 {
					t.Errorf("%d creates of workers were sent, after the first refusal none may be", created)
				}
			})
		})
		t.Run("lazy, "+how, func(t *testing.T) {
			servicetest.InWorld(t, servicetest.SixVMs(inJob), func(t *testing.T, w *servicetest.World) {
				servicetest.Blind(w)
				id := w.Create("blue", 10, func(c *cluster.Cluster) { c.OnFailure = cluster.Lazy })
				w.Until(id, time.Hour, cluster.Expunging)
				if len(w.VMs()) < 6 {
					t.Errorf("%d VMs: the clean-up has begun before the collector came", len(w.VMs()))
				}
				time.Sleep(10 * time.Second)
				if err := w.Engine.Send(t.Context(), w.Cluster(id).RunID, runtype.Signal{ID: "pass-1", Name: cluster.SignalCollect}); err != nil {
					t.Fatal(err)
				}
				c := w.Until(id, 10*time.Minute, cluster.Destroyed)
				w.CheckEmpty()
				if j := w.Job("create-blue"); j.Status != cluster.JobFailed || c.Reason.Code != cluster.CapacityExhausted.Code {
					t.Errorf("job %+v reason %+v", j, c.Reason)
				}
			})
		})
		t.Run("keep, "+how, func(t *testing.T) {
			servicetest.InWorld(t, servicetest.SixVMs(inJob), func(t *testing.T, w *servicetest.World) {
				servicetest.Blind(w)
				id := w.Create("blue", 10, func(c *cluster.Cluster) { c.OnFailure = cluster.KeepPartial })
				c := w.Until(id, time.Hour, cluster.Alert)
				if c.Reason.Code != cluster.CapacityExhausted.Code || c.Reason.Step != "workers" || c.Started {
					t.Errorf("reason %+v started %v", c.Reason, c.Started)
				}
				w.CheckJournal(id)
				running := 0
				for _, r := range w.VMs() {
					if r.Power == cluster.PoweredOn {
						running++
					}
				}
				if running != 6 {
					t.Errorf("%d VMs run, want 6", running)
				}
				// scaling down to the existing size accepts it
				job := w.Ask(id, cluster.RequestScale, func(c *cluster.Cluster, _ *cluster.Request) { c.NodeCount = 5 })
				w.Until(id, time.Hour, cluster.Running)
				if j := w.Job(job); j.Status != cluster.JobDone {
					t.Errorf("job %+v\n%s", j, w.Story(id))
				}
				time.Sleep(10 * time.Minute)
				if got := len(w.VMs()); got != 6 {
					t.Errorf("%d VMs, want 6\n%s", got, w.Story(id))
				}
				w.CheckJournal(id)
			})
		})
	}
	t.Run("recover tries for the rest", func(t *testing.T) {
		servicetest.InWorld(t, servicetest.SixVMs(false), func(t *testing.T, w *servicetest.World) {
			servicetest.Blind(w)
			id := w.Create("blue", 10, func(c *cluster.Cluster) { c.OnFailure = cluster.KeepPartial })
			w.Until(id, time.Hour, cluster.Alert)
			w.Cloud.SetZone(sim.Zone{ID: "zone-1"})
			job := w.Ask(id, cluster.RequestRecover, nil)
			w.Until(id, time.Hour, cluster.Running)
			if j := w.Job(job); j.Status != cluster.JobDone || len(w.VMs()) != 11 {
				t.Errorf("job %+v, %d VMs\n%s", j, len(w.VMs()), w.Story(id))
			}
			w.CheckJournal(id)
		})
	})
}

func TestMissingCapacityIsKnownBeforeAnythingIsCreated(t *testing.T) {
	servicetest.InWorld(t, servicetest.SixVMs(false), func(t *testing.T, w *servicetest.World) {
		id := w.Create("blue", 10)
		w.Until(id, time.Hour, cluster.Destroyed)
		if created := w.Calls("create", "*"); created != 0 {
			t.Errorf("%d creates were sent", created)
		}
		if j := w.Job("create-blue"); j.Status != cluster.JobFailed || j.Code != cluster.CapacityExhausted.Code || j.Step != "check" {
			t.Errorf("job %+v", j)
		}
	})
}

func TestTransientFaultsAreOvercome(t *testing.T) {
	for name, rule := range map[string]sim.Rule{
		"every third answer is lost":   {Call: "create", Do: sim.Lost, P: 0.3},
		"some calls time out":          {Do: sim.Timeout, P: 0.1, Delay: 20 * time.Second},
		"throttled":                    {Do: sim.Throttle, P: 0.3},
		"a job that fails once":        {Call: "create", Kind: cluster.VM, Do: sim.FailJob, Err: cluster.ResourceInUse, Times: 2},
		"a request that arrives twice": {Call: "create", Do: sim.Duplicate},
	} {
		t.Run(name, func(t *testing.T) {
			servicetest.InWorld(t, servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow, Visible: 10 * time.Second}}, func(t *testing.T, w *servicetest.World) {
				w.Cloud.Inject(rule)
				id := w.Create("blue", 5)
				w.Until(id, time.Hour, cluster.Running)
				if got := len(w.VMs()); got != 6 {
					t.Errorf("%d VMs, want 6\n%s", got, w.Story(id))
				}
				w.CheckJournal(id)
			})
		})
	}
}

func TestRefusedCredentialsEndARunAtOnce(t *testing.T) {
	servicetest.InWorld(t, servicetest.Setup{Sim: sim.Options{Times: servicetest.Slow}}, func(t *testing.T, w *servicetest.World) {
		id := w.Create("blue", 5, func(c *cluster.Cluster) { c.OnFailure = cluster.KeepPartial })
		w.Until(id, time.Minute, cluster.Starting)
		time.Sleep(20 * time.Second)
		w.Cloud.RefuseCredentials(true)
		c := w.Until(id, 2*time.Minute, cluster.Alert)
		if c.Reason.Code != cluster.CredentialsRefused.Code {
			t.Errorf("reason %+v", c.Reason)
		}
	})
}
