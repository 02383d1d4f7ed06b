package sqlstore

import "sync"

// waker passes the ids of runs to a listener and never blocks. If the channel overflows,
// it sends "", which means any run, as soon as there is space.
type waker struct {
	mu     sync.Mutex
	c      chan string
	missed bool
}

func newWaker() *waker { return &waker{c: make(chan string, 1024)} }

func (w *waker) notify(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.missed {
		id = ""
	}
	select {
	case w.c <- id:
		w.missed = false
	default:
		w.missed = true
	}
}

// notifier wakes any number of waiters. A waiter takes the channel, reads the state,
// then waits for the channel. The zero notifier is ready.
type notifier struct {
	mu sync.Mutex
	c  chan struct{}
}

func (b *notifier) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil {
		b.c = make(chan struct{})
	}
	return b.c
}

func (b *notifier) notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c != nil {
		close(b.c)
		b.c = nil
	}
}
