package clusters_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// The plan of an incompatible upgrade goes on after the restart: pods are made anew with the images of the new version.
// Groups of the transaction system are replaced later.
func TestPlanGoesOnAfterAnUpgrade(t *testing.T) {
	l := begin(t, sim.Options{}, nil)
	l.settle(time.Hour)
	l.Advance(time.Hour)
	changed := l.cluster()
	changed.Spec.Version = "7.4.6"
	planned, err := l.operator.Plan(context.Background(), l.ref(), changed)
	if err != nil {
		t.Fatal(err)
	}
	link := func(name string) chain.Planned {
		t.Helper()
		at := slices.IndexFunc(planned, func(p chain.Planned) bool { return p.Link == name })
		if at < 0 {
			t.Fatalf("no %s: %+v", name, planned)
		}
		return planned[at]
	}
	if acts := link("BounceProcesses").Acts; len(acts) != 1 {
		t.Errorf("BounceProcesses: %v", acts)
	}
	acts := link("UpdatePods").Acts
	if len(acts) != 1 || acts[0].Name != "make pod anew" || len(acts[0].Targets) == 0 {
		t.Fatalf("UpdatePods: %v, %s", acts, link("UpdatePods").Outcome)
	}
	if text := link("UpdatePods").Outcome.String(); !strings.Contains(text, "1 of 3 pods are made anew") {
		t.Error(text)
	}
}
