package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Options of a world. The zero Options are three nodes, in which everything
// happens at once.
type Options struct {
	Seed uint64
	Now  func() time.Time // nil: time.Now
	// Sleep lets a call take its time. nil: a timer, and the end of the context.
	Sleep func(ctx context.Context, d time.Duration) error

	Nodes    []port.Node // empty: node-1, node-2, node-3
	PerNode  int         // most instances on a node; 0: no limit
	Versions []string    // of engines; empty: any
	// Shared says that data live on the volume, so that new instances find them.
	// Otherwise they go with their instance.
	Shared bool
	// RestartFor names parameters that need a restart. empty: max_connections, shared_buffers.
	RestartFor []string

	Latency time.Duration // of each call: half before its effect, half behind
	Times   Times
	Grant   time.Duration // how long an instance that is cut off goes on writing; 0: 10 s
	Misses  time.Duration // how long a writer is missed before failover; 0: 5 s

	Script []Rule
	// Around is called before and after every call, on the caller's goroutine.
	// Its error is the call's answer: before, there is no effect; after, there was one.
	Around func(call Call, when When) error
	Log    int // most calls kept, the newest; 0: 20000, negative: none
}

// Times say how long things take. Zero: the answer of the call is the end.
type Times struct {
	Volume  time.Duration // to be made
	Grow    time.Duration
	Clone   time.Duration
	Create  time.Duration // of an instance, until its agent answers
	Remove  time.Duration
	Install time.Duration
	Start   time.Duration
	Stop    time.Duration
	Promote time.Duration
	CatchUp time.Duration // of a follower after it began to stream
	Manager time.Duration // to be made
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
