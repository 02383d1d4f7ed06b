package workflow_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// BenchmarkMoreBranchesThanSlots: a worker has 256 slots and 256 runs with 20 branches each that
// take 5 ms. Nearly all runs wait for a slot all the time.
func BenchmarkMoreBranchesThanSlots(b *testing.B) {
	const slots, branches = 256, 20
	flow := workflow.Flow{Name: "Wide", Steps: []workflow.Step{{Name: "All", Parallel: branches}}}
	var ended atomic.Int64
	all := make(chan struct{}, 1)
	for i := range branches {
		flow.Steps[0].Steps = append(flow.Steps[0].Steps, workflow.Step{Name: fmt.Sprint("B", i), Do: func(context.Context, *workflow.Task) outcome.Outcome {
			time.Sleep(5 * time.Millisecond)
			if ended.Add(1)%(slots*branches) == 0 {
				all <- struct{}{}
			}
			return outcome.Done()
		}})
	}
	engine, err := workflow.New(runstore.NewMemory(), []workflow.Flow{flow}, workflow.Options{
		Attempts: slots, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	served := make(chan error, 1)
	go func() { served <- engine.Serve(ctx) }()
	round := 0
	for b.Loop() {
		round++
		for i := range slots {
			if _, err := engine.Start(ctx, workflow.Request{Flow: "Wide", Subject: fmt.Sprint("kind/space/", i), RequestID: fmt.Sprint(round)}); err != nil {
				b.Fatal(err)
			}
		}
		<-all
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*slots*branches), "µs/step")
	stop()
	<-served
}
