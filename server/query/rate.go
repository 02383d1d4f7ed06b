package query

import (
	"sync"
	"time"
)

// rate lets each name have so many requests a second, and a burst of them after a pause.
type rate struct {
	each  time.Duration // between two requests
	burst time.Duration // how far behind a name may be
	mu    sync.Mutex
	next  map[string]time.Time // when the requests taken so far are paid
}

func newRate(perSecond, burst int) *rate {
	each := time.Second / time.Duration(perSecond)
	return &rate{each: each, burst: each * time.Duration(burst), next: map[string]time.Time{}}
}

// namesKept bounds what is remembered: names that have paid are forgotten when there are more.
const namesKept = 10_000

// take takes one request of a name, or says how long it must wait.
func (r *rate) take(name string, now time.Time) (wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	paid := r.next[name]
	if paid.Before(now) {
		paid = now
	}
	if over := paid.Add(r.each).Sub(now) - r.burst; over > 0 {
		return over
	}
	if len(r.next) >= namesKept {
		for other, at := range r.next {
			if !at.After(now) {
				delete(r.next, other)
			}
		}
	}
	r.next[name] = paid.Add(r.each)
	return 0
}
