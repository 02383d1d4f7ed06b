package db

import "sync"

// ChangeChannel is where a process tells others that an object has changed.
const ChangeChannel = "pawl_change"

// Waker passes the ids of runs to a listener and never blocks. If the channel overflows,
// it sends "", which means any run, as soon as there is space.
type Waker struct {
	mu     sync.Mutex
	C      chan string
	missed bool
}

// NewWaker creates a Waker whose channel holds 1,024 ids.
func NewWaker() *Waker { return &Waker{C: make(chan string, 1024)} }

// Notify passes the id of a run on.
func (w *Waker) Notify(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.missed {
		id = ""
	}
	select {
	case w.C <- id:
		w.missed = false
	default:
		w.missed = true
	}
}
