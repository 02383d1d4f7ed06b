package control

import "sync"

// Notifier wakes any number of waiters. A waiter takes the channel, reads the state, and
// then waits for the channel: it misses nothing, and many notifications before it reads
// again are one. The zero Notifier is ready.
type Notifier struct {
	mu   sync.Mutex
	next chan struct{}
}

// Next returns a channel that the next Notify closes.
func (n *Notifier) Next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == nil {
		n.next = make(chan struct{})
	}
	return n.next
}

// Notify wakes all waiters.
func (n *Notifier) Notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}
