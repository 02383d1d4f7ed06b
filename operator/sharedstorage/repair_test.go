package sharedstorage_test

import (
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// deletions lists what somebody may delete of a cluster besides its data.
func deletions() map[string]func(l *harness) {
	grant := func(l *harness) { l.sim.LoseGrant(ref("blue")) }
	manager := func(l *harness) { l.sim.DropManager(ref("blue")) }
	pod := func(l *harness) {
		for _, i := range l.sim.Instances(ref("blue")) {
			if i.State == port.Up {
				l.sim.KillInstance(ref("blue"), i.Name)
				return
			}
		}
	}
	return map[string]func(l *harness){
		"grant": grant, "manager": manager,
		"grant and manager": func(l *harness) { grant(l); manager(l) }, "grant and pod": func(l *harness) { grant(l); pod(l) },
	}
}

// Whatever is deleted at whatever moment of whatever flow: the flow reaches its end, and no
// answered row is lost.
func TestFinding28DeletionsInEveryFlow(t *testing.T) {
	step := crashStep(t, 47)
	for what, lose := range deletions() {
		for name, s := range crashScenarios() {
			if strings.HasSuffix(what, "pod") && name != "SwitchWriter" && name != "ModifyClass" {
				continue // the loss of a pod within a flow has its own tests
			}
			t.Run(what+" in "+name, func(t *testing.T) {
				for at := 1 + (len(name)+len(what))%step; ; at += step {
					over := false
					t.Run(fmt.Sprint(at), func(t *testing.T) {
						inHarness(t, setup{sim: s.simulation()}, func(l *harness) {
							if s.prepare != nil {
								s.prepare(l)
							}
							var struck atomic.Bool
							l.instead = func() { lose(l); struck.Store(true) }
							l.arm(at)
							s.act(l)
							l.survive(2 * time.Hour)
							synctest.Wait() // the deletion may happen while the flow ends
							over = !struck.Load()
							crashScenario{end: s.end}.ended(l)
						})
					})
					if over || t.Failed() {
						return
					}
				}
			})
		}
	}
}

// At rest the record of the grant is restored before the writer has to renew its lease: the writer
// continues, nobody else gets the grant, and an Event reports it.
func TestFinding28GrantIsRestoredAtRest(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		before := l.sim.Volume(ref("blue"))
		l.sim.LoseGrant(ref("blue"))
		l.clusters.notify("blue") // as the watch does
		time.Sleep(2 * time.Second)
		if after := l.sim.Volume(ref("blue")); !reflect.DeepEqual(after, before) || l.sim.Writer(ref("blue")) != before.Writer {
			l.t.Errorf("the volume is %+v, want %+v, and the writer %q", after, before, l.sim.Writer(ref("blue")))
		}
		if told := l.eventsText(); !strings.Contains(told, "blue GrantRestored: ") {
			l.t.Errorf("nobody is told: %s", told)
		}
		l.awaitRunning("blue", time.Minute)
	})
}

// A manager that is deleted while failover is off is back within seconds, and failover stays off:
// the flow goes on without a healer.
func TestFinding28ManagerIsRestoredInAFlow(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.request("blue", "restart", "cluster")
		l.until("blue", "without failover", time.Minute, func(*sharedstorage.Cluster) bool {
			top := l.sim.Topology(ref("blue"))
			return top.Ready && !top.HA
		})
		l.sim.DropManager(ref("blue"))
		l.until("blue", "with its manager", 15*time.Second, func(*sharedstorage.Cluster) bool { return l.sim.Topology(ref("blue")).Present })
		l.until("blue", "without failover again", 15*time.Second, func(c *sharedstorage.Cluster) bool {
			top := l.sim.Topology(ref("blue"))
			return top.Ready && !top.HA && c.Status.State == "Restarting"
		})
		l.awaitRunning("blue", 2*time.Minute)
		l.requestDone("blue", "restart")
		l.checkInvariants("blue")
		l.mu.Lock()
		moves := strings.Join(l.moves, "\n")
		l.mu.Unlock()
		if strings.Contains(moves, ">Interrupted") {
			l.t.Errorf("it was interrupted: %s", moves)
		}
		if told := l.eventsText(); !strings.Contains(told, "blue ManagerRestored: ") {
			l.t.Errorf("nobody is told: %s", told)
		}
	})
}

// A flow that adds a new reader to the manager restores a deleted one, too.
func TestFinding28ManagerIsRestoredForANewReader(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.edit("blue", readers(3))
		l.state("blue", "ScalingOut", time.Minute)
		l.sim.DropManager(ref("blue"))
		l.awaitRunning("blue", 3*time.Minute)
		l.checkInvariants("blue")
		l.mu.Lock()
		defer l.mu.Unlock()
		if moves := strings.Join(l.moves, "\n"); strings.Contains(moves, ">Interrupted") {
			l.t.Errorf("it was interrupted: %s", moves)
		}
	})
}

