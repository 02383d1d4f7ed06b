package sharedstorage_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/sim"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// calls counts the calls of a method that took effect.
func (l *harness) calls(method string) (n int) {
	for _, c := range l.sim.Calls() {
		if c.Method == method && c.Err == "" {
			n++
		}
	}
	return n
}

// recreations lists the instances in the order in which they were last asked to be recreated.
func (l *harness) recreations() []string {
	var order []string
	for _, c := range l.sim.Calls() {
		if c.Method == "Recreate" && c.Err == "" && (len(order) == 0 || order[len(order)-1] != c.Ref.Instance) {
			order = append(order, c.Ref.Instance)
		}
	}
	return order
}

func names(instances []port.Instance) string {
	all := ""
	for _, i := range instances {
		all += i.ID + "=" + i.Name + " "
	}
	return all
}

// class edits the content of a class under its name, as an edit of the ConfigMap does.
func (l *harness) class(name string, edit func(c *port.Class)) {
	l.clusters.mu.Lock()
	c := l.clusters.classes[name]
	edit(&c)
	l.clusters.classes[name] = c
	l.clusters.mu.Unlock()
	l.clusters.notify("blue")
}

// Whatever is edited of how instances run, one run recreates each of them once on its data, readers
// first, and copies nothing. In both modes of storage.
func TestEditsAreRolledOut(t *testing.T) {
	spec := func(edit func(s *v1alpha1.SharedStorageClusterSpec)) func(l *harness) {
		return func(l *harness) { l.edit("blue", edit) }
	}
	for _, c := range []struct {
		what  string
		state string // that the cluster visits; empty: nothing is done
		act   func(l *harness)
		holds func(i port.Instance) bool
	}{
		{"a class", "ChangingSpecification", spec(large), func(i port.Instance) bool { return i.Class.Name == "large" }},
		{"a version", "Upgrading", spec(version("15.5")), func(i port.Instance) bool { return i.Version == "15.5" }},
		{"the image of the version", "ChangingSpecification", spec(func(s *v1alpha1.SharedStorageClusterSpec) {
			s.Images = map[string]string{"15.4": "registry/postgres:15.4-2"}
		}), func(i port.Instance) bool { return i.Image == "registry/postgres:15.4-2" }},
		{"the memory of the class", "ChangingSpecification", func(l *harness) { l.class("small", func(c *port.Class) { c.Memory = 2 << 30 }) }, func(i port.Instance) bool { return i.Class.Memory == 2<<30 }},
		{"the node selector", "ChangingSpecification", spec(func(s *v1alpha1.SharedStorageClusterSpec) {
			s.Scheduling.NodeSelector = map[string]string{"disk": "fast"}
		}), func(i port.Instance) bool { return i.NodeSelector["disk"] == "fast" && i.Node != "node-4" }},
		{"the spread", "ChangingSpecification", spec(func(s *v1alpha1.SharedStorageClusterSpec) { s.Scheduling.Spread = "zone" }), func(i port.Instance) bool { return i.Spread == "zone" }},
		{"the ports", "ChangingSpecification", spec(func(s *v1alpha1.SharedStorageClusterSpec) { s.Ports = &v1alpha1.PortRange{Start: 6000, Step: 5} }), func(i port.Instance) bool { return i.Port >= 6000 && i.Port%5 == 0 }},
		{"defaults, written out", "", spec(func(s *v1alpha1.SharedStorageClusterSpec) {
			s.Scheduling = v1alpha1.SchedulingSpec{Spread: "kubernetes.io/hostname", WhenUnsatisfiable: "DoNotSchedule"}
		}), func(port.Instance) bool { return true }},
		{"the memory of another class", "", func(l *harness) { l.class("large", func(c *port.Class) { c.Memory++ }) }, func(port.Instance) bool { return true }},
	} {
		for _, mode := range []port.Mode{port.Copies, port.Shared} {
			t.Run(c.what+", "+string(mode), func(t *testing.T) {
				o := times()
				o.Shared = mode == port.Shared
				for _, name := range []string{"node-1", "node-2", "node-3"} {
					o.Nodes = append(o.Nodes, port.Node{Name: name, Ready: true, Schedulable: true, Labels: map[string]string{"disk": "fast"}})
				}
				inHarness(t, setup{sim: o}, func(l *harness) {
					up(l, "blue")
					before, installed := names(l.sim.Instances(ref("blue"))), l.calls("Install")
					_, writer := l.writer("blue")
					c.act(l)
					time.Sleep(2 * time.Minute)
					l.awaitRunning("blue", time.Hour)
					l.checkInvariants("blue")
					l.all("blue", c.holds)
					if after := names(l.sim.Instances(ref("blue"))); after != before {
						t.Errorf("the instances were %s and are %s", before, after)
					}
					if n := l.calls("Install"); n != installed {
						t.Errorf("data were installed %d times, before that %d times\n%s", n, installed, l.story())
					}
					if got := l.observe("blue").Status.Storage.Mode; got != string(mode) {
						t.Errorf("the mode is %q", got)
					}
					order := l.recreations()
					if c.state == "" {
						if len(order) > 0 {
							t.Errorf("%v are recreated", order)
						}
						return
					}
					l.visited(c.state, 1)
					if len(order) != 3 || order[2] != writer.Name {
						t.Errorf("recreated in the order %v, and %s was the writer", order, writer.Name)
					}
					if _, now := l.writer("blue"); now.Name == writer.Name {
						t.Errorf("%s still writes", now.Name)
					}
				})
			})
		}
	}
}

