package sharedstorage_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// modifying returns the steps of ModifyClass on a cluster of one writer and two readers, in order.
func modifying() []string {
	steps := []string{"HA/DisableHA"}
	for _, id := range []string{"2", "3"} {
		for _, s := range []string{"RecreateInstance", "AwaitCaughtUp", "AddToClusterManager"} {
			steps = append(steps, "HA/Readers["+id+"]/Recreate/"+s)
		}
	}
	for _, s := range []string{"ChooseCandidate", "Switch/FenceOldWriter", "Switch/AwaitCandidateComplete", "Switch/PromoteCandidate", "Switch/FollowNewWriter",
		"RecreateInstance", "AddToClusterManager", "RejoinOldWriter"} {
		steps = append(steps, "HA/RecreateWriter/"+s)
	}
	return append(steps, "HA/EnableHA", "ApplyClassParameters", "EnsureManagerApart", "UpdateRunningStatus")
}

// atStep waits until a run has begun a step.
func (l *harness) atStep(step string) *runtype.Run {
	l.t.Helper()
	for range 100_000 {
		if c := l.observe("blue"); c.Status.Run != nil {
			run, err := l.engine.Get(l.t.Context(), c.Status.Run.ID)
			if err != nil {
				l.t.Fatal(err)
			}
			if run.Step(step) != nil {
				return run
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	l.t.Fatalf("step %s is not reached\n%s", step, l.story())
	return nil
}

// phase waits until a run is in one of these phases.
func (l *harness) phase(id string, phases ...runtype.Phase) *runtype.Run {
	l.t.Helper()
	for range 10_000 {
		run, err := l.engine.Get(l.t.Context(), id)
		if err != nil {
			l.t.Fatal(err)
		}
		if slices.Contains(phases, run.Phase) && !open(run) {
			return run
		}
		time.Sleep(time.Second)
	}
	l.t.Fatalf("run %s does not come to %v\n%s", id, phases, l.story())
	return nil
}

// open reports whether a bracket is still open.
func open(run *runtype.Run) bool {
	disabled, enabled := run.Step("HA/DisableHA"), run.Step("HA/EnableHA")
	return run.Phase == runtype.Paused && disabled != nil && disabled.Phase == runtype.StepDone && (enabled == nil || !enabled.Phase.Settled())
}

// haOn checks that failover is on without a pending change.
func (l *harness) haOn() {
	l.t.Helper()
	t := l.sim.Topology(ref("blue"))
	for range 10 {
		if t.Ready { // it may be moving to another node
			break
		}
		time.Sleep(time.Second)
		t = l.sim.Topology(ref("blue"))
	}
	if !t.HA || !t.Until.IsZero() {
		l.t.Errorf("failover at rest: %+v\n%s", t, l.story())
	}
}

func small(s *v1alpha1.SharedStorageClusterSpec) { s.Class.Name = "small" }
func large(s *v1alpha1.SharedStorageClusterSpec) { s.Class.Name = "large" }

// Cancel, cancel with undo, pause and resume, at each step of ModifyClass: at rest failover is on,
// and after an undo every instance has its former class.
func TestStopsOfModifyClass(t *testing.T) {
	by := workflow.Actor{Name: "uma", Reason: "test"}
	noReturn := slices.Index(modifying(), "HA/RecreateWriter/Switch/FollowNewWriter")
	for at, step := range modifying() {
		if testing.Short() && at%4 != 0 {
			continue
		}
		for _, verb := range []string{"pause", "hold", "undo"} {
			t.Run(fmt.Sprintf("%s at %s", verb, strings.ReplaceAll(step, "/", ".")), func(t *testing.T) {
				o := times()
				o.Latency = 200 * time.Millisecond
				inHarness(t, setup{sim: o}, func(l *harness) {
					up(l, "blue")
					l.edit("blue", large)
					run := l.atStep(step)
					switch verb {
					case "pause":
						l.must(l.engine.Pause(l.t.Context(), run.ID, by))
					case "hold":
						l.must(l.engine.Cancel(l.t.Context(), run.ID, runtype.Hold, false, by))
					case "undo":
						l.edit("blue", small)
						err := l.engine.Cancel(l.t.Context(), run.ID, runtype.Undo, false, by)
						if refused := errors.Is(err, workflow.NoReturn); refused != (at >= noReturn) {
							t.Errorf("no return: %t, the undo was answered %v\n%s", at >= noReturn, err, l.story())
						}
						if at >= noReturn {
							l.edit("blue", large) // let it end, then change back
							l.awaitRunning("blue", time.Hour)
							l.edit("blue", small)
							l.awaitRunning("blue", time.Hour)
							l.checkInvariants("blue")
							l.all("blue", func(i port.Instance) bool { return i.Class.Name == "small" })
							return
						}
						l.must(err)
						run = l.phase(run.ID, runtype.Cancelled, runtype.Succeeded, runtype.Paused)
						if run.Phase == runtype.Paused {
							t.Fatalf("the undo is paused: %+v\n%s", run.Fault, l.story())
						}
						l.haOn()
						l.all("blue", func(i port.Instance) bool { return i.Class.Name == "small" }) // without another run
						l.awaitRunning("blue", time.Hour)
						l.checkInvariants("blue")
						l.all("blue", func(i port.Instance) bool { return i.Class.Name == "small" })
						return
					}
					run = l.phase(run.ID, runtype.Paused, runtype.Succeeded)
					if run.Phase == runtype.Paused {
						l.haOn()
						c := l.state("blue", "Interrupted", time.Minute)
						if c.Status.Reason != map[string]string{"pause": "Paused", "hold": "Cancelled"}[verb] {
							t.Errorf("reason %q", c.Status.Reason)
						}
						time.Sleep(time.Minute)
						l.haOn()
						if l.sim.Writer(ref("blue")) == "" {
							t.Errorf("nobody writes while it is interrupted\n%s", l.story())
						}
						l.must(l.engine.Resume(l.t.Context(), run.ID, workflow.FromFailed, "", by))
					}
					l.awaitRunning("blue", time.Hour)
					l.checkInvariants("blue")
					l.all("blue", func(i port.Instance) bool { return i.Class.Name == "large" })
				})
			})
		}
	}
}

func (l *harness) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatalf("%v\n%s", err, l.story())
	}
}