// The record is deleted before the operator has observed a failover: the grant goes to the newest
// writer, not to the one in status.
func TestFinding28GrantOfTheNewestWriter(t *testing.T) {
	for _, writes := range []bool{true, false} {
		inHarness(t, setup{sim: times()}, func(l *harness) {
			up(l, "blue")
			c := l.observe("blue")
			old := c.Status.Storage.Writer
			l.halt()
			l.sim.KillInstance(ref("blue"), old)
			newer := ""
			for range 60 { // the manager fails over
				time.Sleep(time.Second)
				newer = l.sim.Writer(ref("blue"))
			}
			if newer == "" || newer == old {
				l.t.Fatalf("the writer is %q\n%s", newer, l.story())
			}
			l.sim.LoseGrant(ref("blue"))
			if !writes {
				time.Sleep(10 * time.Minute)
				if writer := l.sim.Writer(ref("blue")); writer != "" {
					l.t.Errorf("%s writes without its lease", writer)
				}
			}
			l.start()
			time.Sleep(time.Minute)
			c = l.awaitRunning("blue", time.Hour)
			if c.Status.Storage.Writer != newer {
				l.t.Errorf("the grant went to %s, the newest writer was %s\n%s", c.Status.Storage.Writer, newer, l.story())
			}
		})
	}
}

// If an instance that may have written last does not answer, the operator does not guess the
// grant. The fault names the instance, no remedy asks to accept a loss, and when the instance is
// back the cluster goes on.
func TestFinding28GrantThatIsNotCertain(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		c := l.observe("blue")
		old := c.Status.Storage.Writer
		var node, reader string // the node of a reader that a failover may have promoted
		for _, i := range l.sim.Instances(ref("blue")) {
			if i.Name == old {
				l.sim.KillEngine(ref("blue"), old)
			} else {
				node, reader = i.Node, i.Name
			}
		}
		l.sim.LoseGrant(ref("blue"))
		l.sim.LoseNode(node)
		l.clusters.notify("blue")
		c = l.until("blue", "told", time.Hour, func(c *sharedstorage.Cluster) bool {
			return conditionOf(c, sharedstorage.ReadyCondition).Reason == port.GrantLost.Reason()
		})
		ready := conditionOf(c, sharedstorage.ReadyCondition)
		if ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, reader) || strings.Contains(ready.Message, "rebuild") {
			l.t.Errorf("Ready is %s: %s", ready.Status, ready.Message)
		}
		l.sim.ReturnNode(node)
		l.until("blue", "written to", time.Hour, func(*sharedstorage.Cluster) bool { return l.sim.Writer(ref("blue")) != "" })
		l.awaitRunning("blue", time.Hour)
	})
}

// Only the remedy of a proven loss asks to accept a loss.
func TestFinding28OnlyAProvenLossIsAccepted(t *testing.T) {
	for _, kind := range fault.All() {
		loses := strings.Contains(kind.Remedy, "accept the loss") || strings.Contains(kind.Remedy, "rebuild") && strings.Contains(kind.Remedy, "lost")
		if loses != (kind.Code == port.DataLost.Code) {
			t.Errorf("%s: %s", kind.Code, kind.Remedy)
		}
	}
}

// A writer that is created again has another address under its old name. Its followers are told
// the new address, whatever step waits for them.
func TestFinding28TheWriterComesBackElsewhere(t *testing.T) {
	for _, s := range []struct {
		flow, step string
		act        func(l *harness)
	}{
		{"AddReaders", "Readers[4]/AwaitCaughtUp", func(l *harness) { l.edit("blue", readers(3)) }},
		{"SwitchWriter", "HA/Switch/FollowNewWriter", func(l *harness) { id, _ := l.reader("blue"); l.request("blue", "switch-writer", id) }},
		{"SwitchWriter", "HA/RejoinOldWriter", func(l *harness) { id, _ := l.reader("blue"); l.request("blue", "switch-writer", id) }},
	} {
		t.Run(s.flow+" at "+s.step, func(t *testing.T) {
			inHarness(t, setup{sim: times()}, func(l *harness) {
				wanted := false // otherwise another one would take over
				l.create("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.HA.Enabled = &wanted })
				l.awaitRunning("blue", time.Hour)
				s.act(l)
				l.atStep(s.step)
				_, writer := l.writer("blue")
				l.sim.KillInstance(ref("blue"), writer.Name)
				l.clusters.notify("blue") // as the watch does
				l.awaitRunning("blue", 10*time.Minute)
				if _, now := l.writer("blue"); now.Name != writer.Name || now.Address == writer.Address {
					t.Errorf("the writer was %s at %s, and is %s at %s", writer.Name, writer.Address, now.Name, now.Address)
				}
				if streaming := l.sim.Streaming(ref("blue")); len(streaming) < 2 {
					t.Errorf("only %v follow it", streaming)
				}
				l.visited("Interrupted", 0)
				l.checkInvariants("blue")
			})
		})
	}
}
