package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// passes counts the passes of an operator.
type passes struct{ n atomic.Int64 }

func (p *passes) Request(string, string) {}
func (p *passes) Pass(time.Duration)     { p.n.Add(1) }

// Edits of parameters and of durability reach real engines, also those that need a restart, raised
// and lowered. Each edit is one run, and then the cluster is at rest.
func TestParametersOfACluster(t *testing.T) {
	var flushes atomic.Int64
	looks := &passes{}
	ctx, b, objects := served(t, func(o *sharedstorage.Options, _ *Placement) {
		o.Metrics = looks
		o.Moved = func(_ control.Ref, m machine.Move) {
			if m.Cause == machine.ByEvent && m.To.State == sharedstorage.ModifyingParameters {
				flushes.Add(1)
			}
		}
	})
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
			c, err := ClusterStore{Objects: objects, Placement: b.Placement}.Of(now)
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
			b.must(session(ctx, b.Placement, cluster.Of(i.Name), func(ctx context.Context, c *pgx.Conn) error {
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