// Class, placement and image that are edited together are one roll; a larger volume follows it, on the
// same claims.
func TestEditsTogetherAreOneRoll(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		before := names(l.sim.Instances(ref("blue")))
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) {
			size := resource.MustParse("20Gi")
			s.Class.Name, s.Images, s.Scheduling.Spread, s.Storage.Size = "large", map[string]string{"15.4": "x"}, "zone", &size
		})
		time.Sleep(2 * time.Second)
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
		l.all("blue", func(i port.Instance) bool { return i.Class.Name == "large" && i.Image == "x" && i.Spread == "zone" })
		l.visited("ChangingSpecification", 1)
		l.visited("ExtendingStorage", 1)
		if after := names(l.sim.Instances(ref("blue"))); after != before || l.sim.Volume(ref("blue")).Size != 20<<30 {
			t.Errorf("the instances were %s and are %s, on %+v", before, after, l.sim.Volume(ref("blue")))
		}
	})
}

// A cluster without readers is recreated in place, and the plan says so.
func TestAnOnlyInstanceIsRecreatedInPlace(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		l.create("blue", readers(0))
		l.awaitRunning("blue", time.Hour)
		_, writer := l.writer("blue")
		installed := l.calls("Install")
		c := l.observe("blue")
		c.Spec.Class.Name = "large"
		plan, err := l.op.PlanFor(l.t.Context(), c)
		l.must(err)
		if text := drawn(plan); !strings.Contains(text, "HA/RecreateInPlace run") || !strings.Contains(text, "HA/RecreateWriter skip") {
			t.Errorf("the plan: %s", text)
		}
		l.edit("blue", large)
		time.Sleep(2 * time.Second)
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
		if _, now := l.writer("blue"); now.Name != writer.Name || now.Class.Name != "large" || l.calls("Install") != installed {
			t.Errorf("the writer was %+v and is %+v, %d of %d installs", writer, now, l.calls("Install"), installed)
		}
	})
}

