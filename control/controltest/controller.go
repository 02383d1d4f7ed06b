package controltest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// Setup is the configuration of a controller.
type Setup struct {
	// Reconcile is called with the names that were passed to Put.
	Reconcile  func(ctx context.Context, name string) outcome.Outcome
	Workers    int
	MaxRetries int
	// GivenUp must be called when a name is given up with RETRIES_EXHAUSTED.
	GivenUp func(name string, err error)
}

// ControllerFixture is a controller that is not started yet, and the objects that it
// watches. The controller is triggered by spec, requests and deletion of its objects, not
// by their status.
type ControllerFixture struct {
	// Put creates the object or changes its spec.
	Put func(name string, spec int)
	// Status writes the status only, as the controller itself does.
	Status func(name string, status int)
	// Request sets an annotation that carries a request; nil: not tested.
	Request func(name, value string)
	// Hold adds a finalizer, Mark deletes an object that has one, Free removes
	// the finalizer; nil: not tested.
	Hold, Mark, Free func(name string)
	// Delete removes the object.
	Delete func(name string)
	// Start starts the controller. Stop stops it and returns when no pass runs any more.
	Start, Stop func()
}

// Controller is the conformance suite of controllers: control.Controller, and
// controller-runtime as Pawl configures it. open is called once per test; names are DNS
// labels.
func Controller(t *testing.T, open func(t *testing.T, s Setup) ControllerFixture) {
	for _, q := range []struct {
		name string
		run  func(t *testing.T, b *harness)
	}{
		{"what was there before the start is reconciled", before},
		{"a change of the spec wakes", wakes},
		{"a status write of our own does not wake", silent},
		{"a request wakes", request},
		{"a deletion mark wakes", mark},
		{"a key is never worked on twice at once", once},
		{"a burst of updates during a pass costs one more pass", burst},
		{"keys do not wait for each other", side},
		{"a failure is retried at a growing delay", retried},
		{"success forgets the failures", forgets},
		{"retries end in RETRIES_EXHAUSTED, the next change revives", exhausted},
		{"trouble of the control plane uses up no retry", free},
		{"a panic is a failure of that pass only", panics},
		{"wait and later look again and are no failure", again},
		{"wait without delay waits for a change", still},
		{"a deleted object is not retried for ever", vanished},
		{"stop waits for the passes", stops},
	} {
		t.Run(q.name, func(t *testing.T) {
			b := newHarness(t)
			b.open = func(s Setup) {
				s.Reconcile, s.GivenUp = b.reconcile, b.givenUp
				b.ControllerFixture = open(t, s)
			}
			q.run(t, b)
		})
	}
}

func before(t *testing.T, b *harness) {
	b.open(Setup{})
	for i := range 5 {
		b.Put(fmt.Sprintf("o-%d", i), 1)
	}
	b.Start()
	t.Cleanup(b.Stop)
	for i := range 5 {
		b.awaitPass(fmt.Sprintf("o-%d", i), 1)
	}
}

func wakes(_ *testing.T, b *harness) {
	b.start(Setup{})
	b.Put("a", 1)
	b.awaitPass("a", 1)
	for n := 2; n < 5; n++ {
		b.Put("a", n)
		b.awaitPass("a", n)
	}
	b.count("a", 4, "four specs, one after another")
}

func silent(_ *testing.T, b *harness) {
	b.start(Setup{Workers: 1})
	b.Put("a", 1)
	b.awaitPass("a", 1)
	for n := range 5 {
		b.Status("a", n+1)
	}
	b.count("a", 1, "five status writes")
	b.Put("a", 2)
	b.awaitPass("a", 2)
}

func request(t *testing.T, b *harness) {
	b.start(Setup{})
	if b.Request == nil {
		t.Skip("not tested")
	}
	b.Put("a", 1)
	b.awaitPass("a", 1)
	b.Request("a", "r-1")
	b.awaitPass("a", 2)
	b.Request("a", "r-2")
	b.awaitPass("a", 3)
}

