package service_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/provider/sim"
)

var errDead = errors.New("the process is dead")

// crashes kills the process at every step-th write and call of an operation,
// before and after its effect, begins another one, and lets it go on.
func crashes(t *testing.T, step int, prepare func(w *world) string, begin func(w *world, id string), settled func(w *world, id string)) {
	t.Helper()
	for at := 1; ; at += step {
		over := false
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			s := setup{sim: sim.Options{Times: sim.Times{Create: 4 * time.Second, Destroy: 2 * time.Second, Stop: 2 * time.Second, Start: 2 * time.Second, Network: time.Second, Boot: 3 * time.Second}, Visible: 3 * time.Second}}
			var w *world
			s.sim.Around = func(e sim.Entry, _ sim.When) error {
				if e.Call == sim.Create || e.Call == sim.Act {
					return w.point()
				}
				return nil
			}
			inWorldOf(t, s, func(made *world) { w = made }, func(t *testing.T, w *world) {
				id := prepare(w)
				w.arm(at)
				begin(w, id)
				w.restartWhenDead(time.Hour)
				if over = !w.struck(); over {
					w.arm(0)
				}
				settled(w, id)
			})
		})
		if over || t.Failed() {
			return
		}
	}
}

func TestCrashes(t *testing.T) {
	create := func(w *world) string { return "" }
	up := func(w *world) string {
		id := w.create("blue", 3)
		w.until(id, time.Hour, cluster.Running)
		return id
	}
	steps := 3
	if testing.Short() {
		steps = 17
	}
	if n, err := strconv.Atoi(os.Getenv("PAWL_CRASH_STEP")); err == nil { // 1: every point
		steps = n
	}
	t.Run("first start", func(t *testing.T) {
		var id string
		crashes(t, steps, create, func(w *world, _ string) { id = w.create("blue", 3) }, func(w *world, _ string) {
			w.until(id, time.Hour, cluster.Running)
			if len(w.vms()) != 4 {
				w.t.Errorf("%d VMs\n%s", len(w.vms()), w.story(id))
			}
			w.done("create-blue")
			w.balanced(id)
		})
	})
	for policy, end := range map[cluster.OnFailure]machine.State{cluster.Rollback: cluster.Destroyed, cluster.Lazy: cluster.Destroyed, cluster.KeepHalf: cluster.Alert} {
		t.Run("capacity ends, "+string(policy), func(t *testing.T) {
			var id string
			crashes(t, steps, create, func(w *world, _ string) {
				w.cloud.Inject(sim.Rule{Call: sim.Create, Kind: cluster.VM, Name: "*worker[3-9]", Do: sim.Fail, Err: cluster.CapacityExhausted})
				id = w.create("blue", 4, func(c *cluster.Cluster) { c.OnFailure, c.Recovery = policy, cluster.Recovery{} })
			}, func(w *world, _ string) {
				w.until(id, 3*time.Hour, end)
				w.failed("create-blue", "CAPACITY_EXHAUSTED")
				if end == cluster.Destroyed {
					w.empty()
				} else if len(w.vms()) != 3 {
					w.t.Errorf("%d VMs, want 3\n%s", len(w.vms()), w.story(id))
				}
				w.balanced(id)
			})
		})
	}
	stopped := func(w *world) string {
		id := up(w)
		w.at(id, cluster.AskStop, cluster.Stopped)
		return id
	}
	harmed := func(w *world) string {
		id := up(w)
		w.alarmed(id, func(w *world) error { return w.cloud.DestroyVM("blue-8f3b2c-worker2") })
		return id
	}
	running := func(w *world, id string) bool {
		for _, r := range w.vms() {
			if r.Power != cluster.Up {
				return false
			}
		}
		return len(w.vms()) == 4 && w.cluster(id).State == cluster.Running
	}
	for name, c := range map[string]struct {
		from func(w *world) string
		kind cluster.AskKind
		end  func(w *world, id string) bool
	}{
		"start again": {stopped, cluster.AskStart, running},
		"recover":     {harmed, cluster.AskRecover, running},
	} {
		t.Run(name, func(t *testing.T) {
			var job string
			crashes(t, steps, c.from, func(w *world, id string) { job = w.ask(id, c.kind, nil) }, func(w *world, id string) {
				w.ends(job)
				w.done(job)
				if !c.end(w, id) {
					w.t.Errorf("not what was asked for\n%s", w.story(id))
				}
				w.balanced(id)
			})
		})
	}
	for name, c := range map[string]struct {
		kind cluster.AskKind
		edit func(c *cluster.Cluster, a *cluster.Ask)
		end  func(w *world, id string) bool
	}{
		"scale up":   {cluster.AskScale, func(c *cluster.Cluster, _ *cluster.Ask) { c.NodeCount = 5 }, func(w *world, id string) bool { return len(w.vms()) == 6 }},
		"scale down": {cluster.AskScale, func(c *cluster.Cluster, _ *cluster.Ask) { c.NodeCount = 1 }, func(w *world, id string) bool { return len(w.vms()) == 2 }},
		"stop": {cluster.AskStop, nil, func(w *world, id string) bool {
			for _, r := range w.vms() {
				if r.Power != cluster.Down {
					return false
				}
			}
			return true
		}},
		"delete":  {cluster.AskDelete, nil, func(w *world, id string) bool { w.empty(); return len(w.vms()) == 0 }},
		"upgrade": {cluster.AskUpgrade, func(_ *cluster.Cluster, a *cluster.Ask) { a.Version = "v2" }, func(w *world, id string) bool { return len(w.vms()) == 4 }},
	} {
		t.Run(name, func(t *testing.T) {
			var job string
			crashes(t, steps, up, func(w *world, id string) { job = w.ask(id, c.kind, c.edit) }, func(w *world, id string) {
				w.ends(job)
				w.done(job)
				if !c.end(w, id) {
					w.t.Errorf("not what was asked for\n%s", w.story(id))
				}
				w.balanced(id)
			})
		})
	}
}

// mortal is what a process may no longer do when it is dead.
type mortal struct {
	*counted
	w     *world
	birth int
}

func (m mortal) Commit(ctx context.Context, c *cluster.Change) error {
	if err := m.w.alive(m.birth); err != nil {
		return err
	}
	if err := m.w.point(); err != nil {
		return err
	}
	if err := m.counted.Commit(ctx, c); err != nil {
		return err
	}
	return m.w.point()
}

func (m mortal) Hellos(ctx context.Context, said []cluster.NodeHello) error {
	if err := m.w.alive(m.birth); err != nil {
		return err
	}
	return m.counted.Hellos(ctx, said)
}
