package controltest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/outcome"
)

// harness counts passes and returns the outcomes that a test has set.
type harness struct {
	ControllerFixture
	t    *testing.T
	open func(Setup)

	mu         sync.Mutex
	changed    chan struct{}
	passes     map[string][]time.Time // start times
	running    map[string]int
	concurrent []string
	gaveUp     map[string]error
	fences     int
	answer     func(ctx context.Context, name string, pass int) outcome.Outcome // pass counts from 1
}

func newHarness(t *testing.T) *harness {
	return &harness{t: t, changed: make(chan struct{}, 1), passes: map[string][]time.Time{}, running: map[string]int{}, gaveUp: map[string]error{},
		answer: func(context.Context, string, int) outcome.Outcome { return outcome.Done() }}
}

// start opens the fixture, starts it and stops it at the end of the test.
func (b *harness) start(s Setup) {
	b.open(s)
	b.Start()
	b.t.Cleanup(b.Stop)
}

func (b *harness) reconcile(ctx context.Context, name string) outcome.Outcome {
	b.mu.Lock()
	b.passes[name] = append(b.passes[name], time.Now())
	pass := len(b.passes[name])
	if b.running[name]++; b.running[name] > 1 {
		b.concurrent = append(b.concurrent, name)
	}
	b.mu.Unlock()
	b.signal()
	defer func() {
		b.mu.Lock()
		b.running[name]--
		b.mu.Unlock()
		b.signal()
	}()
	return b.answer(ctx, name, pass)
}

func (b *harness) givenUp(name string, err error) {
	b.mu.Lock()
	b.gaveUp[name] = err
	b.mu.Unlock()
	b.signal()
}

func (b *harness) signal() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// until waits until fact returns true; it is called after each pass.
func (b *harness) until(what string, fact func() bool) {
	b.t.Helper()
	timeout := time.After(Timeout)
	for {
		b.mu.Lock()
		ok := fact()
		state := fmt.Sprintf("passes %v", counts(b.passes))
		b.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-b.changed:
		case <-timeout:
			b.t.Fatalf("%s: not within %s; %s", what, Timeout, state)
		}
	}
}

func counts(passes map[string][]time.Time) map[string]int {
	out := map[string]int{}
	for name, p := range passes {
		out[name] = len(p)
	}
	return out
}

// awaitPass waits for the n-th pass of a name to end.
func (b *harness) awaitPass(name string, n int) {
	b.t.Helper()
	b.until(fmt.Sprintf("pass %d of %s", n, name), func() bool { return len(b.passes[name]) >= n && b.running[name] == 0 })
}

// settle puts some objects and waits for their passes: by then all earlier changes have
// triggered their passes. It returns the number of passes of a name.
func (b *harness) settle(name string) int {
	b.t.Helper()
	for i := range 3 {
		fence := fmt.Sprintf("fence-%d", i)
		b.mu.Lock()
		n := len(b.passes[fence])
		b.fences++
		spec := b.fences
		b.mu.Unlock()
		b.Put(fence, spec)
		b.awaitPass(fence, n+1)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.passes[name])
}

func (b *harness) count(name string, want int, why string) {
	b.t.Helper()
	if got := b.settle(name); got != want {
		b.t.Fatalf("%s: %d passes of %s, want %d", why, got, name, want)
	}
}
