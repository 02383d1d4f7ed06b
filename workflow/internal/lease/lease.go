// Package lease is what a worker knows about its lease without a call to the store.
package lease

import (
	"sync"
	"time"
)

// Instant is a point in time on two clocks. The boot-time clock continues while the machine sleeps;
// both continue while the process is suspended.
type Instant struct {
	at   time.Time
	boot time.Duration
}

// Now returns the current instant.
func Now() Instant { return Instant{at: time.Now(), boot: sinceBoot()} }

// since returns the time since an earlier instant, by the clock that shows more.
func (m Instant) since(from Instant) time.Duration { return max(m.at.Sub(from.at), m.boot-from.boot) }

func (m Instant) add(d time.Duration) Instant { return Instant{m.at.Add(d), m.boot + d} }

// Lease is what this worker knows about its lease without a call to the store. A term is a period
// in which the lease was valid without a gap: a run that was claimed in an earlier term may belong
// to another worker.
type Lease struct {
	mu       sync.Mutex
	Duration time.Duration
	from     Instant // latest possible start of the newest lease
	begun    Instant // start of the term
	term     int     // number of the term; 0: there was none yet
	lost     bool    // the store has reported the loss
}

// Extend records that the store granted a lease of at least duration-spent in a call that began at
// m. It returns the term of this call.
func (l *Lease) Extend(m Instant, spent time.Duration) (term int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := m.add(-spent)
	if l.term == 0 || l.lost || m.since(l.from) >= l.Duration {
		l.term++
		l.from, l.begun, l.lost = from, m, false
		return l.term
	}
	if l.from.since(from) < 0 { // from is later
		l.from = from
	}
	return l.termAt(m)
}

// TermOf returns the term of a call that began at m and granted no lease; 0: there was none.
func (l *Lease) TermOf(m Instant) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term == 0 || l.lost || m.since(l.from) >= l.Duration {
		return 0
	}
	return l.termAt(m)
}

func (l *Lease) termAt(m Instant) int {
	if l.begun.since(m) > 0 { // the call began before the term
		return 0
	}
	return l.term
}

// Remaining returns how long something may still begin in a term, by both clocks; 0: nothing may. A
// tenth of the lease is kept back, because what was allowed to begin takes time until it does: a
// process that has looked at its clock may wait for a processor before its next instruction.
func (l *Lease) Remaining(term int) time.Duration {
	m := Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if term == 0 || term != l.term || l.lost {
		return 0
	}
	return max(l.Duration-l.Duration/10-m.since(l.from), 0)
}

// Lose ends the term, because the store has given up the worker.
func (l *Lease) Lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = true
}

// ClaimSpend is the part of the lease that may be used up when a claim returns: a store extends a
// lease only when half of it is over.
func (l *Lease) ClaimSpend() time.Duration { return l.Duration / 2 }

// HeldTerm returns the current term if its lease is valid for more than a third of its duration;
// else 0.
func (l *Lease) HeldTerm() int {
	l.mu.Lock()
	term := l.term
	l.mu.Unlock()
	if l.Remaining(term) > l.Duration/3 {
		return term
	}
	return 0
}
