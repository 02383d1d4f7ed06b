package sharedstorage_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/sim"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func hibernated(on bool) func(s *v1alpha1.SharedStorageClusterSpec) {
	return func(s *v1alpha1.SharedStorageClusterSpec) { s.Hibernated = on }
}

// asleep waits until blue is hibernated, and checks that nothing of it runs.
func (l *harness) asleep() *sharedstorage.Cluster {
	l.t.Helper()
	c := l.until("blue", "hibernated", time.Hour, func(c *sharedstorage.Cluster) bool {
		return c.Status.State == "Hibernated" && c.Status.ObservedGeneration == c.Generation && l.rests()
	})
	for _, i := range l.sim.Instances(ref("blue")) {
		if i.State != port.Suspended {
			l.t.Errorf("%s is %s\n%s", i.Name, i.State, l.story())
		}
	}
	if t := l.sim.Topology(ref("blue")); t.Present {
		l.t.Errorf("there is a manager: %+v", t)
	}
	return c
}

func (l *harness) rests() bool {
	plan, err := l.op.Plan(l.t.Context(), l.op.Key("default", "blue"))
	return err == nil && plan.Act == machine.Rest
}

// order returns the instances on which a method was called, each once, in the order of the first call.
func (l *harness) order(method string) (all []string) {
	for _, c := range l.sim.Calls() {
		if c.Method == method && c.Err == "" && !strings.Contains(strings.Join(all, " "), c.Ref.Instance) {
			all = append(all, c.Ref.Instance)
		}
	}
	return all
}

// A hibernated cluster keeps its instances and their data, and nothing runs, for as long as it takes.
// The readers end first. It wakes with the same writer at the same epoch and copies nothing.
func TestHibernation(t *testing.T) {
	for _, mode := range []port.Mode{port.Copies, port.Shared} {
		t.Run(string(mode), func(t *testing.T) {
			o := times()
			o.Shared = mode == port.Shared
			inHarness(t, setup{sim: o}, func(l *harness) {
				up(l, "blue")
				_, writer := l.writer("blue")
				before, volume := names(l.sim.Instances(ref("blue"))), l.sim.Volume(ref("blue"))
				l.edit("blue", hibernated(true))
				c := l.asleep()
				if order := l.order("Suspend"); len(order) != 3 || order[2] != writer.Name {
					t.Errorf("ended in the order %v, and %s was the writer", order, writer.Name)
				}
				for kind, want := range map[string]string{"Ready": "False Hibernated", "Available": "False Hibernated", "HighAvailability": "False Hibernated", "Progressing": "False Hibernated", "StorageReady": "True VolumeReady", "Interrupted": "False NotInterrupted"} {
					if at := meta.FindStatusCondition(c.Status.Conditions, kind); at == nil || string(at.Status)+" "+at.Reason != want {
						t.Errorf("%s: %+v, want %s", kind, at, want)
					}
				}
				if held := sharedstorage.HeldBy(c.Status.Conditions); held != nil {
					t.Errorf("it is held by %+v", held)
				}
				l.sim.ClearLog()
				time.Sleep(24 * time.Hour)
				for _, c := range l.sim.Calls() {
					if c.Changes() {
						t.Errorf("a hibernated cluster is changed: %s", c)
					}
				}
				l.edit("blue", hibernated(false))
				l.awaitRunning("blue", time.Hour)
				l.checkInvariants("blue")
				if after := names(l.sim.Instances(ref("blue"))); after != before || l.calls("Install") > 0 {
					t.Errorf("the instances were %s and are %s; data were installed %d times", before, after, l.calls("Install"))
				}
				if order := l.order("Start"); len(order) != 3 || order[0] != writer.Name {
					t.Errorf("started in the order %v, and %s was the writer", order, writer.Name)
				}
				if v := l.sim.Volume(ref("blue")); v.Writer != volume.Writer || v.Epoch != volume.Epoch {
					t.Errorf("the grant was %+v and is %+v", volume, v)
				}
			})
		})
	}
}

// What is changed while a cluster is hibernated counts when it wakes: class, version and parameters at
// once, on the data that there are; more readers and a larger volume after that. Requests are refused.
func TestChangesWhileHibernated(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.edit("blue", hibernated(true))
		l.asleep()
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) {
			s.Class.Name, s.Engine.Version, s.Parameters = "large", "15.5", map[string]string{"max_connections": "300"}
		})
		l.edit("blue", readers(3))
		l.request("blue", "restart", "cluster")
		l.until("blue", "refused", time.Minute, func(c *sharedstorage.Cluster) bool {
			n := len(c.Status.Requests)
			return n > 0 && c.Status.Requests[n-1].State == sharedstorage.Rejected && c.Status.Requests[n-1].Code == string(sharedstorage.ClusterHibernated.Code)
		})
		time.Sleep(10 * time.Minute)
		l.asleep()
		l.edit("blue", hibernated(false))
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
		l.all("blue", func(i port.Instance) bool { return i.Class.Name == "large" && i.Version == "15.5" })
		for _, state := range []string{"ChangingSpecification", "Upgrading", "Switching", "ModifyingParameters"} {
			l.visited(state, 0)
		}
	})
}

