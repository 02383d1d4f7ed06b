package sharedstorage_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/sim"
)

// Each of several operators serves the clusters that name it; one without a name serves all (spec
// 1).
func TestOperatorName(t *testing.T) {
	for name, served := range map[string]bool{"ours": true, "theirs": false, "": false} {
		t.Run(name, func(t *testing.T) {
			inHarness(t, setup{sim: times(), options: func(o *sharedstorage.Options) { o.Name = "ours" }}, func(l *harness) {
				l.create("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.OperatorName = name })
				time.Sleep(10 * time.Minute)
				c := l.observe("blue")
				if got := c.Status.State == "Running"; got != served || !served && (len(c.Status.Conditions) > 0 || len(l.sim.Calls()) > 0) {
					t.Errorf("served %t: %+v", got, c.Status)
				}
			})
		})
	}
}

// Failover that the spec does not want is off from the beginning, through every change, without an
// end. Once the spec wants it, it is on (spec 1 and 5).
func TestFailoverThatIsNotWanted(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		wanted := false
		l.create("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.HA.Enabled = &wanted })
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
		l.edit("blue", large)
		time.Sleep(2 * time.Second)
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
		for _, call := range l.sim.Calls() {
			if call.Method == "SetHA" && call.Detail == "true" {
				t.Errorf("failover was switched on: %s", call)
			}
		}
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.HA.Enabled = nil })
		time.Sleep(2 * time.Minute)
		l.awaitRunning("blue", time.Hour)
		l.haOn()
	})
}

// Instances run on the nodes that the spec allows, with ports of its range (spec 1).
func TestPlacesOfInstances(t *testing.T) {
	o := times()
	for _, name := range []string{"fast-1", "fast-2", "slow-1", "slow-2"} {
		o.Nodes = append(o.Nodes, port.Node{Name: name, Ready: true, Schedulable: true, Labels: map[string]string{"disk": name[:4]}})
	}
	inHarness(t, setup{sim: o}, func(l *harness) {
		l.create("blue", func(s *v1alpha1.SharedStorageClusterSpec) {
			s.Scheduling.NodeSelector = map[string]string{"disk": "fast"}
			s.Ports = &v1alpha1.PortRange{Start: 6000, Step: 5}
		})
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
		var ports []int32
		for _, i := range l.sim.Instances(ref("blue")) {
			ports = append(ports, i.Port)
			if i.Node != "fast-1" && i.Node != "fast-2" {
				t.Errorf("%s stands on %s", i.Name, i.Node)
			}
		}
		slices.Sort(ports)
		if _, w := l.writer("blue"); !slices.Equal(ports, []int32{6000, 6005, 6010}) || w.Port != 6000 {
			t.Errorf("the ports are %v, the writer's is %d", ports, w.Port)
		}
	})
}

// The first readers are created in parallel, two at most (spec 4).
func TestReadersAreMadeTwoAtATime(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		l.create("blue", readers(5))
		most := 0
		for range 3000 {
			n := 0
			for _, i := range l.sim.Instances(ref("blue")) {
				if i.Type == port.Reader && i.State == port.Pending {
					n++
				}
			}
			if most = max(most, n); l.observe("blue").Status.State == "Running" {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if most != 2 {
			t.Errorf("%d readers were made at once, want 2", most)
		}
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
	})
}

// If the writer fails while the first readers are created, the run pauses, and continues when the
// writer is back (spec 4).
func TestTheWriterFailsWhileReadersAreMade(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		l.create("blue", nil)
		l.atStep("CreateRoPods[2]/CreateReader")
		_, writer := l.writer("blue")
		l.sim.BreakEngine(ref("blue"), writer.Name, "no shared memory")
		l.interrupted(port.WriterUnhealthy.Code, 10*time.Minute)
		l.sim.BreakEngine(ref("blue"), writer.Name, "")
		l.must(l.sim.Ports().Engine.Start(l.t.Context(), ref("blue").Of(writer.Name)))
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
	})
}

// Failover is off until a time, and stays off as long as a step waits, because each poll extends
// that time. It comes back even if the operator never does (spec 5).
func TestFailoverIsOffWithAnEnd(t *testing.T) {
	const off = 10 * time.Minute
	inHarness(t, setup{sim: times(), options: func(o *sharedstorage.Options) { o.HAOffFor = off }}, func(l *harness) {
		up(l, "blue")
		l.edit("blue", large)
		l.atStep("HA/Readers[2]/Recreate/AwaitCaughtUp")
		lagging := func() {
			for _, i := range l.sim.Instances(ref("blue")) {
				if i.ID == "2" {
					l.sim.Lag(ref("blue"), i.Name, 64<<20)
				}
			}
		}
		for range 28 {
			lagging()
			time.Sleep(time.Minute)
			if state := l.observe("blue").Status.State; state != "ChangingSpecification" {
				t.Fatalf("it is %s\n%s", state, l.story())
			}
			if at := l.sim.Topology(ref("blue")); at.HA || time.Until(at.Until) > off || time.Until(at.Until) < off/2-5*time.Second {
				t.Fatalf("failover is %+v at %s\n%s", at, time.Now(), l.story())
			}
		}
		l.halt()
		time.Sleep(off + time.Minute)
		if at := l.sim.Topology(ref("blue")); !at.HA {
			t.Errorf("without an operator it is %+v", at)
		}
		l.start()
		for _, i := range l.sim.Instances(ref("blue")) {
			l.sim.Lag(ref("blue"), i.Name, 0)
		}
		l.awaitRunning("blue", 2*time.Hour)
		l.checkInvariants("blue")
	})
}

// Every flow uses one name for the bracket in which failover is off. By this name a step knows
// that it is in the bracket (spec 4).
func TestTheBracketOfFailover(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		flows, err := l.op.Flows()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, f := range flows {
			for _, s := range f.Steps {
				if s.Open == nil {
					continue
				}
				if n++; s.Name != "HA" {
					t.Errorf("%s has the bracket %s", f.Name, s.Name)
				}
			}
		}
		if n < 9 {
			t.Errorf("%d flows have a bracket", n)
		}
	})
}

// A deletion that pauses stays Deleting, reports why, and ends when the cause is gone (spec 3).
func TestADeletionThatPauses(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.sim.Inject(sim.Rule{Port: "Storage", Method: "Release", Do: sim.Fail, Err: port.StorageFailed.Errorf("the disk is busy")})
		l.remove("blue")
		c := l.until("blue", "held up", time.Hour, func(c *sharedstorage.Cluster) bool { return conditionOf(c, "Interrupted").Status == "True" })
		if cond := conditionOf(c, "Progressing"); c.Status.State != "Deleting" || cond.Reason != "StorageFailed" {
			t.Errorf("%s %+v", c.Status.State, cond)
		}
		l.sim.Heal()
		l.resume(c)
		l.gone("blue", time.Hour)
	})
}
