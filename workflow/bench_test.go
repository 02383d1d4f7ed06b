package workflow_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// BenchmarkSteps executes flows of ten no-op steps, 100 runs at the same time, on the memory store.
// One operation is one step.
func BenchmarkSteps(b *testing.B) {
	steps := make([]workflow.Step, 10)
	for i := range steps {
		steps[i] = workflow.Step{Name: fmt.Sprintf("step-%d", i), Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }}
	}
	var ended sync.WaitGroup
	steps[9].Do = func(context.Context, *workflow.Task) outcome.Outcome { ended.Done(); return outcome.Done() }
	engine, err := workflow.New(runstore.NewMemory(), []workflow.Flow{{Name: "Bench", Steps: steps}}, workflow.Options{
		Attempts: 100, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		b.Fatal(err)
	}
	runs := b.N/10 + 1
	ended.Add(runs)
	for i := range runs {
		if _, err := engine.Start(b.Context(), workflow.Request{Flow: "Bench", Subject: fmt.Sprintf("bench/default/%d", i), RequestID: "1"}); err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	b.ReportAllocs()
	b.ResetTimer()
	go func() { done <- engine.Serve(ctx) }()
	ended.Wait()
	b.StopTimer()
	cancel()
	<-done
}
