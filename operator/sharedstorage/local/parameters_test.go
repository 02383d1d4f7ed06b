package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// passes counts the passes of an operator.
type passes struct{ n atomic.Int64 }

func (p *passes) Request(string, string) {}
func (p *passes) Pass(time.Duration)     { p.n.Add(1) }

// Edits of parameters and of durability reach real engines, also those that need a restart, raised
// and lowered. Each edit is one run, and then the cluster is at rest.
func TestParametersOfACluster(t *testing.T) {
	s := open(t, Options{})
	objects := Admit(control.NewMemory())
	var flushes atomic.Int64
	looks := &passes{}
	op, err := sharedstorage.New(sharedstorage.Options{Store: ClusterStore{Objects: objects, Placement: s}, Ports: s.Ports(), Logger: slog.New(slog.DiscardHandler),
		IdleInterval: 200 * time.Millisecond, RunInterval: 200 * time.Millisecond, Metrics: looks,
		Moved: func(_ control.Ref, m machine.Move) {
			if m.Cause == machine.ByEvent && m.To.State == sharedstorage.ModifyingParameters {
				flushes.Add(1)
			}
		}})
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
	defer func() { cancel(); serving.Wait() }()

	b := &fixture{Placement: s, t: t, ports: s.Ports()}
	cluster := port.Ref{Namespace: blue.Namespace, Name: blue.Name}
	params := map[string]string{}
	want := func(durability string) {
		t.Helper()
		spec, err := json.Marshal(map[string]any{"readers": 1, "storage": map[string]any{"size": "1Gi"}, "durability": durability, "parameters": params})
		b.must(err)
		o, err := objects.Apply(ctx, control.Object{Ref: blue, Spec: spec})
		b.must(err)
		all := sharedstorage.DefaultClasses()["small"].Parameters
		for name, value := range params {
			all[name] = value
		}
		eventually(t, 3*time.Minute, "the cluster is at rest", func() error {
			now, err := objects.Get(ctx, blue)
			if err != nil {
				return err
			}
			c, err := ClusterStore{Objects: objects, Placement: s}.Of(now)
			if err == nil && (c.Status.State != "Running" || c.Status.ObservedGeneration < o.Generation || c.Status.ParametersHash != port.Hash(all)) {
				err = fmt.Errorf("%s %s: %s", c.Status.State, c.Status.Message, now.Status)
			}
			if err != nil {
				return err
			}
			top, err := b.ports.Manager.Topology(ctx, cluster)
			if err == nil && top.Durability != durability {
				err = errors.New(top.Durability)
			}
			return err
		})
	}
	// runs checks their number, and that there is no further one at rest.
	runs := func(n int64) {
		t.Helper()
		from := looks.n.Load()
		eventually(t, time.Minute, "some looks", func() error {
			if looks.n.Load() < from+5 {
				return errors.New("too few")
			}
			return nil
		})
		if got := flushes.Load(); got != n {
			t.Errorf("%d runs, want %d", got, n)
		}
	}
	shown := func(kind port.Type, name, value string) {
		t.Helper()
		all, err := b.ports.Instances.List(ctx, cluster)
		b.must(err)
		for _, i := range all {
			if i.Type != kind {
				continue
			}
			var got string
			b.must(session(ctx, s, cluster.Of(i.Name), func(ctx context.Context, c *pgx.Conn) error {
				return c.QueryRow(ctx, "SHOW "+name).Scan(&got)
			}))
			if got != value {
				t.Errorf("%s of %s is %s, want %s", name, i.Name, got, value)
			}
			return
		}
		t.Errorf("there is no %s: %+v", kind, all)
	}
	want("strict")
	runs(0)
	params["work_mem"] = "8MB"
	want("strict")
	runs(1)
	shown(port.Writer, "work_mem", "8MB")
	shown(port.Reader, "work_mem", "8MB")
	params["max_connections"] = "150"
	want("available")
	runs(2)
	shown(port.Writer, "max_connections", "150")
	shown(port.Reader, "max_connections", "150")
	params["max_connections"] = "60"
	want("strict")
	runs(3)
	shown(port.Writer, "max_connections", "60")
}
