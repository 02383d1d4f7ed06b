package rollouttest

import (
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// Disturbances are faults of the way to the API server.
var Disturbances = map[string]func(w *World, proxy *controlplane.Proxy){
	"lagging watches": func(w *World, proxy *controlplane.Proxy) {
		lag := map[bool]time.Duration{true: 10 * time.Second, false: 2 * time.Second}[AllPoints()]
		w.Witness.Grace += lag
		proxy.Lag(lag)
	},
	"watches that stop": func(w *World, proxy *controlplane.Proxy) {
		w.Witness.Grace = time.Minute
		over, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for stopped := true; ; stopped = !stopped {
				proxy.Freeze(stopped)
				select {
				case <-over:
					proxy.Freeze(false)
					return
				case <-time.After(map[bool]time.Duration{true: 3 * time.Second, false: 2 * time.Second}[stopped]):
				}
			}
		}()
		w.Cleanup(func() { close(over); <-ended })
	},
	"a cache before its own write": func(w *World, proxy *controlplane.Proxy) {
		w.Witness.Grace += 3 * time.Second
		proxy.Intercept(func(c *controlplane.Call) controlplane.Reaction {
			if !c.Writes() || c.Resource == "events" {
				return controlplane.Reaction{}
			}
			return controlplane.Reaction{After: func(int) {
				proxy.Freeze(true)
				time.AfterFunc(1500*time.Millisecond, func() { proxy.Freeze(false) })
			}}
		})
	},
	"lost answers": func(_ *World, proxy *controlplane.Proxy) {
		n := 0
		proxy.Intercept(func(c *controlplane.Call) controlplane.Reaction {
			if !c.Writes() || c.Resource == "events" {
				return controlplane.Reaction{}
			}
			n++
			return controlplane.Reaction{Lose: n%3 == 0, Drop: n%6 == 0}
		})
	},
	"outages": func(w *World, proxy *controlplane.Proxy) {
		began := time.Now()
		proxy.Intercept(func(*controlplane.Call) controlplane.Reaction {
			away := time.Since(began).Milliseconds()%2000 >= 1400 // 0.6 s of each two
			return controlplane.Reaction{Lose: away, Drop: away}
		})
		w.Cleanup(func() { proxy.Intercept(nil) })
	},
}

// Clock is an operator's: it can be put forward.
type Clock struct{ ahead atomic.Int64 }

// Now is the time of the operator.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Forward puts the clock forward.
func (c *Clock) Forward(d time.Duration) { c.ahead.Add(int64(d)) }

// CutOff lets no request through and breaks the watches; it returns when the operator has seen it, by
// the watches of one resource.
func (w *World) CutOff(proxy *controlplane.Proxy, resource string) (back func()) {
	w.Helper()
	var refused atomic.Int32
	proxy.Intercept(func(c *controlplane.Call) controlplane.Reaction {
		if c.Resource == resource {
			refused.Add(1)
		}
		return controlplane.Reaction{Drop: true, Lose: true}
	})
	proxy.Break()
	w.Until("the operator has lost the API server", func() bool { return refused.Load() >= 4 })
	return func() { proxy.Intercept(nil) }
}
