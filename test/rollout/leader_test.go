package rollout_test

import (
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// frozen is a process that stands still from one of its writes on: the requests that it has sent wait
// in the network, and arrive when it goes on.
type frozen struct {
	at     int // the write, counted from 1
	writes int
	stands chan struct{} // closed when it stands still
	thaw   chan struct{}
	late   atomic.Int32 // requests that arrived late
	done   atomic.Int32 // of them, answered with success, leases aside
}

func (f *frozen) rule(c *controlplane.Call) controlplane.Reaction {
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

// TestFrozenLeader: a leader stands still in the middle of a write, for longer than its lease. Another
// process takes over and does the work; then the first goes on, and what it had sent arrives. The end
// is the same, and each pod is made as often.
func TestFrozenLeader(t *testing.T) {
	for _, name := range []string{"rollout", "deletion that rolls back", "rollback"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			writes := map[string]int{"rollout": 24, "rollback": 20, "deletion that rolls back": 24}[name]
			all := slices.DeleteFunc(points(writes, "frozen "+name), func(p point) bool { return p.after })
			if len(all) == 0 { // a sample of one
				all = []point{{at: writes / 2}}
			}
			if os.Getenv("PAWL_TEST_POINTS") == "" {
				all = all[:1]
			}
			for _, p := range all {
				t.Run(fmt.Sprint(p.at), func(t *testing.T) { thawed(t, lives[name], p.at) })
			}
		})
	}
}

func thawed(t *testing.T, l life, at int) {
	w := newQuietWorld(t)
	w.elects = true
	proxy, err := w.plane.NewProxyAs(w.config)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", proxy.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	f := &frozen{at: at, stands: make(chan struct{}), thaw: make(chan struct{})}
	proxy.Intercept(f.rule)
	made := w.countPods()
	l.begin(w)
	w.start(config)
	lived := make(chan struct{})
	go func() {
		select {
		case <-f.stands:
			w.crashing.Store(true) // the first ends with the loss of its lease
			w.start(w.config)
		case <-lived:
		}
	}()
	l.live(w)
	close(lived)
	select {
	case <-f.stands:
	default:
		t.Skipf("the life had fewer than %d writes", at)
	}
	close(f.thaw)
	w.until("the late requests have arrived", func() bool { return f.late.Load() > 0 })
	l.check(w)
	if got := made(); l.moved != nil && fmt.Sprint(got) != fmt.Sprint(l.moved) {
		t.Errorf("pods were made %v, expected %v", got, l.moved)
	}
	if n := f.done.Load(); n > 0 {
		t.Errorf("%d late writes were taken", n)
	}
	w.meanings()
}
