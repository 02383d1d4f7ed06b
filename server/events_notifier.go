package server

import (
	"sync"

	"github.com/pawl-dev/pawl/workflow"
)

// Notifier wakes event streams when something was saved. The engine gets it as a hook
// before the server exists. Streams find the events of other processes by polling.
type Notifier struct {
	mu   sync.Mutex
	next chan struct{}
}

// NewNotifier returns a notifier.
func NewNotifier() *Notifier { return &Notifier{next: make(chan struct{})} }

// Hook returns a hook that notifies of each saved event.
func (b *Notifier) Hook() workflow.Hook {
	return workflow.Hook{Name: "events", OnEvent: func(workflow.RunInfo, workflow.Event) { b.Notify() }}
}

// Notify wakes all waiting streams.
func (b *Notifier) Notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.next)
	b.next = make(chan struct{})
}

// wait returns a channel that the next Notify closes.
func (b *Notifier) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}
