package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/store/sql/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }

func sizes(store string) options {
	return options{store: store, runs: 4, steps: 3, concurrency: 2, workers: 10, cooldown: time.Millisecond, poll: 10 * time.Millisecond}
}

func TestMeasures(t *testing.T) {
	for _, store := range []string{"sqlite", "postgres"} {
		for _, tx := range []bool{false, true} {
			name := store
			if tx {
				name += " tx"
			}
			t.Run(name, func(t *testing.T) {
				o := sizes(store)
				o.tx, o.dir = tx, t.TempDir()
				if store == "postgres" {
					o.dsn = pgtest.Start(t, pgtest.Options{}).Database(t)
				}
				r, err := measure(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if r.StepsPerSecond <= 0 || r.StepsPerCPUSecond <= 0 || r.LatencyP50Ms <= 0 || r.LatencyP99Ms < r.LatencyP50Ms || r.Store != "river-"+store {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}

func TestRefuses(t *testing.T) {
	none := sizes("sqlite")
	none.runs = 0
	for want, o := range map[string]options{"neither sqlite": sizes("mysql"), "needs --dsn": sizes("postgres"), "at least 1": none} {
		if _, err := measure(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestEnds(t *testing.T) {
	e := newCompletions(2)
	e.notify(1)
	e.notify(1) // a second end does not block
	if err := e.wait(t.Context(), 1); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.wait(ctx, 0); err == nil {
		t.Error("a flow that did not end is called ended")
	}
}

func TestQuantile(t *testing.T) {
	times := []time.Duration{1 * time.Millisecond, 2 * time.Millisecond, 3 * time.Millisecond, 4 * time.Millisecond}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 4, 1: 4} {
		if got := quantile(times, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}
