package local

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// served is an operator at work on objects in memory, with real engines below it. It ends before the
// placement that its engines stand on.
func served(t *testing.T, edit func(o *sharedstorage.Options, s *Placement)) (context.Context, *fixture, control.Objects) {
	t.Helper()
	s := open(t, Options{})
	objects := Admit(control.NewMemory())
	o := sharedstorage.Options{Store: ClusterStore{Objects: objects, Placement: s}, Ports: s.Ports(), Logger: slog.New(slog.DiscardHandler),
		IdleInterval: 200 * time.Millisecond, RunInterval: 200 * time.Millisecond, RetryInterval: 200 * time.Millisecond}
	if edit != nil {
		edit(&o, s)
	}
	op, err := sharedstorage.New(o)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := op.Engine(runstore.NewMemory(), workflow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() { _ = engine.Serve(ctx) })
	serving.Go(func() {
		_ = Controller{Operator: op, Objects: objects, Touch: engine.Touch, Log: slog.New(slog.DiscardHandler)}.Serve(ctx)
	})
	t.Cleanup(func() { cancel(); serving.Wait() })
	return ctx, &fixture{Placement: s, t: t, ports: s.Ports()}, objects
}
