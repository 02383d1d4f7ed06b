package sharedstorage_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/sim"
)

// besideManager makes the reader on the manager's node the writer.
func (l *harness) besideManager(name string) {
	l.t.Helper()
	_, writer := l.writer(name)
	node := l.sim.Topology(ref(name)).Node
	var successor string
	for _, i := range l.sim.Instances(ref(name)) {
		switch {
		case i.Node == node && i.Name != writer.Name:
			successor = i.Name
		case i.Name != writer.Name:
			l.sim.KillEngine(ref(name), i.Name)
		}
	}
	if successor == "" {
		l.t.Fatalf("no reader stands on %s\n%s", node, l.story())
	}
	time.Sleep(5 * time.Second) // then the manager does not count on the other reader any more
	l.sim.KillEngine(ref(name), writer.Name)
	l.until(name, "written to by "+successor, 5*time.Minute, func(*sharedstorage.Cluster) bool { return l.sim.Writer(ref(name)) == successor })
}

// sent counts the calls that moved the manager or created it again.
func (l *harness) sent() int {
	n := 0
	for _, c := range l.sim.Calls() {
		if c.Port == "Manager" && c.Method == "Ensure" {
			n++
		}
	}
	return n
}

// After a failover to its own node the cluster manager moves to another one (spec 6).
func TestTheManagerLeavesTheNodeOfANewWriter(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.besideManager("blue")
		l.sim.ClearLog()
		_, writer := l.writer("blue")
		time.Sleep(10 * time.Minute)
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
		if _, now := l.writer("blue"); now.Name != writer.Name || l.sim.Topology(ref("blue")).Node == now.Node {
			t.Errorf("%s writes on %s\n%s", now.Name, now.Node, l.story())
		}
		before := l.sent()
		time.Sleep(time.Hour)
		if now := l.sent(); now != before {
			t.Errorf("%d more calls\n%s", now-before, l.story())
		}
	})
}

// A manager that cannot move is not asked again and again; where there is no other node it is not
// asked at all.
func TestTheManagerThatCannotLeave(t *testing.T) {
	for _, cordoned := range []bool{false, true} {
		inHarness(t, setup{sim: times()}, func(l *harness) {
			up(l, "blue")
			node := l.sim.Topology(ref("blue")).Node
			if cordoned {
				for _, n := range []string{"node-1", "node-2", "node-3"} {
					l.sim.Cordon(n, n != node)
				}
			} else {
				l.sim.Inject(sim.Rule{Port: "Manager", Method: "Ensure", Do: sim.Fail, Err: port.ManagerUnreachable.Errorf("the scheduler has no room for it")})
			}
			l.besideManager("blue")
			time.Sleep(10 * time.Minute) // the readers are rebuilt
			l.awaitRunning("blue", time.Hour)
			l.sim.ClearLog()
			time.Sleep(30 * time.Minute)
			if n := l.sent(); cordoned && n > 0 || !cordoned && (n < 5 || n > 11) {
				t.Errorf("cordoned %t: %d calls in half an hour\n%s", cordoned, n, l.story())
			}
			l.sim.Heal()
			for _, n := range []string{"node-1", "node-2", "node-3"} {
				l.sim.Cordon(n, false)
			}
			time.Sleep(5 * time.Minute)
			l.awaitRunning("blue", time.Hour)
			l.checkInvariants("blue")
		})
	}
}
