package sqlite_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// BenchmarkLimitedSteps is one run of ten steps that do nothing, without limits and with a limit that lets each step start at once:
//
//	go test ./store/sql/runs/sqlite -run XXX -bench LimitedSteps
func BenchmarkLimitedSteps(b *testing.B) {
	for name, limits := range map[string][]workflow.StepLimit{
		"free":    nil,
		"limited": {{Key: workflow.FixedKey("api"), AtOnce: 100, Rate: runtype.Rate{Starts: 1000, Window: time.Millisecond}}},
	} {
		b.Run(name, func(b *testing.B) {
			store, err := sql.OpenSQLite(b.Context(), sql.Options{Path: filepath.Join(b.TempDir(), "bench.db")})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = store.Close() }()
			var steps []workflow.Step
			for i := range 10 {
				steps = append(steps, workflow.Step{Name: fmt.Sprint("S", i), Limits: limits, Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }})
			}
			e, err := workflow.New(store, []workflow.Flow{{Name: "F", Steps: steps}}, workflow.Options{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			n := 0
			for b.Loop() {
				n++
				r, err := e.Start(b.Context(), workflow.Request{Flow: "F", Subject: fmt.Sprint("kind/space/", n)})
				if err != nil {
					b.Fatal(err)
				}
				if o := e.Advance(b.Context(), r.ID); !o.IsDone() {
					b.Fatalf("%v", o)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/10, "µs/step")
		})
	}
}
