package server

import (
	"sync"

	"github.com/pawl-dev/pawl/workflow"
)

// Notifier wakes event streams when something was saved. It is given to the engine
// as a hook before the server exists; events of other processes are found by
// looking.
type Notifier struct {
	mu   sync.Mutex
	next chan struct{}
}

// NewNotifier makes a bell.
func NewNotifier() *Notifier { return &Notifier{next: make(chan struct{})} }

// Hook rings the bell for each saved event.
func (b *Notifier) Hook() workflow.Hook {
	return workflow.Hook{Name: "events", OnEvent: func(workflow.RunInfo, workflow.Event) { b.Notify() }}
}

// Notify wakes all that wait.
func (b *Notifier) Notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.next)
	b.next = make(chan struct{})
}

// wait is closed by the next Ring.
func (b *Notifier) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}