// A reader that does not come up with the new class is given back the former one: it streams while the
// run waits for a person. An undo leaves every instance as it was, and so does a mended class.
func TestAClassThatDoesNotComeUp(t *testing.T) {
	by := workflow.Actor{Name: "uma"}
	for what, breakIt := range map[string]func(l *harness, i port.Instance){
		"no node takes it": func(l *harness, _ port.Instance) { l.sim.RefuseClass("large", true); l.edit("blue", large) },
		"its engine does not start": func(l *harness, i port.Instance) {
			l.sim.Inject(sim.Rule{Label: "broken", Port: "Instances", Method: "Recreate", Instance: i.Name, Times: 1, Do: sim.Lost})
			l.edit("blue", large)
			for l.sim.Fired("broken") == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			l.sim.BreakEngine(ref("blue"), i.Name, "shared_buffers is larger than the memory")
		},
		"its pod is not admitted": func(l *harness, i port.Instance) {
			l.sim.Inject(sim.Rule{Label: "recreated", Port: "Instances", Method: "Recreate", Instance: i.Name, Times: 1, Do: sim.Lost})
			l.edit("blue", large)
			for l.sim.Fired("recreated") == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			l.sim.KillInstance(ref("blue"), i.Name)
			l.sim.Inject(sim.Rule{Port: "Instances", Method: "Ensure", Instance: i.Name, Do: sim.Fail, Err: port.QuotaExceeded.Errorf("exceeded quota: tight")})
		},
	} {
		for _, remedy := range []string{"undo", "mend"} {
			t.Run(what+", "+remedy, func(t *testing.T) {
				inHarness(t, setup{sim: times()}, func(l *harness) {
					up(l, "blue")
					before, installed := names(l.sim.Instances(ref("blue"))), l.calls("Install")
					_, reader := l.reader("blue")
					breakIt(l, reader)
					c := l.interrupted(sharedstorage.RecreateFailed.Code, time.Hour)
					l.sim.Heal()
					l.sim.BreakEngine(ref("blue"), reader.Name, "") // the former class has room for the buffers
					_ = l.sim.Ports().Engine.Start(t.Context(), ref("blue").Of(reader.Name))
					time.Sleep(time.Minute)
					l.all("blue", func(i port.Instance) bool { return i.Class.Name == "small" })
					if n := len(l.sim.Streaming(ref("blue"))); n != 2 {
						t.Errorf("%d readers stream while it is interrupted\n%s", n, l.story())
					}
					l.haOn()
					want := "large"
					if l.sim.RefuseClass("large", false); remedy == "undo" {
						want = "small"
						l.edit("blue", small)
						_ = l.engine.Cancel(t.Context(), c.Status.Run.ID, runtype.Undo, false, by) // the machine does it, too, as the wish is withdrawn
					} else {
						l.resume(c)
					}
					time.Sleep(2 * time.Second)
					l.awaitRunning("blue", time.Hour)
					l.checkInvariants("blue")
					l.all("blue", func(i port.Instance) bool { return i.Class.Name == want })
					if after := names(l.sim.Instances(ref("blue"))); after != before || l.calls("Install") != installed {
						t.Errorf("the instances were %s and are %s, %d of %d installs", before, after, l.calls("Install"), installed)
					}
				})
			})
		}
	}
}

// A failover in the middle of a roll: what was recreated stays, and what was not is recreated by the
// same run or by the next one, still without a copy.
func TestAFailoverWhileInstancesAreRecreated(t *testing.T) {
	for _, step := range []string{"HA/Readers[2]/Recreate/AwaitCaughtUp", "HA/Readers[3]/Recreate/RecreateInstance", "HA/RecreateWriter/ChooseCandidate", "HA/RecreateWriter/RecreateInstance"} {
		t.Run(strings.ReplaceAll(step, "/", "."), func(t *testing.T) {
			o := times()
			o.Latency = 200 * time.Millisecond
			inHarness(t, setup{sim: o}, func(l *harness) {
				up(l, "blue")
				before := names(l.sim.Instances(ref("blue")))
				l.edit("blue", large)
				l.atStep(step)
				l.sim.KillEngine(ref("blue"), l.sim.Writer(ref("blue")))
				time.Sleep(5 * time.Minute)
				if c := l.observe("blue"); c.Status.State == "Interrupted" {
					l.resume(c)
				}
				l.awaitRunning("blue", 3*time.Hour)
				l.checkInvariants("blue")
				l.all("blue", func(i port.Instance) bool { return i.Class.Name == "large" })
				if after := names(l.sim.Instances(ref("blue"))); len(l.sim.Instances(ref("blue"))) != 3 {
					t.Errorf("the instances were %s and are %s", before, after)
				}
			})
		})
	}
}
