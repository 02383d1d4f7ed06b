package workflow

import (
	"context"
	"errors"
	"sync"
	"time"
)

// mark is an instant by two clocks. The boot-time clock goes on while the machine
// sleeps; both go on while the process is stopped.
type instant struct {
	at   time.Time
	boot time.Duration
}

func instantNow() instant { return instant{at: time.Now(), boot: sinceBoot()} }

// since is the time from an earlier mark by the clock that says more.
func (m instant) since(from instant) time.Duration { return max(m.at.Sub(from.at), m.boot-from.boot) }

func (m instant) add(d time.Duration) instant { return instant{m.at.Add(d), m.boot + d} }

// lease is what this worker knows of its lease without asking the store. A term is a
// time in which the lease held without a gap: a run that was claimed in a term that
// has ended may belong to another worker.
type lease struct {
	mu       sync.Mutex
	duration time.Duration
	from     instant // when the newest lease began, at the latest
	begun    instant // when the term began
	term     int     // counts the terms; 0: there was none yet
	lost     bool    // the store has said so
}

// extended notes that the store granted a lease of at least long-spent in a call that
// began at m. It gives the term that this call belongs to.
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

// at gives the term of a call that began at m and granted no lease; 0: there was none.
func (l *lease) termOf(m instant) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term == 0 || l.lost || m.since(l.from) >= l.duration {
		return 0
	}
	return l.termAt(m)
}

func (l *lease) termAt(m instant) int {
	if l.begun.since(m) > 0 { // it began before the term did
		return 0
	}
	return l.term
}

// left is how long the lease of a term still holds, by both clocks; 0: it does not.
func (l *lease) remaining(term int) time.Duration {
	m := instantNow()
	l.mu.Lock()
	defer l.mu.Unlock()
	if term == 0 || term != l.term || l.lost {
		return 0
	}
	return max(l.duration-m.since(l.from), 0)
}

// lose ends the term: the store has given the worker up.
func (l *lease) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = true
}

// claimed is what a claim spends at most of the lease it finds or makes: a store
// extends a lease when half of it is gone.
func (l *lease) claimSpend() time.Duration { return l.duration / 2 }

// holds gives the term whose lease holds for more than a third of its time; 0: none does.
func (l *lease) heldTerm() int {
	l.mu.Lock()
	term := l.term
	l.mu.Unlock()
	if l.remaining(term) > l.duration/3 {
		return term
	}
	return 0
}

// turn lets one caller at a time through.
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

// renewed gives the term of a lease that holds, and renews it if none does.
// Runs that ask at the same time cost one call together.
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

// assured asks, before attempts are launched, whether the run is still this
// worker's: the clocks, and only when they do not say so the store. A third of the
// lease is kept for what comes between this question and the launch.
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
	if term == 0 || int64(term) != d.term.Load() { // it held not all the time: another worker may have had the run
		r, _, err := d.e.store.Load(ctx, d.s.run.ID)
		if err != nil || r.Epoch > d.s.run.Epoch || r.Revision != d.s.run.Revision {
			return false
		}
		d.term.Store(int64(term))
	}
	return l.remaining(int(d.term.Load())) > 0
}
