// Package turn holds what the rooms of compat share: one turn at a time for
// each object, and panics that stay where they happen.
package turn

import (
	"context"
	"runtime/debug"
	"sync"

	"github.com/pawl-dev/pawl/fault"
)

// Turns gives each name to one holder at a time. A name is kept only while
// someone holds or awaits it. The zero Turns is ready.
type Turns struct {
	mu   sync.Mutex
	held map[string]*turn
}

type turn struct {
	free  chan struct{} // holds one token while nobody has the turn
	users int
}

// Take waits for the turn. The error is that of the context.
func (t *Turns) Take(ctx context.Context, name string) (leave func(), err error) {
	t.mu.Lock()
	if t.held == nil {
		t.held = map[string]*turn{}
	}
	mine := t.held[name]
	if mine == nil {
		mine = &turn{free: make(chan struct{}, 1)}
		mine.free <- struct{}{}
		t.held[name] = mine
	}
	mine.users++
	t.mu.Unlock()
	gone := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.users--; mine.users == 0 {
			delete(t.held, name)
		}
	}
	select {
	case <-mine.free:
		return func() { mine.free <- struct{}{}; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, context.Cause(ctx)
	}
}

// Len is how many names are held or awaited.
func (t *Turns) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.held)
}

// stackLimit is how much of a stack is kept.
const stackLimit = 16 << 10

// Guard is deferred: it turns a panic into the fault PANIC, with the stack in
// its details.
func Guard(err *error) {
	if r := recover(); r != nil {
		stack := debug.Stack()
		*err = fault.Panic.Errorf("%v", r).With("stack", string(stack[:min(len(stack), stackLimit)]))
	}
}
