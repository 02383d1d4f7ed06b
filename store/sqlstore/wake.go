package sqlstore

import "sync"

// waker hands hints to whoever listens and never blocks: what overflows is
// told as "any" as soon as there is room.
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

// bell wakes any number of waiters: take the channel, look, then wait for it.
// The zero bell is ready.
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
