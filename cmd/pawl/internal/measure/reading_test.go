package measure_test

import (
	"testing"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/measure"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

func TestMeasuresAReading(t *testing.T) {
	o := measure.Options{Runs: 1, Steps: 1500, Concurrency: 1}
	b, err := measure.Open(runstore.NewMemory(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Reading(t.Context(), "memory", o.Steps)
	if err != nil || r.Steps != 1500 || r.Bytes < 1500*50 || r.ReadingMs < r.ViewMs {
		t.Errorf("%+v, %v", r, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}
