package sharedstorage_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/sim"
)

func version(v string) func(s *v1alpha1.SharedStorageClusterSpec) {
	return func(s *v1alpha1.SharedStorageClusterSpec) { s.Engine.Version = v }
}

// missing returns a simulation in which no instance can be created while the switch is on, and
// nobody can know that before: a registry lacks the image.
func missing() (setup, *atomic.Bool) {
	var on atomic.Bool
	o := times()
	o.Around = func(call sim.Call, _ sim.When) error {
		if on.Load() && call.Port == "Instances" && (call.Method == "Ensure" || call.Method == "Recreate") {
			return port.VersionUnsupported.Errorf("ErrImagePull")
		}
		return nil
	}
	return setup{sim: o}, &on
}

// A version that does not exist is refused before a run begins. Healing goes on, and the corrected
// spec is carried out.
func TestFinding14AVersionThatIsNotThereIsNotBegun(t *testing.T) {
	o := times()
	o.Versions = []string{"15.4", "15.5"}
	inHarness(t, setup{sim: o}, func(l *harness) {
		up(l, "blue")
		l.edit("blue", version("15.99"))
		c := l.until("blue", "refused", time.Minute, func(c *sharedstorage.Cluster) bool {
			return conditionOf(c, "Progressing").Reason == port.VersionUnsupported.Reason()
		})
		if c.Status.State != "Running" || conditionOf(c, "Progressing").ObservedGeneration != c.Generation {
			t.Fatalf("%s\n%s", c.Status.State, l.story())
		}
		plan, err := l.op.Plan(l.t.Context(), l.op.Key("default", "blue"))
		if err != nil || plan.Code != port.VersionUnsupported.Code || plan.Remedy == "" {
			t.Errorf("the plan: %+v %v", plan, err)
		}
		_, sick := l.reader("blue")
		l.sim.DropInstance(ref("blue"), sick.Name)
		time.Sleep(10 * time.Minute)
		if got := len(l.sim.Streaming(ref("blue"))); got != 2 {
			t.Errorf("%d readers stream: healing stands still\n%s", got, l.story())
		}
		l.visited("Upgrading", 0)
		l.edit("blue", version("15.5"))
		time.Sleep(2 * time.Second)
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
		l.all("blue", func(i port.Instance) bool { return i.Version == "15.5" })
	})
}

// A version turns out to be missing when the run is within its bracket: correcting the spec as the
// remedy says is enough, no command is needed.
func TestFinding14AMendedVersionNeedsNoCommand(t *testing.T) {
	s, on := missing()
	inHarness(t, s, func(l *harness) {
		up(l, "blue")
		on.Store(true)
		l.edit("blue", version("15.99"))
		c := l.interrupted(port.VersionUnsupported.Code, time.Hour)
		run := c.Status.Run.ID
		time.Sleep(time.Minute)
		l.haOn()
		on.Store(false)
		l.edit("blue", version("15.5"))
		time.Sleep(2 * time.Second)
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
		l.all("blue", func(i port.Instance) bool { return i.Version == "15.5" })
		l.haOn()
		old, err := l.engine.Get(l.t.Context(), run)
		if err != nil || old.Phase != "Cancelled" {
			t.Errorf("the run of the withdrawn change is %+v, %v", old, err)
		}
	})
}

// The plan of an interrupted cluster says what happens to the run.
func TestFinding14ThePlanTellsTheRule(t *testing.T) {
	s, on := missing()
	inHarness(t, s, func(l *harness) {
		up(l, "blue")
		on.Store(true)
		l.edit("blue", version("15.99"))
		c := l.interrupted(port.VersionUnsupported.Code, time.Hour)
		c.Generation++
		c.Spec.Engine.Version = "15.5"
		plan, err := l.op.PlanFor(l.t.Context(), c)
		if err != nil || plan.To != "Running" || plan.Cancel == nil || plan.Cancel.Mode != "undo" || !strings.Contains(plan.Why, "taken back") {
			t.Errorf("%+v %v", plan, err)
		}
		c.Spec.Engine.Version, c.Spec.Durability = "15.99", "available" // another change leaves the run
		if plan, err = l.op.PlanFor(l.t.Context(), c); err != nil || plan.Act != "rest" {
			t.Errorf("%+v %v", plan, err)
		}
	})
}

// A cluster that could not be created is created as the corrected spec says. One whose writer had
// the grant already keeps the writer with its data.
func TestFinding14ACreationThatCannotBeMet(t *testing.T) {
	t.Run("nothing written", func(t *testing.T) {
		s, on := missing()
		inHarness(t, s, func(l *harness) {
			on.Store(true)
			l.create("blue", version("15.99"))
			l.interrupted(port.VersionUnsupported.Code, time.Hour)
			on.Store(false)
			l.edit("blue", version("15.5"))
			time.Sleep(2 * time.Second)
			l.awaitRunning("blue", time.Hour)
			l.checkInvariants("blue")
			l.all("blue", func(i port.Instance) bool { return i.Version == "15.5" })
		})
	})
	t.Run("the writer writes", func(t *testing.T) {
		s, on := missing()
		inHarness(t, s, func(l *harness) {
			l.create("blue", nil)
			l.atStep("CreateRoPods[2]/AllocateId")
			on.Store(true)
			l.interrupted(port.VersionUnsupported.Code, time.Hour)
			_, writer := l.writer("blue")
			on.Store(false)
			l.edit("blue", readers(1))
			time.Sleep(2 * time.Second)
			l.awaitRunning("blue", time.Hour)
			l.checkInvariants("blue")
			if _, now := l.writer("blue"); now.Name != writer.Name {
				t.Errorf("the writer was %s, and is %s\n%s", writer.Name, now.Name, l.story())
			}
		})
	})
}

// More readers than the quota allows are refused before any is created, and are created once there
// is room.
func TestFinding14AQuotaIsAskedFirst(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.sim.Quota(1)
		l.edit("blue", readers(5))
		c := l.until("blue", "refused", time.Minute, func(c *sharedstorage.Cluster) bool {
			return conditionOf(c, "Progressing").Reason == port.QuotaExceeded.Reason()
		})
		if c.Status.State != "Running" {
			t.Errorf("it is %s", c.Status.State)
		}
		time.Sleep(10 * time.Minute)
		l.visited("Locking", 0)
		l.sim.Quota(0)
		time.Sleep(2 * time.Minute)
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
		l.visited("Locking", 1)
	})
}

// A cluster does not report that it is at rest with the newest spec before it is: apply --wait
// waits for that.
func TestFinding12AClusterSaysWhenAChangeHasEnded(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Engine.Version, s.Class.Name = "15.5", "large" })
		l.request("blue", "restart", "2")
		for range 100_000 {
			c := l.observe("blue")
			ready, progressing := conditionOf(c, "Ready"), conditionOf(c, "Progressing")
			if ready.Status == "True" && progressing.Status == "False" && ready.ObservedGeneration == c.Generation && progressing.ObservedGeneration == c.Generation {
				l.all("blue", func(i port.Instance) bool { return i.Version == "15.5" && i.Class.Name == "large" })
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatalf("it never rests\n%s", l.story())
	})
}
