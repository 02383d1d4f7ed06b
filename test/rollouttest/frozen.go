package rollouttest

import (
	"sync"
	"sync/atomic"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// Frozen is a process that stands still from one of its writes on: the requests that it has sent wait
// in the network, and arrive when it goes on.
type Frozen struct {
	w      *World
	at     int
	writes int
	stands chan struct{} // closed when it stands still
	thaw   chan struct{}
	end    func()       // of the watch for it, and of its sleep
	late   atomic.Int32 // requests that arrived late
	done   atomic.Int32 // of them, answered with success, leases aside
}

// StartFrozen starts a leader that freezes at a write, counted from 1, and another process that takes
// its lease then.
func (w *World) StartFrozen(at int) *Frozen {
	w.Helper()
	w.Elects = true
	proxy, config := w.Proxy()
	f := &Frozen{w: w, at: at, stands: make(chan struct{}), thaw: make(chan struct{})}
	lived, ended := make(chan struct{}), make(chan struct{})
	proxy.Intercept(f.rule)
	w.Start(config)
	go func() {
		defer close(ended)
		select {
		case <-f.stands:
			w.Crashing.Store(true) // the first ends with the loss of its lease
			w.Start(w.Config)
		case <-lived:
		}
	}()
	f.end = sync.OnceFunc(func() {
		close(lived)
		<-ended
		close(f.thaw)
	})
	w.Cleanup(f.end)
	return f
}

func (f *Frozen) rule(c *controlplane.Call) controlplane.Reaction {
	if c.Verb == "watch" {
		return controlplane.Reaction{}
	}
	if c.Writes() && c.Resource != "events" && c.Resource != "leases" {
		if f.writes++; f.writes == f.at {
			close(f.stands)
		}
	}
	if f.writes < f.at {
		return controlplane.Reaction{}
	}
	what := *c
	return controlplane.Reaction{
		Before: func() { <-f.thaw },
		After: func(code int) {
			f.late.Add(1)
			if code < 300 && what.Writes() && what.Resource != "leases" && what.Resource != "events" {
				f.done.Add(1)
			}
		},
	}
}

// Thaw lets the first process go on, after the life: what it had sent arrives.
func (f *Frozen) Thaw() {
	f.w.Helper()
	select {
	case <-f.stands:
	default:
		f.end()
		f.w.Skipf("the life had fewer than %d writes", f.at)
	}
	f.end()
	f.w.Until("the late requests have arrived", func() bool { return f.late.Load() > 0 })
}

// Taken is how many late writes were accepted.
func (f *Frozen) Taken() int { return int(f.done.Load()) }
