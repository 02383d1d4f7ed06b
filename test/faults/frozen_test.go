package faults_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// elected is for operators of which one works, the leader.
func elected(lease time.Duration) []string {
	return append([]string{"--lease", lease.String()}, patient...)
}

// freezeAt stops the process at its first write that a function chooses: the
// request is on its way, and arrives when thaw is called and the process goes on.
func (o *operator) freezeAt(chosen func(*controlplane.Call) bool) (frozen chan *controlplane.Call, thaw func()) {
	frozen, thawed := make(chan *controlplane.Call, 1), make(chan struct{})
	once := false
	o.proxy.Meet(func(c *controlplane.Call) controlplane.Act {
		if once || !flow(c) || !chosen(c) {
			return controlplane.Act{}
		}
		once = true
		return controlplane.Act{
			Before: func() {
				o.signal(syscall.SIGSTOP)
				frozen <- c
				<-thawed
			},
			After: func(int) {}, // it reaches the API server whatever becomes of the process
		}
	})
	thaw = sync.OnceFunc(func() {
		o.proxy.Meet(nil)
		close(thawed)
		o.signal(syscall.SIGCONT)
	})
	o.w.t.Cleanup(thaw)
	return frozen, thaw
}

func writes(verb, resource, name string) func(*controlplane.Call) bool {
	return func(c *controlplane.Call) bool {
		return c.Verb == verb && c.Resource == resource && strings.HasPrefix(c.Name, name)
	}
}

// Of two operators one works. It is frozen in the middle of a write, for longer
// than its lease; the other one does the rest. When the first goes on its write
// arrives and all that it remembers is old: nothing is done twice.
func TestFrozenForLongerThanItsLease(t *testing.T) {
	t.Parallel()
	want := reference(t)
	w := newWorld(t)
	a, b := w.operator(elected(6*time.Second)...), w.operator(elected(6*time.Second)...)
	a.keep()
	w.await(patience, "the first one leads", func(context.Context) error { return leads(a) })
	b.keep()

	frozen, thaw := a.freezeAt(writes("create", "pods", ""))
	w.create()
	w.frozen(frozen)
	w.becomes(want.created)
	w.thawed(a, thaw)
	w.becomes(want.created)
	w.unharmed(want.epoch, 2)

	// The writer is switched, and back again while the one who began is frozen.
	moments := []struct {
		what   string
		chosen func(*controlplane.Call) bool
	}{
		{"the grant", writes("update", "leases", blue+"-grant")},
		{"the new role of a pod", writes("patch", "pods", "")},
		{"a step", func(c *controlplane.Call) bool {
			return c.Resource == "runs" && c.Sub == "status" && strings.Contains(string(c.Body), "PromoteCandidate")
		}},
	}
	if !everyPoint {
		moments = moments[:2]
	}
	for i, m := range moments {
		leader, other := a, b
		if leads(b) == nil {
			leader, other = b, a
		}
		w.await(patience, "one leads and the other does not", func(context.Context) error {
			if leads(other) == nil {
				leader, other = other, leader
			}
			return leads(leader)
		})
		w.forgetRuns()
		frozen, thaw := leader.freezeAt(m.chosen)
		id := w.switchWriter()
		w.frozen(frozen)
		w.rests(written(id))
		w.becomes(want.switched)
		w.forgetRuns()
		back := w.switchWriter()
		w.rests(written(back))
		w.becomes(want.switched)
		w.thawed(leader, thaw)
		w.becomes(want.switched)
		w.rests(written(back))
		w.unharmed(want.epoch+int64(2*(i+1)), 2)
		t.Logf("frozen as it wrote %s: switched twice by the other one", m.what)
	}
}

// leads holds when the newest write of the leader's lease was an operator's.
func leads(o *operator) error {
	var newest time.Time
	by := (*operator)(nil)
	for _, one := range o.w.operators {
		for _, c := range one.proxy.Calls() {
			leader := c.Resource == "leases" && (c.Name == "pawl-operator" || strings.Contains(string(c.Body), `"pawl-operator"`))
			if leader && c.Writes() && c.Code/100 == 2 && c.At.After(newest) {
				newest, by = c.At, one
			}
		}
	}
	if by != o {
		return fmt.Errorf("it does not lead")
	}
	return nil
}

// frozen waits until the operator stands still.
func (w *world) frozen(at chan *controlplane.Call) {
	w.t.Helper()
	select {
	case c := <-at:
		w.t.Logf("frozen as it asks for: %s", c)
	case <-time.After(patience):
		w.t.Fatal("the operator was not frozen")
	}
}

// thawed lets a frozen operator go on. It ends, as it has lost its lease, and
// comes back as the one who waits. Until then it may tell what it sees in the
// status of the cluster, by compare-and-set; nothing else that it asks for is
// carried out, but what was on its way.
func (w *world) thawed(o *operator, thaw func()) {
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
		if flow(&c) && c.At.Before(again) && c.Code/100 == 2 && c.Resource != "sharedstorageclusters" {
			w.t.Errorf("after it had lost its lease it wrote: %s", c)
		}
	}
}
