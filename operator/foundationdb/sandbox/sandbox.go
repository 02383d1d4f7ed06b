// Package sandbox is a FoundationDB cluster to play with, in one process: the operator, at work in the simulated
// Kubernetes of operator/foundationdb/sim, behind as much of the Kubernetes API as kubectl and pawl ask for.
//
//	s := sandbox.New(sandbox.Options{Speed: 10})
//	err := s.Apply(ctx, sandbox.Example)          // creates the objects of a manifest
//	go s.Run(ctx)                                 // lets time pass
//	err = http.Serve(listener, s.Handler())       // pawl --kubeconfig … get fdb
//
//	kubectl, pawl ── HTTP ── Handler ─┐
//	        time ──────────── Run ────┼── lock ── sim.World
//	    clusters, backups, restores ──┘
//
// The operator is the real one, with its default limits; only Kubernetes and the database are simulated. The clock is
// that of the world, which is Speed times as fast as ours: each answer has it in its header Date. Nothing is stored:
// the world ends with the process.
//
// What the API is not: it has no schemas and no admission (the operator refuses a wrong spec in its status), no rights,
// no server-side apply, and one database, so that it takes one FoundationDBCluster.
package sandbox

import (
	"context"
	_ "embed"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/control"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/operator/foundationdb/backups"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/operator/foundationdb/restores"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// Namespace is that of objects that name none.
const Namespace = "default"

// Example is the manifest of examples/foundationdb/cluster.yaml.
//
//go:embed example.yaml
var Example []byte

// Options say how the world is. Zero fields have the default that stands beside them.
type Options struct {
	Seed  uint64    // everything random comes from it: 1
	Start time.Time // of the clock: now
	Nodes int       // over which pods are spread: 12, in three zones
	Speed float64   // seconds of the world in one of ours: 1
	Log   *slog.Logger
}

// Sandbox is a world with its operator.
type Sandbox struct {
	speed float64
	log   *slog.Logger

	mu         sync.Mutex // for all below: a world is for one goroutine
	world      *sim.World
	person     port.Objects // what kubectl and pawl do is not the operator's doing
	operators  map[string]reconciler
	work       map[control.Ref]*schedule
	history    journal
	database   string            // the cluster that the database belongs to; empty: none yet
	undo       map[string]func() // of faults that last, by name
	violations int               // that were told
	changed    chan struct{}     // closed when an object has changed
}

// New returns a world with nodes and nothing else.
func New(o Options) *Sandbox {
	if o.Seed == 0 {
		o.Seed = 1
	}
	if o.Start.IsZero() {
		o.Start = time.Now()
	}
	if o.Nodes == 0 {
		o.Nodes = 12
	}
	if o.Speed <= 0 {
		o.Speed = 1
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	w := sim.New(sim.Options{Seed: o.Seed, Nodes: o.Nodes, Database: fdbsim.Options{Start: o.Start.UTC().Truncate(time.Second)}})
	s := &Sandbox{
		speed: o.Speed, log: o.Log, world: w, person: w.As("").Objects, work: map[control.Ref]*schedule{},
		undo: map[string]func(){}, changed: make(chan struct{}),
	}
	s.operators = map[string]reconciler{
		clusterKind: clusters.New(w.Objects(), w.Database(), w.Sidecars(), clusters.Options{Now: w.Now, Parallel: 1}),
		backupKind:  backups.New(w.Objects(), w.Database(), backups.Options{Now: w.Now}),
		restoreKind: restores.New(w.Objects(), w.Database(), restores.Options{Now: w.Now}),
	}
	w.Watch(s.hear)
	return s
}

// tick is how often time passes. A pause of the process is not made up for.
const (
	tick      = 50 * time.Millisecond
	mostTicks = 5
)

// Run lets time pass until ctx ends.
func (s *Sandbox) Run(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var due time.Duration // below 0: calls of the operator took the world ahead
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			due += time.Duration(float64(min(now.Sub(last), mostTicks*tick)) * s.speed)
			last = now
		}
		for due > 0 && ctx.Err() == nil {
			due -= s.step(min(due, step))
		}
	}
}

// step is the longest time that passes between two looks at what the operator has to do.
const step = time.Second

// Skip lets a time pass at once, as fast as the machine can.
func (s *Sandbox) Skip(ctx context.Context, d time.Duration) error {
	for d > 0 && ctx.Err() == nil {
		d -= s.step(min(d, step))
	}
	return ctx.Err()
}

// step lets time pass and the operator work. It returns how much time has passed: calls of the operator take some.
func (s *Sandbox) step(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.world.Now()
	s.world.Advance(d)
	s.pass()
	for _, v := range s.world.Cluster().Violations()[s.violations:] {
		s.violations++
		s.log.Error("the operator has broken an invariant of the simulator: please report it", "invariant", v.String())
	}
	return s.world.Now().Sub(before)
}

// Now returns the time of the world.
func (s *Sandbox) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.world.Now()
}
