package storetest

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// testAwait: Await returns soon after the end of a run that another engine executes, before any
// poll for lost wake-ups.
//
// It covers finding 13.
func testAwait(t *testing.T, h Harness) {
	x := open(t, h)
	x.claimer()
	goOn := make(chan struct{})
	flows := []workflow.Flow{{Name: "Awaited", Steps: []workflow.Step{{Name: "S", Do: func(ctx context.Context, _ *workflow.Task) outcome.Outcome {
		select {
		case <-goOn:
			return outcome.Done()
		case <-ctx.Done():
			return outcome.Fail(context.Cause(ctx))
		}
	}}}}}
	var engines [2]*workflow.Engine
	for i := range engines {
		var err error
		if engines[i], err = workflow.New(x.Store, flows, workflow.Options{PollInterval: time.Hour, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- engines[0].Serve(ctx) }()
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	run, err := engines[0].Start(ctx, workflow.Request{Flow: "Awaited", Subject: newRun("").Subject})
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(300*time.Millisecond, func() { close(goOn) })
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	got, err := engines[1].Await(bounded, run.ID)
	if err != nil || got.Phase != runtype.Succeeded {
		t.Fatalf("%s: %v", got.Phase, err)
	}
}
