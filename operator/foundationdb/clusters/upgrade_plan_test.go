package clusters_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// The plan of an incompatible upgrade, made before it is applied, tells that all servers restart.
func TestPlanOfAnUpgrade(t *testing.T) {
	l := begin(t, sim.Options{}, nil)
	l.settle(time.Hour)
	l.Advance(time.Hour) // no gate is closed
	changed := l.cluster()
	changed.Spec.Version = "7.4.6"
	effects := l.Effects()
	planned, err := l.operator.Plan(context.Background(), l.ref(), changed)
	if err != nil {
		t.Fatal(err)
	}
	if n := l.Effects(); n != effects {
		t.Errorf("a plan has %d effects", n-effects)
	}
	at := slices.IndexFunc(planned, func(p chain.Planned) bool { return p.Link == "BounceProcesses" })
	if at < 0 || len(planned[at].Acts) != 1 || planned[at].Acts[0].Name != "restart the servers of" {
		t.Fatalf("BounceProcesses is not planned: %+v", planned)
	}
	if got, want := len(planned[at].Acts[0].Targets), len(changed.Status.ProcessGroups); got != want {
		t.Errorf("%d groups are restarted, want %d", got, want)
	}
}
