package service_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/workflow"
)

// sixVMs is a cloud with capacity for one control node and five workers. inJob: it
// refuses further VMs in the job, not in the call.
func sixVMs(inJob bool) setup {
	return setup{sim: sim.Options{Zones: []sim.Zone{{ID: "zone-1", VMs: 6}}, Times: slow, RefuseInJob: inJob}}
}

// blind hides the limit of the zone from the check, as if another caller used
// the capacity after it.
func blind(w *world) {
	w.cloud.Inject(sim.Rule{Call: "check", Do: sim.Slow})
	w.cloud.SetZone(sim.Zone{ID: "zone-1"})
	go func() {
		time.Sleep(20 * time.Second)
		w.cloud.SetZone(sim.Zone{ID: "zone-1", VMs: 6})
	}()
}

func TestCapacityEndsHalfWay(t *testing.T) {
	for _, inJob := range []bool{false, true} {
		how := map[bool]string{false: "refused by the call", true: "refused by the job"}[inJob]
		t.Run("rollback, "+how, func(t *testing.T) {
			inWorld(t, sixVMs(inJob), func(t *testing.T, w *world) {
				blind(w)
				id := w.create("blue", 10)
				c := w.until(id, time.Hour, cluster.Destroyed)
				if got := w.path(id); got != "Starting Expunging Destroyed" {
					t.Errorf("path %s", got)
				}
				w.checkEmpty()
				if j := w.job("create-blue"); j.Status != cluster.JobFailed || j.Code != cluster.CapacityExhausted.Code || j.Step != "workers" {
					t.Errorf("job %+v", j)
				}
				if c.Reason.Code != cluster.CapacityExhausted.Code {
					t.Errorf("reason %+v", c.Reason)
				}
				if created := w.calls("create", "blue-*-worker*"); created > 11 {
					t.Errorf("%d creates of workers were sent, after the first refusal none may be", created)
				}
			})
		})
		t.Run("lazy, "+how, func(t *testing.T) {
			inWorld(t, sixVMs(inJob), func(t *testing.T, w *world) {
				blind(w)
				id := w.create("blue", 10, func(c *cluster.Cluster) { c.OnFailure = cluster.Lazy })
				w.until(id, time.Hour, cluster.Expunging)
				if len(w.vms()) < 6 {
					t.Errorf("%d VMs: the clean-up has begun before the collector came", len(w.vms()))
				}
				time.Sleep(10 * time.Second)
				if err := w.engine.Send(t.Context(), w.cluster(id).RunID, workflow.Signal{ID: "pass-1", Name: cluster.SignalCollect}); err != nil {
					t.Fatal(err)
				}
				c := w.until(id, 10*time.Minute, cluster.Destroyed)
				w.checkEmpty()
				if j := w.job("create-blue"); j.Status != cluster.JobFailed || c.Reason.Code != cluster.CapacityExhausted.Code {
					t.Errorf("job %+v reason %+v", j, c.Reason)
				}
			})
		})
		t.Run("keep, "+how, func(t *testing.T) {
			inWorld(t, sixVMs(inJob), func(t *testing.T, w *world) {
				blind(w)
				id := w.create("blue", 10, func(c *cluster.Cluster) { c.OnFailure = cluster.KeepPartial })
				c := w.until(id, time.Hour, cluster.Alert)
				if c.Reason.Code != cluster.CapacityExhausted.Code || c.Reason.Step != "workers" || c.Started {
					t.Errorf("reason %+v started %v", c.Reason, c.Started)
				}
				w.checkJournal(id)
				running := 0
				for _, r := range w.vms() {
					if r.Power == cluster.PoweredOn {
						running++
					}
				}
				if running != 6 {
					t.Errorf("%d VMs run, want 6", running)
				}
				// scaling down to the existing size accepts it
				job := w.ask(id, cluster.RequestScale, func(c *cluster.Cluster, _ *cluster.Request) { c.NodeCount = 5 })
				w.until(id, time.Hour, cluster.Running)
				if j := w.job(job); j.Status != cluster.JobDone {
					t.Errorf("job %+v\n%s", j, w.story(id))
				}
				time.Sleep(10 * time.Minute)
				if got := len(w.vms()); got != 6 {
					t.Errorf("%d VMs, want 6\n%s", got, w.story(id))
				}
				w.checkJournal(id)
			})
		})
	}
	t.Run("recover tries for the rest", func(t *testing.T) {
		inWorld(t, sixVMs(false), func(t *testing.T, w *world) {
			blind(w)
			id := w.create("blue", 10, func(c *cluster.Cluster) { c.OnFailure = cluster.KeepPartial })
			w.until(id, time.Hour, cluster.Alert)
			w.cloud.SetZone(sim.Zone{ID: "zone-1"})
			job := w.ask(id, cluster.RequestRecover, nil)
			w.until(id, time.Hour, cluster.Running)
			if j := w.job(job); j.Status != cluster.JobDone || len(w.vms()) != 11 {
				t.Errorf("job %+v, %d VMs\n%s", j, len(w.vms()), w.story(id))
			}
			w.checkJournal(id)
		})
	})
}

func TestMissingCapacityIsKnownBeforeAnythingIsCreated(t *testing.T) {
	inWorld(t, sixVMs(false), func(t *testing.T, w *world) {
		id := w.create("blue", 10)
		w.until(id, time.Hour, cluster.Destroyed)
		if created := w.calls("create", "*"); created != 0 {
			t.Errorf("%d creates were sent", created)
		}
		if j := w.job("create-blue"); j.Status != cluster.JobFailed || j.Code != cluster.CapacityExhausted.Code || j.Step != "check" {
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
			inWorld(t, setup{sim: sim.Options{Times: slow, Visible: 10 * time.Second}}, func(t *testing.T, w *world) {
				w.cloud.Inject(rule)
				id := w.create("blue", 5)
				w.until(id, time.Hour, cluster.Running)
				if got := len(w.vms()); got != 6 {
					t.Errorf("%d VMs, want 6\n%s", got, w.story(id))
				}
				w.checkJournal(id)
			})
		})
	}
}

func TestRefusedCredentialsEndARunAtOnce(t *testing.T) {
	inWorld(t, setup{sim: sim.Options{Times: slow}}, func(t *testing.T, w *world) {
		id := w.create("blue", 5, func(c *cluster.Cluster) { c.OnFailure = cluster.KeepPartial })
		w.until(id, time.Minute, cluster.Starting)
		time.Sleep(20 * time.Second)
		w.cloud.RefuseCredentials(true)
		c := w.until(id, 2*time.Minute, cluster.Alert)
		if c.Reason.Code != cluster.CredentialsRefused.Code {
			t.Errorf("reason %+v", c.Reason)
		}
	})
}