// What `pawl plan` says of a cluster that is to be hibernated, is hibernated, and is to wake.
func TestPlansOfHibernation(t *testing.T) {
	var b strings.Builder
	inHarness(t, setup{sim: sim.Options{}}, func(l *harness) {
		plan := func(what string, edit func(s *v1alpha1.SharedStorageClusterSpec)) {
			c := l.observe("blue")
			edit(&c.Spec)
			p, err := l.op.PlanFor(l.t.Context(), c)
			l.must(err)
			fmt.Fprintf(&b, "## %s\n%s\n", what, drawn(p))
		}
		up(l, "blue")
		plan("to be hibernated", hibernated(true))
		l.edit("blue", hibernated(true))
		l.asleep()
		plan("hibernated", hibernated(true))
		plan("hibernated, with another class", large)
		plan("to wake, with another class", func(s *v1alpha1.SharedStorageClusterSpec) { large(s); s.Hibernated = false })
	})
	golden(t, "plans_of_hibernation.txt", b.String())
}

// A class that cannot be had does not keep a cluster asleep: mending it mends the run, and a class that
// does not exist is told while the cluster runs as before.
func TestWakingWithAnotherClass(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.edit("blue", hibernated(true))
		l.asleep()
		l.sim.RefuseClass("large", true)
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Hibernated, s.Class.Name = false, "large" })
		c := l.state("blue", "Interrupted", time.Hour)
		if held := sharedstorage.HeldBy(c.Status.Conditions); held == nil || held.Code != port.PodUnscheduled.Code {
			t.Errorf("%+v", held)
		}
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Class.Name = "small" })
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Hibernated, s.Class.Name = true, "huge" })
		l.until("blue", "hibernated", time.Hour, func(c *sharedstorage.Cluster) bool { return c.Status.State == "Hibernated" })
		l.edit("blue", hibernated(false))
		c = l.until("blue", "running", time.Hour, func(c *sharedstorage.Cluster) bool {
			return c.Status.State == "Running" && c.Status.ObservedGeneration == c.Generation && meta.IsStatusConditionTrue(c.Status.Conditions, "Ready")
		})
		if held := sharedstorage.HeldBy(c.Status.Conditions); held == nil || held.Code != sharedstorage.ClassUnknown.Code {
			t.Errorf("%+v", held)
		}
	})
}

// A cluster that has lost the instance that wrote last does not wake with a reader as its writer. A
// lost reader keeps nobody asleep.
func TestWakingWithoutAnInstance(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.edit("blue", hibernated(true))
		l.asleep()
		_, reader := l.sleeper("blue", false)
		l.sim.DropInstance(ref("blue"), reader.Name)
		l.edit("blue", hibernated(false))
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
		l.edit("blue", hibernated(true))
		l.asleep()
		_, writer := l.sleeper("blue", true)
		l.sim.DropInstance(ref("blue"), writer.Name)
		l.edit("blue", hibernated(false))
		c := l.state("blue", "Interrupted", time.Hour)
		if held := sharedstorage.HeldBy(c.Status.Conditions); held == nil || held.Code != port.DataLost.Code {
			t.Errorf("%+v\n%s", held, l.story())
		}
		time.Sleep(time.Hour)
		if name := l.sim.Writer(ref("blue")); name != "" {
			t.Errorf("%s was promoted by itself", name)
		}
		l.request("blue", "rebuild", "cluster") // a person goes on with what is left
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
	})
}

// sleeper returns the suspended instance that holds the grant, or one that does not.
func (l *harness) sleeper(name string, granted bool) (id string, i port.Instance) {
	l.t.Helper()
	for _, i := range l.sim.Instances(ref(name)) {
		if (i.Name == l.sim.Volume(ref(name)).Writer) == granted {
			return i.ID, i
		}
	}
	l.t.Fatalf("there is none\n%s", l.story())
	return "", i
}

// A reader that does not start keeps a cluster neither asleep nor without failover: it is rebuilt when
// the cluster is Running.
func TestWakingWithABrokenReader(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.edit("blue", hibernated(true))
		l.asleep()
		_, reader := l.sleeper("blue", false)
		l.sim.BreakEngine(ref("blue"), reader.Name, "its files are damaged")
		l.edit("blue", hibernated(false))
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
		l.visited("RebuildingReader", 1)
	})
}

// A hibernated cluster can be deleted, and its record of who may write is restored if somebody deletes it.
func TestHibernatedClusterIsDeleted(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.edit("blue", hibernated(true))
		l.asleep()
		l.remove("blue")
		l.gone("blue", time.Hour)
		if left := l.sim.Instances(ref("blue")); len(left) > 0 {
			t.Errorf("%+v\n%s", left, l.story())
		}
	})
}

