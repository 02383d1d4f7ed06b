// Package turn has what the packages of compat share: a lock for each object, and a guard that
// turns panics into errors.
package turn

import (
	"context"
	"runtime/debug"
	"sync"

	"github.com/pawl-dev/pawl/fault"
)

// Turns is a set of locks by name. A name is kept only while somebody holds or awaits its lock.
// The zero Turns is ready for use.
type Turns struct {
	mu   sync.Mutex
	held map[string]*turn
}

type turn struct {
	free  chan struct{} // has one token while the lock is free
	users int
}

// Take takes a lock. Its error is that of the context.
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

// Len returns how many names are held or awaited.
func (t *Turns) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.held)
}

// stackLimit is how much of a stack is kept, in bytes.
const stackLimit = 16 << 10

// Guard is used with defer: it turns a panic into the fault PANIC, with the stack in its details.
func Guard(err *error) {
	if r := recover(); r != nil {
		stack := debug.Stack()
		*err = fault.Panic.Errorf("%v", r).With("stack", string(stack[:min(len(stack), stackLimit)]))
	}
}
