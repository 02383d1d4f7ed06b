package sharedstorage_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage"
)

// When every operator dies in a switch, the cluster manager fails over again within a minute, and the
// writer that the switch had stopped is replaced; an operator that comes back ends the run.
func TestFailoverIsBackAMinuteAfterTheOperators(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) {
		up(l, "blue")
		l.request("blue", sharedstorage.SwitchWriter, "2")
		l.atStep("HA/Switch/AwaitCandidateComplete")
		l.halt()
		if at := l.sim.Topology(ref("blue")); at.HA || time.Until(at.Until) > time.Minute {
			t.Fatalf("in a switch failover is %+v", at)
		}
		time.Sleep(time.Minute + time.Second)
		if at := l.sim.Topology(ref("blue")); !at.HA {
			t.Errorf("a minute later it is %+v", at)
		}
		time.Sleep(time.Minute)
		if writer := l.sim.Writer(ref("blue")); writer == "" {
			t.Error("nobody writes")
		}
		l.start()
		l.awaitRunning("blue", time.Hour)
		l.checkInvariants("blue")
	})
}
