package faults_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// elected returns the arguments for operators with leader election.
func elected(lease time.Duration) []string {
	return append([]string{"--lease", lease.String()}, patient...)
}

// freeze stops the first operator that sends a chosen request. The request reaches the API
// server when thaw is called and the process continues.
func (w *fixture) freeze(chosen func(*controlplane.Call) bool) (frozen chan *operator, thaw func()) {
	frozen, thawed := make(chan *operator, 1), make(chan struct{})
	var first atomic.Pointer[operator]
	for _, o := range w.operators {
		o.proxy.Intercept(func(c *controlplane.Call) controlplane.Reaction {
			if !flow(c) || !chosen(c) || !first.CompareAndSwap(nil, o) {
				return controlplane.Reaction{}
			}
			return controlplane.Reaction{
				Before: func() {
					o.signal(syscall.SIGSTOP)
					w.t.Logf("frozen as it asks for: %s", c)
					frozen <- o
					<-thawed
				},
				After: func(int) {}, // the request reaches the API server in any case
			}
		})
	}
	thaw = sync.OnceFunc(func() {
		for _, o := range w.operators {
			o.proxy.Intercept(nil)
		}
		close(thawed)
		if o := first.Load(); o != nil {
			o.signal(syscall.SIGCONT)
		}
	})
	w.t.Cleanup(thaw)
	return frozen, thaw
}

func writes(verb, resource, name string) func(*controlplane.Call) bool {
	return func(c *controlplane.Call) bool {
		return c.Verb == verb && c.Resource == resource && strings.HasPrefix(c.Name, name)
	}
}

// Of two operators one is the leader. It is frozen in the middle of a write for longer
// than its lease; the other one continues. When the first one continues, its write arrives
// and its state is outdated: nothing is done twice.
func TestFrozenForLongerThanItsLease(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	t.Parallel()
	want := undisturbedBaseline(t)
	w := newFixture(t)
	for range 2 {
		w.operator(elected(6 * time.Second)...).keep()
	}

	frozen, thaw := w.freeze(writes("create", "pods", ""))
	w.create()
	o := w.awaitFrozen(frozen)
	w.awaitSnapshot(want.created)
	w.resumeAndCheck(o, thaw)
	w.awaitSnapshot(want.created)
	w.checkInvariants(want.epoch, 2)

	// The writer is switched, and switched back while the first operator is frozen.
	moments := []struct {
		what   string
		chosen func(*controlplane.Call) bool
	}{
		{"the grant", writes("update", "leases", clusterName+"-grant")},
		{"the new role of a pod", writes("patch", "pods", "")},
		{"a step", func(c *controlplane.Call) bool {
			return c.Resource == "runs" && c.Sub == "status" && strings.Contains(string(c.Body), "PromoteCandidate")
		}},
	}
	if !everyPoint {
		moments = moments[:2]
	}
	for i, m := range moments {
		w.ignoreRuns()
		frozen, thaw := w.freeze(m.chosen)
		id := w.switchWriter()
		o := w.awaitFrozen(frozen)
		w.awaitAtRest(writerIs(id))
		w.awaitSnapshot(want.switched)
		w.checkStepsOnce()
		w.ignoreRuns()
		back := w.switchWriter()
		w.awaitAtRest(writerIs(back))
		w.awaitSnapshot(want.switched)
		w.resumeAndCheck(o, thaw)
		w.awaitSnapshot(want.switched)
		w.awaitAtRest(writerIs(back))
		w.checkInvariants(want.epoch+int64(2*(i+1)), 2)
		t.Logf("frozen as it wrote %s: switched twice by the other one", m.what)
	}
}

// awaitFrozen waits until an operator is frozen, and returns it.
func (w *fixture) awaitFrozen(at chan *operator) *operator {
	w.t.Helper()
	select {
	case o := <-at:
		return o
	case <-time.After(patience):
		w.t.Fatal("no operator was frozen")
		return nil
	}
}

// resumeAndCheck resumes a frozen operator. It ends because it has lost its lease, and
// restarts as the standby. None of its requests is carried out except the frozen one.
func (w *fixture) resumeAndCheck(o *operator, thaw func()) {
	w.t.Helper()
	before, starts := len(o.proxy.Calls()), o.started()
	thaw()
	w.await(patience, "the one who was frozen gives way", func(context.Context) error {
		if o.started() == starts {
			return fmt.Errorf("it has not ended")
		}
		return nil
	})
	o.mu.Lock()
	again := o.since
	o.mu.Unlock()
	for _, c := range o.proxy.Calls()[before:] {
		if flow(&c) && c.At.Before(again) && c.Code/100 == 2 {
			w.t.Errorf("after it had lost its lease it wrote: %s", c)
		}
	}
}
