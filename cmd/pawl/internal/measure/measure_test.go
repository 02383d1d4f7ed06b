package measure_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/measure"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

func TestMeasures(t *testing.T) {
	o := measure.Options{Runs: 50, Steps: 10, Concurrency: 10}
	b, err := measure.Open(runstore.NewMemory(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Run(t.Context(), "memory", o)
	if err != nil {
		t.Fatal(err)
	}
	if r.WritesPerRun != 12 {
		t.Errorf("%v writes a run of 10 steps, the duty is n + 2", r.WritesPerRun)
	}
	if r.StepsPerSecond <= 0 || r.StepsPerCPUSecond <= 0 || r.LatencyP99Ms < r.LatencyP50Ms {
		t.Errorf("%s", r.JSON())
	}
	w, err := b.Waiting(t.Context(), "memory", 200, 20, 10*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if w.WritesWhileIdle != 0 || w.Goroutines > 2 {
		t.Errorf("%+v: a waiting run costs no write and no goroutine (promise 8)", w)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}
