package workflow

import (
	"context"
	"errors"
	"sync"
	"time"
)

// instant is a point in time on two clocks. The boot-time clock continues while the machine sleeps;
// both continue while the process is suspended.
type instant struct {
	at   time.Time
	boot time.Duration
}

func instantNow() instant { return instant{at: time.Now(), boot: sinceBoot()} }

// since returns the time since an earlier instant, by the clock that shows more.
func (m instant) since(from instant) time.Duration { return max(m.at.Sub(from.at), m.boot-from.boot) }

func (m instant) add(d time.Duration) instant { return instant{m.at.Add(d), m.boot + d} }

// lease is what this worker knows about its lease without a call to the store. A term is a period
// in which the lease was valid without a gap: a run that was claimed in an earlier term may belong
// to another worker.
type lease struct {
	mu       sync.Mutex
	duration time.Duration
	from     instant // latest possible start of the newest lease
	begun    instant // start of the term
	term     int     // number of the term; 0: there was none yet
	lost     bool    // the store has reported the loss
}

// extend records that the store granted a lease of at least duration-spent in a call that began at
// m. It returns the term of this call.
func (l *lease) extend(m instant, spent time.Duration) (term int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := m.add(-spent)
	if l.term == 0 || l.lost || m.since(l.from) >= l.duration {
		l.term++
		l.from, l.begun, l.lost = from, m, false
		return l.term
	}
	if l.from.since(from) < 0 { // from is later
		l.from = from
	}
	return l.termAt(m)
}

// termOf returns the term of a call that began at m and granted no lease; 0: there was none.
func (l *lease) termOf(m instant) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term == 0 || l.lost || m.since(l.from) >= l.duration {
		return 0
	}
	return l.termAt(m)
}

func (l *lease) termAt(m instant) int {
	if l.begun.since(m) > 0 { // the call began before the term
		return 0
	}
	return l.term
}

// remaining returns the remaining time of the lease in a term, by both clocks; 0: the lease is not
// valid.
func (l *lease) remaining(term int) time.Duration {
	m := instantNow()
	l.mu.Lock()
	defer l.mu.Unlock()
	if term == 0 || term != l.term || l.lost {
		return 0
	}
	return max(l.duration-m.since(l.from), 0)
}

// lose ends the term, because the store has given up the worker.
func (l *lease) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = true
}

// claimSpend is the part of the lease that may be used up when a claim returns: a store extends a
// lease only when half of it is over.
func (l *lease) claimSpend() time.Duration { return l.duration / 2 }

// heldTerm returns the current term if its lease is valid for more than a third of its duration;
// else 0.
func (l *lease) heldTerm() int {
	l.mu.Lock()
	term := l.term
	l.mu.Unlock()
	if l.remaining(term) > l.duration/3 {
		return term
	}
	return 0
}

// ctxMutex is a mutex whose lock call ends with its context.
type ctxMutex chan struct{}

func newCtxMutex() ctxMutex { return make(ctxMutex, 1) }

func (t ctxMutex) lock(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t ctxMutex) unlock() { <-t }

// renewLease returns a term whose lease is valid, and renews the lease if necessary. Concurrent
// callers share one call to the store.
func (e *Engine) renewLease(ctx context.Context, claimer Claimer) (term int, err error) {
	if err := e.renewing.lock(ctx); err != nil {
		return 0, err
	}
	defer e.renewing.unlock()
	if term := e.lease.heldTerm(); term != 0 {
		return term, nil
	}
	m := instantNow()
	if err := claimer.Renew(ctx, e.options.Worker, e.options.Lease); err != nil {
		return 0, err
	}
	return e.lease.extend(m, 0), nil
}

// leaseHolds checks, before attempts are launched, that this worker still owns the run. It asks the
// clocks, and the store only if the clocks cannot confirm it. A third of the lease must remain for
// the time between this check and the launch.
func (d *driver) leaseHolds() bool {
	claimer, ok := d.e.store.(Claimer)
	if !ok {
		return true
	}
	l := &d.e.lease
	if l.remaining(int(d.term.Load())) > l.duration/3 {
		return true
	}
	ctx, cancel := context.WithTimeout(d.saveCtx, l.duration/3)
	defer cancel()
	term, err := d.e.renewLease(ctx, claimer)
	if err != nil {
		if errors.Is(err, ErrFenced) {
			d.e.log.Warn("workflow: the lease is lost: nothing is launched", "worker", d.e.options.Worker, "run", d.s.run.ID)
			l.lose()
			d.e.loseAll()
		} else {
			d.e.storeFailed(err)
		}
		return false
	}
	if term == 0 || int64(term) != d.term.Load() { // the lease had a gap: another worker may have owned the run
		r, _, err := d.e.store.Load(ctx, d.s.run.ID)
		if err != nil || r.Epoch > d.s.run.Epoch || r.Revision != d.s.run.Revision {
			return false
		}
		d.term.Store(int64(term))
	}
	return l.remaining(int(d.term.Load())) > 0
}
