package telemetry_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/telemetry"
)

func TestChainMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := telemetry.NewChainMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	ready := false
	act := chain.Act[*int]{Name: "add", Do: func(_ context.Context, n *int) outcome.Outcome { *n++; return outcome.Done() }}
	c := chain.Chain[*int]{
		{Name: "Add", Decide: func(n *int) (d chain.Decision[*int]) {
			if *n < 2 {
				d.Acts = []chain.Act[*int]{act, act}
			}
			return d
		}},
		{Name: "Await", Run: func(context.Context, *int) outcome.Outcome {
			if !ready {
				return outcome.Wait(time.Second, "NotReady", "not yet")
			}
			return outcome.Done()
		}},
	}
	n := 0
	m.Observe("demo", c.Reconcile(t.Context(), &n))
	ready = true
	m.Observe("demo", c.Reconcile(t.Context(), &n))
	want := `
# HELP pawl_chain_acts_total Acts of links that were carried out.
# TYPE pawl_chain_acts_total counter
pawl_chain_acts_total{chain="demo",link="Add"} 2
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "pawl_chain_acts_total"); err != nil {
		t.Error(err)
	}
	if got := testutil.CollectAndCount(registry, "pawl_chain_link_seconds"); got != 3 { // Add done, Await wait, Await done
		t.Errorf("%d series of links, want 3", got)
	}
	if _, err := telemetry.NewChainMetrics(registry); err == nil {
		t.Error("a second registration is no error")
	}
}
