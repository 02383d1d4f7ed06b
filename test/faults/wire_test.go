package faults_test

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// The troubles of a wire.
var (
	conflict = trouble{"conflict", true, &metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: "the object has been modified (injected)"}, 0}
	tooMany  = trouble{"429", true, &metav1.Status{Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: "too many requests (injected)",
		Details: &metav1.StatusDetails{RetryAfterSeconds: 1}}, 0}
	refusal = trouble{"500", true, &metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "refused (injected)"}, 0}
	broken  = trouble{"500, carried out", false, &metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "broken (injected)"}, 0}
	late    = trouble{"time-out, carried out", false, &metav1.Status{Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout, Message: "too late (injected)"}, 2 * time.Second}
	timeout = trouble{"time-out", true, &metav1.Status{Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout, Message: "too late (injected)"}, 2 * time.Second}
	cut     = trouble{"cut", true, nil, 0}
	lost    = trouble{"lost answer", false, nil, 0}

	troubles = []trouble{conflict, tooMany, refusal, broken, late, timeout, cut, lost}
)

// trouble is what a request meets: dropped or carried out, and the answer.
type trouble struct {
	name   string
	drop   bool
	answer *metav1.Status // nil: the connection breaks
	after  time.Duration
}

// act meets a request with the trouble, where it can be one.
func (x trouble) act(c *controlplane.Call) (controlplane.Act, bool) {
	if x.name == conflict.name && (!c.Writes() || c.Verb == "create" || !bytes.Contains(c.Body, []byte("resourceVersion"))) {
		return controlplane.Act{}, false // nobody says so where no version was named
	}
	if c.Verb == "watch" && !x.drop {
		return controlplane.Act{}, false // it would never end
	}
	act := controlplane.Act{Drop: x.drop, Lose: !x.drop && x.answer == nil}
	if x.answer != nil {
		act.Answer = x.answer.DeepCopy()
	}
	if x.after > 0 {
		act.Before = func() { time.Sleep(x.after) }
	}
	return act, true
}

// One request in ten fails, in all ways in which requests fail; the leader's
// lease and watches are among them. The cluster is made and switched as ever.
func TestOneRequestInTenFails(t *testing.T) {
	t.Parallel()
	want := reference(t)
	w := newWorld(t)
	o := w.operator(elected(15 * time.Second)...)
	o.keep()
	dice := rand.New(rand.NewPCG(1, 2))
	met := map[string]int{}
	asked, left := 0, slices.Clone(troubles)
	o.proxy.Meet(func(c *controlplane.Call) controlplane.Act {
		asked++
		if dice.IntN(10) > 0 {
			return controlplane.Act{}
		}
		// Each of them in turn, so that all are met.
		slices.SortStableFunc(left, func(a, b trouble) int { return met[a.name] - met[b.name] })
		for _, x := range left {
			if act, ok := x.act(c); ok {
				met[x.name]++
				return act
			}
		}
		return controlplane.Act{}
	})
	w.create()
	w.rests(nil)
	w.becomes(want.created)
	w.forgetRuns()
	began := time.Now()
	id := w.switchWriter()
	w.rests(written(id))
	took := time.Since(began)
	w.becomes(want.switched)
	o.proxy.Meet(nil)
	w.unharmed(want.epoch+1, 2)
	failed := 0
	for _, x := range troubles {
		if met[x.name] == 0 {
			t.Errorf("no request met %s", x.name)
		}
		failed += met[x.name]
	}
	t.Logf("%d of %d requests failed: %v; switched in %s; the operator was started %d times", failed, asked, met, took.Round(100*time.Millisecond), o.started())
}

// What watches tell is seconds old, and for a while they tell nothing at all,
// while plain requests are answered: nothing is made twice.
func TestCachesAreOld(t *testing.T) {
	t.Parallel()
	want := reference(t)
	w := newWorld(t)
	o := w.operator(alone(15 * time.Second)...)
	o.proxy.Lag(1500 * time.Millisecond)
	o.start()
	w.create()
	w.rests(nil)
	w.becomes(want.created)
	w.unharmed(want.epoch, 2)

	w.forgetRuns()
	id := w.switchWriter()
	w.rests(written(id))
	w.becomes(want.switched)
	w.unharmed(want.epoch+1, 2)

	// The caches stand still from the moment in which the switch has begun.
	o.proxy.Lag(0)
	quiet(o, 2*time.Second)
	w.forgetRuns()
	begun := make(chan struct{})
	once := false
	o.proxy.Meet(func(c *controlplane.Call) controlplane.Act {
		if !once && c.Verb == "create" && c.Resource == "runs" {
			once = true
			close(begun)
		}
		return controlplane.Act{}
	})
	id = w.switchWriter()
	select {
	case <-begun:
	case <-time.After(patience):
		t.Fatal("the switch did not begin")
	}
	o.proxy.Freeze(true)
	time.Sleep(8 * time.Second)
	o.proxy.Freeze(false)
	w.rests(written(id))
	w.becomes(want.switched)
	w.unharmed(want.epoch+2, 2)
}

// The API server is gone in the middle of making a cluster and of switching the
// writer, as in a crash, and comes back.
func TestAPIServerRestarted(t *testing.T) {
	want := reference(t)
	w := newWorld(t)
	o := w.operator(elected(15 * time.Second)...)
	o.keep()
	restart := func(n int, do func()) {
		t.Helper()
		reached := make(chan struct{})
		count := 0
		o.proxy.Meet(func(c *controlplane.Call) controlplane.Act {
			if flow(c) {
				if count++; count == n {
					close(reached)
				}
			}
			return controlplane.Act{}
		})
		do()
		select {
		case <-reached:
		case <-time.After(patience):
			t.Fatalf("write %d was not reached", n)
		}
		apiRestarts.Add(1)
		if err := w.plane.RestartAPIServer(time.Second); err != nil {
			t.Fatal(err)
		}
	}
	restart(want.createWrites/2, w.create)
	w.rests(nil)
	w.becomes(want.created)
	w.unharmed(want.epoch, 2)
	w.forgetRuns()
	id := ""
	restart(want.switchWrites/2, func() { id = w.switchWriter() })
	w.rests(written(id))
	w.becomes(want.switched)
	w.unharmed(want.epoch+1, 2)
	t.Logf("the API server was restarted twice; the operator was started %d times", o.started())
}
