package rollout_test

import (
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// clock is an operator's: it can be put forward.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// cutOff lets no request through and breaks the watches; it returns when the operator has seen it, by
// the watches of one resource.
func cutOff(w *world, proxy *controlplane.Proxy, resource string) (back func()) {
	var refused atomic.Int32
	proxy.Intercept(func(c *controlplane.Call) controlplane.Reaction {
		if c.Resource == resource {
			refused.Add(1)
		}
		return controlplane.Reaction{Drop: true, Lose: true}
	})
	proxy.Break()
	w.until("the operator has lost the API server", func() bool { return refused.Load() >= 4 })
	return func() { proxy.Intercept(nil) }
}

// TestAPIServerAway: the API server is away for a minute in each state. No deadline counts that, the
// rollout goes on where it was, and ends as if nothing had been.
func TestAPIServerAway(t *testing.T) {
	for _, name := range sample(stages, "outage", 4) {
		s := stages[name]
		if s.end == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, proxy := proxied(t)
			c := &clock{}
			w.options.Now = c.now
			w.grace = time.Minute // the operator sees late what has fallen
			w.startBehind(proxy)
			set := map[bool]string{true: "ordered", false: "db"}[name == "verifying"]
			s.prepare(w, set, "batchDeadline: 45s\nonFailure: rollback\nrollback: {deadline: 45s}")
			back := cutOff(w, proxy, map[bool]string{true: "rollouts", false: "pods"}[name == "parked" || name == "verifying" || name == "initializing"])
			c.ahead.Add(int64(time.Minute))
			back()
			w.see(set)
			if r := w.now(set); r.Status.Pause != nil || r.Status.Rollback != nil && name != "rollingBack" {
				t.Errorf("it was charged for the outage: %+v, %+v", r.Status.Pause, r.Status.Rollback)
			}
			s.goOn(w, set)
			w.is(set, s.end, metav1.ConditionTrue)
			if r := w.now(set); r.Status.Pause != nil || r.Status.Rollback != nil && name != "rollingBack" {
				t.Errorf("it was charged for the outage: %+v, %+v", r.Status.Pause, r.Status.Rollback)
			}
		})
	}
}