func mark(t *testing.T, b *harness) {
	b.start(Setup{})
	if b.Mark == nil {
		t.Skip("not tested")
	}
	b.Put("a", 1)
	b.awaitPass("a", 1)
	b.Hold("a")
	n := b.settle("a")
	b.Mark("a")
	b.awaitPass("a", n+1)
	b.Free("a")
}

func once(t *testing.T, b *harness) {
	b.start(Setup{Workers: 8})
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			for n := range 40 {
				b.Put(fmt.Sprintf("o-%d", i), n)
			}
		})
	}
	wg.Wait()
	b.settle("")
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.concurrent) > 0 {
		t.Fatalf("worked on twice at once: %v", b.concurrent)
	}
}

func burst(_ *testing.T, b *harness) {
	release := make(chan struct{})
	b.answer = func(ctx context.Context, name string, pass int) outcome.Outcome {
		if name == "a" && pass == 1 {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return outcome.Done()
	}
	b.start(Setup{Workers: 4})
	b.Put("a", 1)
	b.until("first pass", func() bool { return b.running["a"] == 1 })
	for n := range 100 {
		b.Put("a", n+2)
	}
	b.count("a", 1, "updates during a pass")
	close(release)
	b.awaitPass("a", 2)
	b.count("a", 2, "after a burst of updates")
}

func side(_ *testing.T, b *harness) {
	release := make(chan struct{})
	b.answer = func(ctx context.Context, name string, _ int) outcome.Outcome {
		if name == "slow" {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return outcome.Done()
	}
	b.start(Setup{Workers: 2})
	b.Put("slow", 1)
	b.until("slow pass", func() bool { return b.running["slow"] == 1 })
	b.Put("a", 1)
	b.awaitPass("a", 1)
	close(release)
	b.awaitPass("slow", 1)
}

func retried(t *testing.T, b *harness) {
	b.answer = func(_ context.Context, name string, pass int) outcome.Outcome {
		if name == "a" && pass <= 4 {
			return outcome.Fail(errors.New("not yet"))
		}
		return outcome.Done()
	}
	b.start(Setup{})
	b.Put("a", 1)
	b.awaitPass("a", 5)
	b.count("a", 5, "four failures, then success")
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.passes["a"]
	for i, least := range []int64{5, 10, 20, 40} {
		if gap := p[i+1].Sub(p[i]); gap.Milliseconds() < least {
			t.Errorf("retry %d came after %s, want at least %d ms", i+1, gap, least)
		}
	}
}

func forgets(_ *testing.T, b *harness) {
	b.answer = func(_ context.Context, _ string, pass int) outcome.Outcome {
		if pass%3 != 0 { // twice in a row, over and over
			return outcome.Fail(errors.New("not yet"))
		}
		return outcome.Done()
	}
	b.start(Setup{MaxRetries: 2})
	for n := range 4 {
		b.Put("a", n+1)
		b.awaitPass("a", 3*(n+1))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.gaveUp) != 0 {
		b.t.Fatalf("given up: %v; two failures in a row are below three", b.gaveUp)
	}
}

func exhausted(t *testing.T, b *harness) {
	cause := errors.New("broken for good")
	b.answer = func(_ context.Context, name string, pass int) outcome.Outcome {
		if name == "a" && pass <= 4 {
			return outcome.Fail(cause)
		}
		return outcome.Done()
	}
	b.start(Setup{MaxRetries: 3})
	b.Put("a", 1)
	b.until("given up", func() bool { return b.gaveUp["a"] != nil })
	b.count("a", 4, "one pass and three retries")
	b.mu.Lock()
	err := b.gaveUp["a"]
	b.mu.Unlock()
	if fault.Of(err).Code != "RETRIES_EXHAUSTED" || !errors.Is(err, cause) {
		t.Fatalf("given up with %v; want RETRIES_EXHAUSTED that wraps the last failure", err)
	}
	b.Put("a", 2)
	b.awaitPass("a", 5)
}

func free(t *testing.T, b *harness) {
	b.answer = func(_ context.Context, name string, pass int) outcome.Outcome {
		switch {
		case name != "a":
			return outcome.Done()
		case pass <= 4:
			return outcome.Fail(fault.APIUnavailable.Errorf("no answer"))
		case pass <= 6:
			return outcome.Fail(fmt.Errorf("update: %w", fault.WriteConflict.Errorf("someone was faster")))
		}
		return outcome.Done()
	}
	b.start(Setup{MaxRetries: 2})
	b.Put("a", 1)
	b.awaitPass("a", 7)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.gaveUp) != 0 {
		t.Fatalf("promise 12: given up because of the control plane: %v", b.gaveUp)
	}
}

func panics(_ *testing.T, b *harness) {
	b.answer = func(_ context.Context, name string, pass int) outcome.Outcome {
		if name == "a" && pass == 1 {
			panic("a pass that panics on purpose")
		}
		return outcome.Done()
	}
	b.start(Setup{})
	b.Put("a", 1)
	b.awaitPass("a", 2)
	b.Put("b", 1)
	b.awaitPass("b", 1)
}

func again(t *testing.T, b *harness) {
	const delay = 30 * time.Millisecond
	b.answer = func(_ context.Context, name string, pass int) outcome.Outcome {
		switch {
		case name == "w" && pass <= 3:
			return outcome.Wait(delay, "NotYet", "pass %d", pass)
		case name == "l" && pass <= 3:
			return outcome.Later(delay, "NotYet", "pass %d", pass)
		}
		return outcome.Done()
	}
	b.start(Setup{MaxRetries: 1})
	for _, name := range []string{"w", "l"} {
		b.Put(name, 1)
		b.awaitPass(name, 4)
		b.count(name, 4, "three looks, then done")
		b.mu.Lock()
		for i, p := range b.passes[name][1:] {
			if gap := p.Sub(b.passes[name][i]); gap < delay {
				t.Errorf("%s was looked at again after %s, want %s", name, gap, delay)
			}
		}
		b.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.gaveUp) != 0 {
		t.Fatalf("given up: %v; a wait is no failure", b.gaveUp)
	}
}

func still(_ *testing.T, b *harness) {
	b.answer = func(_ context.Context, name string, _ int) outcome.Outcome {
		if name == "a" {
			return outcome.Wait(0, "Waiting", "for a change")
		}
		return outcome.Done()
	}
	b.start(Setup{})
	b.Put("a", 1)
	b.awaitPass("a", 1)
	b.count("a", 1, "a wait without delay")
	b.Put("a", 2)
	b.awaitPass("a", 2)
}

func vanished(t *testing.T, b *harness) {
	b.answer = func(_ context.Context, name string, _ int) outcome.Outcome {
		if name == "a" || name == "twin" {
			return outcome.Fail(errors.New("cannot be done"))
		}
		return outcome.Done()
	}
	b.start(Setup{MaxRetries: 1000, Workers: 4})
	b.Put("a", 1)
	b.Put("twin", 1)
	b.awaitPass("a", 3)
	b.Delete("a")
	n := b.settle("a")
	b.mu.Lock()
	twin := len(b.passes["twin"])
	b.mu.Unlock()
	b.awaitPass("twin", twin+4) // an existing object is retried
	b.mu.Lock()
	defer b.mu.Unlock()
	if more := len(b.passes["a"]) - n; more > 2 {
		t.Fatalf("%d passes after the deletion while its twin had 4; a vanished object is done", more)
	}
}

func stops(t *testing.T, b *harness) {
	release := make(chan struct{})
	var mu sync.Mutex
	ended := false
	b.answer = func(_ context.Context, name string, _ int) outcome.Outcome {
		<-release
		mu.Lock()
		defer mu.Unlock()
		ended = true
		return outcome.Done()
	}
	b.open(Setup{Workers: 1})
	b.Start()
	b.Put("a", 1)
	b.until("first pass", func() bool { return b.running["a"] == 1 })
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		b.Stop()
	}()
	close(release)
	select {
	case <-stopped:
	case <-time.After(Timeout):
		t.Fatalf("stop did not return within %s after the pass ended", Timeout)
	}
	mu.Lock()
	defer mu.Unlock()
	if !ended {
		t.Fatal("stop returned before the pass had ended")
	}
}
