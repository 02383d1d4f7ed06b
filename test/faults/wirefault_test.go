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

// The wire faults.
var (
	conflict = wireFault{"conflict", true, &metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: "the object has been modified (injected)"}, 0}
	tooMany  = wireFault{"429", true, &metav1.Status{Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: "too many requests (injected)",
		Details: &metav1.StatusDetails{RetryAfterSeconds: 1}}, 0}
	refusal    = wireFault{"500", true, &metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "refused (injected)"}, 0}
	broken     = wireFault{"500, carried out", false, &metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "broken (injected)"}, 0}
	answerLate = wireFault{"time-out, carried out", false, &metav1.Status{Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout, Message: "too late (injected)"}, 2 * time.Second}
	timeout    = wireFault{"time-out", true, &metav1.Status{Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout, Message: "too late (injected)"}, 2 * time.Second}
	cut        = wireFault{"cut", true, nil, 0}
	lost       = wireFault{"lost answer", false, nil, 0}

	wireFaults = []wireFault{conflict, tooMany, refusal, broken, answerLate, timeout, cut, lost}
)

// wireFault is a fault of a request: dropped or carried out, and the answer.
type wireFault struct {
	name   string
	drop   bool
	answer *metav1.Status // nil: the connection breaks
	after  time.Duration
}

// reaction returns the reaction to a request; false if the fault cannot happen to it.
func (x wireFault) reaction(c *controlplane.Call) (controlplane.Reaction, bool) {
	if x.name == conflict.name && (!c.Writes() || c.Verb == "create" || !bytes.Contains(c.Body, []byte("resourceVersion"))) {
		return controlplane.Reaction{}, false // without a resource version there is no conflict
	}
	if c.Verb == "watch" && !x.drop {
		return controlplane.Reaction{}, false // it would never end
	}
	act := controlplane.Reaction{Drop: x.drop, Lose: !x.drop && x.answer == nil}
	if x.answer != nil {
		act.Answer = x.answer.DeepCopy()
	}
	if x.after > 0 {
		act.Before = func() { time.Sleep(x.after) }
	}
	return act, true
}

// One request in ten fails, in all possible ways, the leader's lease and watches included.
// The cluster is created and switched as usual.
func TestOneRequestInTenFails(t *testing.T) {
	t.Parallel()
	want := undisturbedBaseline(t)
	w := newFixture(t)
	o := w.operator(elected(15 * time.Second)...)
	o.keep()
	dice := rand.New(rand.NewPCG(1, 2))
	met := map[string]int{}
	asked, left := 0, slices.Clone(wireFaults)
	o.proxy.Intercept(func(c *controlplane.Call) controlplane.Reaction {
		asked++
		if dice.IntN(10) > 0 {
			return controlplane.Reaction{}
		}
		// Each fault in turn, so that all occur.
		slices.SortStableFunc(left, func(a, b wireFault) int { return met[a.name] - met[b.name] })
		for _, x := range left {
			if act, ok := x.reaction(c); ok {
				met[x.name]++
				return act
			}
		}
		return controlplane.Reaction{}
	})
	w.create()
	w.awaitAtRest(nil)
	w.awaitSnapshot(want.created)
	w.ignoreRuns()
	began := time.Now()
	id := w.switchWriter()
	w.awaitAtRest(writerIs(id))
	took := time.Since(began)
	w.awaitSnapshot(want.switched)
	o.proxy.Intercept(nil)
	w.checkInvariants(want.epoch+1, 2)
	failed := 0
	for _, x := range wireFaults {
		if met[x.name] == 0 {
			t.Errorf("no request met %s", x.name)
		}
		failed += met[x.name]
	}
	t.Logf("%d of %d requests failed: %v; switched in %s; the operator was started %d times", failed, asked, met, took.Round(100*time.Millisecond), o.started())
}

// Watches are seconds late, and for a while silent, while other requests are answered:
// nothing is created twice.
func TestCachesAreOld(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	t.Parallel()
	want := undisturbedBaseline(t)
	w := newFixture(t)
	o := w.operator(alone(15 * time.Second)...)
	o.proxy.Lag(1500 * time.Millisecond)
	o.start()
	w.create()
	w.awaitAtRest(nil)
	w.awaitSnapshot(want.created)
	w.checkInvariants(want.epoch, 2)

	w.ignoreRuns()
	id := w.switchWriter()
	w.awaitAtRest(writerIs(id))
	w.awaitSnapshot(want.switched)
	w.checkInvariants(want.epoch+1, 2)

	// The caches freeze at the beginning of the switch.
	o.proxy.Lag(0)
	quiet(o, 2*time.Second)
	w.ignoreRuns()
	begun := make(chan struct{})
	once := false
	o.proxy.Intercept(func(c *controlplane.Call) controlplane.Reaction {
		if !once && c.Verb == "create" && c.Resource == "runs" {
			once = true
			close(begun)
		}
		return controlplane.Reaction{}
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
	w.awaitAtRest(writerIs(id))
	w.awaitSnapshot(want.switched)
	w.checkInvariants(want.epoch+2, 2)
}

// The API server crashes in the middle of a create and of a switch of the writer, and
// restarts.
func TestAPIServerRestarted(t *testing.T) {
	want := undisturbedBaseline(t)
	w := newFixture(t)
	o := w.operator(elected(15 * time.Second)...)
	o.keep()
	restart := func(n int, do func()) {
		t.Helper()
		reached := make(chan struct{})
		count := 0
		o.proxy.Intercept(func(c *controlplane.Call) controlplane.Reaction {
			if flow(c) {
				if count++; count == n {
					close(reached)
				}
			}
			return controlplane.Reaction{}
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
	w.awaitAtRest(nil)
	w.awaitSnapshot(want.created)
	w.checkInvariants(want.epoch, 2)
	w.ignoreRuns()
	id := ""
	restart(want.switchWrites/2, func() { id = w.switchWriter() })
	w.awaitAtRest(writerIs(id))
	w.awaitSnapshot(want.switched)
	w.checkInvariants(want.epoch+1, 2)
	t.Logf("the API server was restarted twice; the operator was started %d times", o.started())
}
