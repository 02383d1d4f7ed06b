package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Options of a simulation. The zero Options are three nodes on which everything happens at once.
type Options struct {
	Seed uint64
	Now  func() time.Time // nil: time.Now
	// Sleep lets the time of a call pass. nil: it waits for a timer, or the end of the context.
	Sleep func(ctx context.Context, d time.Duration) error

	Nodes    []port.Node // empty: node-1, node-2, node-3
	PerNode  int         // limit of instances on a node; 0: none
	Versions []string    // versions of the engine; empty: any
	// Shared makes the mode of the volume port.Shared instead of port.Copies.
	Shared bool
	// RestartFor lists the parameters that need a restart. Default: max_connections,
	// shared_buffers.
	RestartFor []string

	Latency time.Duration // of each call: half of it before its effect, half after
	Times   Times
	Grant   time.Duration // how long an instance that is cut off continues to write; default 10 s
	Misses  time.Duration // how long a writer must be missing before a failover; default 5 s

	Script []Rule
	// Around is called before and after every call, on the caller's goroutine. Its error becomes
	// the answer of the call; the call has its effect only if the error comes after it.
	Around func(call Call, when When) error
	Log    int // number of calls that the log keeps; default 20000, negative: none
}

// Times are how long things take. Zero: they are done when the call returns.
type Times struct {
	Volume  time.Duration // creation of the volume
	Grow    time.Duration
	Clone   time.Duration
	Create  time.Duration // creation of an instance, until its agent answers
	Remove  time.Duration
	Install time.Duration
	Start   time.Duration
	Stop    time.Duration
	Promote time.Duration
	CatchUp time.Duration // of a follower, after it has begun to stream
	Manager time.Duration // creation of the manager
}

func (o *Options) fill() {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if len(o.Nodes) == 0 {
		for i := range 3 {
			o.Nodes = append(o.Nodes, port.Node{Name: fmt.Sprintf("node-%d", i+1), Ready: true, Schedulable: true})
		}
	}
	if len(o.RestartFor) == 0 {
		o.RestartFor = []string{"max_connections", "shared_buffers"}
	}
	if o.Grant == 0 {
		o.Grant = 10 * time.Second
	}
	if o.Misses == 0 {
		o.Misses = 5 * time.Second
	}
	if o.Log == 0 {
		o.Log = 20_000
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

func (w *Simulation) mode() port.Mode {
	if w.o.Shared {
		return port.Shared
	}
	return port.Copies
}