func TestHibernatedClusterLosesItsGrant(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.edit("blue", hibernated(true))
		l.asleep()
		was := l.sim.Volume(ref("blue"))
		l.sim.LoseGrant(ref("blue"))
		time.Sleep(time.Hour)
		l.edit("blue", hibernated(false))
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
		if v := l.sim.Volume(ref("blue")); v.Writer != was.Writer || v.Epoch < was.Epoch {
			t.Errorf("the grant was %+v and is %+v", was, v)
		}
	})
}

// A hibernation, and a waking, that a person undoes or drops in its middle: the field decides.
func TestHibernationIsEndedInTheMiddle(t *testing.T) {
	by := workflow.Actor{Name: "uma"}
	for _, mode := range []runtype.Mode{runtype.Undo, runtype.Drop} {
		for _, to := range []bool{true, false} { // towards hibernation, or out of it
			for after := time.Second; after < 16*time.Second; after += 3 * time.Second {
				t.Run(fmt.Sprint(mode, to, after), func(t *testing.T) {
					inHarness(t, setup{sim: times()}, func(l *harness) {
						up(l, "blue")
						if !to {
							l.edit("blue", hibernated(true))
							l.asleep()
						}
						l.edit("blue", hibernated(to))
						time.Sleep(after)
						if r := l.observe("blue").Status.Run; r != nil {
							_ = l.engine.Cancel(t.Context(), r.ID, mode, false, by) // it may have ended
						}
						l.edit("blue", hibernated(!to))
						if to {
							l.awaitRunning("blue", time.Hour)
							l.checkInvariants("blue")
							return
						}
						l.asleep()
						l.edit("blue", hibernated(false))
						l.awaitRunning("blue", time.Hour)
						l.checkInvariants("blue")
					})
				})
			}
		}
	}
}

// A process crashes before and after each of its saves and calls while a cluster goes to sleep or wakes.
func TestCrashesAroundHibernation(t *testing.T) {
	step := crashStep(t, 7)
	for _, to := range []bool{true, false} {
		for at := 1; ; at += step {
			over := false
			t.Run(fmt.Sprint(map[bool]string{true: "to sleep ", false: "awake "}[to], at), func(t *testing.T) {
				inHarness(t, setup{sim: crashScenario{}.simulation()}, func(l *harness) {
					up(l, "blue")
					if !to {
						l.edit("blue", hibernated(true))
						l.asleep()
					}
					l.arm(at)
					l.edit("blue", hibernated(to))
					over = !l.dies(map[bool]string{true: "Hibernated", false: "Running"}[to])
					if to {
						l.asleep()
						l.edit("blue", hibernated(false))
					}
					l.awaitRunning("blue", time.Hour)
					l.checkInvariants("blue")
					copiesNothing(l)
				})
			})
			if over || t.Failed() {
				break
			}
		}
	}
}

// dies waits until the process crashes, and starts another one, or until blue rests in a state.
func (l *harness) dies(state string) bool {
	l.t.Helper()
	for end := time.Now().Add(time.Hour); time.Now().Before(end); time.Sleep(time.Second) {
		if l.alive() != nil {
			l.kill()
			return true
		}
		if c := l.observe("blue"); c.Status.State == state && c.Status.ObservedGeneration == c.Generation && l.rests() {
			l.arm(0)
			return false
		}
	}
	l.t.Fatalf("it neither died nor rested\n%s", l.story())
	return false
}

// Random lives that hibernate in between: there are never two writers, no answered row is lost, and a
// hibernated cluster has nothing that runs once the faults have ended.
func TestRandomLivesWithHibernation(t *testing.T) {
	actions := []string{"hibernate", "wake", "hibernate", "wake", "class", "version", "parameters", "kill engine", "kill place", "lose node", "return nodes", "drop manager", "die", "pause", "resume", "undo", "drop", "wait", "lost answers", "no answers", "calm", "switch"}
	fewer(t)
	rapid.Check(t, func(rt *rapid.T) {
		type act struct {
			action string
			n      int
		}
		var script []act
		for range rapid.IntRange(2, 10).Draw(rt, "acts") {
			script = append(script, act{rapid.SampledFrom(actions).Draw(rt, "action"), rapid.IntRange(0, 40).Draw(rt, "n")})
		}
		shared, ends := rapid.Bool().Draw(rt, "shared"), rapid.Bool().Draw(rt, "ends asleep")
		words := ""
		synctest.Test(t, func(t *testing.T) {
			words = runRandom(t, shared, func(l *harness) {
				up(l, "blue")
				for _, a := range script {
					switch a.action {
					case "hibernate", "wake":
						l.edit("blue", hibernated(a.action == "hibernate"))
					default:
						l.perform(a.action, a.n)
					}
					time.Sleep(time.Duration(a.n) * time.Second)
				}
				l.edit("blue", hibernated(false))
				l.recoverAll()
				l.checkInvariants("blue")
				if ends {
					l.edit("blue", hibernated(true))
					l.asleep()
					l.edit("blue", hibernated(false))
					l.awaitRunning("blue", time.Hour)
					l.checkInvariants("blue")
				}
			})
		})
		if words != "" {
			rt.Fatal(words)
		}
	})
}
