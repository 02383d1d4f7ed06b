package workflow

import (
	"context"
	"errors"
	"sync"
	"time"
)

// mark is an instant by two clocks. The boot-time clock goes on while the machine
// sleeps; both go on while the process is stopped.
type mark struct {
	at   time.Time
	boot time.Duration
}

func markNow() mark { return mark{at: time.Now(), boot: sinceBoot()} }

// since is the time from an earlier mark by the clock that says more.
func (m mark) since(from mark) time.Duration { return max(m.at.Sub(from.at), m.boot-from.boot) }

func (m mark) add(d time.Duration) mark { return mark{m.at.Add(d), m.boot + d} }

// lease is what this worker knows of its lease without asking the store. A term is a
// time in which the lease held without a gap: a run that was claimed in a term that
// has ended may belong to another worker.
type lease struct {
	mu    sync.Mutex
	long  time.Duration
	from  mark // when the newest lease began, at the latest
	begun mark // when the term began
	term  int  // counts the terms; 0: there was none yet
	lost  bool // the store has said so
}

// extended notes that the store granted a lease of at least long-spent in a call that
// began at m. It gives the term that this call belongs to.
func (l *lease) extended(m mark, spent time.Duration) (term int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := m.add(-spent)
	if l.term == 0 || l.lost || m.since(l.from) >= l.long {
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
func (l *lease) at(m mark) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term == 0 || l.lost || m.since(l.from) >= l.long {
		return 0
	}
	return l.termAt(m)
}

func (l *lease) termAt(m mark) int {
	if l.begun.since(m) > 0 { // it began before the term did
		return 0
	}
	return l.term
}

// left is how long the lease of a term still holds, by both clocks; 0: it does not.
func (l *lease) left(term int) time.Duration {
	m := markNow()
	l.mu.Lock()
	defer l.mu.Unlock()
	if term == 0 || term != l.term || l.lost {
		return 0
	}
	return max(l.long-m.since(l.from), 0)
}

// lose ends the term: the store has given the worker up.
func (l *lease) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = true
}

// claimed is what a claim spends at most of the lease it finds or makes: a store
// extends a lease when half of it is gone.
func (l *lease) claimed() time.Duration { return l.long / 2 }

// holds gives the term whose lease holds for more than a third of its time; 0: none does.
func (l *lease) holds() int {
	l.mu.Lock()
	term := l.term
	l.mu.Unlock()
	if l.left(term) > l.long/3 {
		return term
	}
	return 0
}

// turn lets one caller at a time through.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }

// renewed gives the term of a lease that holds, and renews it if none does.
// Runs that ask at the same time cost one call together.
func (e *Engine) renewed(ctx context.Context, claimer Claimer) (term int, err error) {
	if err := e.renewing.take(ctx); err != nil {
		return 0, err
	}
	defer e.renewing.give()
	if term := e.lease.holds(); term != 0 {
		return term, nil
	}
	m := markNow()
	if err := claimer.Renew(ctx, e.options.Worker, e.options.Lease); err != nil {
		return 0, err
	}
	return e.lease.extended(m, 0), nil
}

// assured asks, before attempts are launched, whether the run is still this
// worker's: the clocks, and only when they do not say so the store. A third of the
// lease is kept for what comes between this question and the launch.
func (d *driver) assured() bool {
	claimer, ok := d.e.store.(Claimer)
	if !ok {
		return true
	}
	l := &d.e.lease
	if l.left(int(d.term.Load())) > l.long/3 {
		return true
	}
	ctx, cancel := context.WithTimeout(d.life, l.long/3)
	defer cancel()
	term, err := d.e.renewed(ctx, claimer)
	if err != nil {
		if errors.Is(err, ErrFenced) {
			d.e.log.Warn("workflow: the lease is lost: nothing is launched", "worker", d.e.options.Worker, "run", d.s.run.ID)
			l.lose()
			d.e.loseAll()
		} else {
			d.e.trouble(err)
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
	return l.left(int(d.term.Load())) > 0
}
