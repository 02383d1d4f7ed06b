package workflow

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/workflow/internal/lease"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// leases holds the lease of this worker.
type leases struct{ *Engine }

func (e *Engine) leases() leases { return leases{e} }

// renewLease returns a term whose lease is valid, and renews the lease if necessary. Concurrent
// callers share one call to the store.
func (e leases) renewLease(ctx context.Context, claimer runstore.Claimer) (term int, err error) {
	if err := e.renewing.Lock(ctx); err != nil {
		return 0, err
	}
	defer e.renewing.Unlock()
	if term := e.lease.HeldTerm(); term != 0 {
		return term, nil
	}
	m := lease.Now()
	if err := claimer.Renew(ctx, e.options.Worker, e.options.Lease); err != nil {
		return 0, err
	}
	return e.lease.Extend(m, 0), nil
}

// leaseHolds checks, before attempts are launched, that this worker still owns the run. It asks the
// clocks, and the store only if the clocks cannot confirm it. A third of the lease must remain for
// the time between this check and the launch.
func (d *driver) leaseHolds() bool {
	claimer, ok := d.e.store.(runstore.Claimer)
	if !ok {
		return true
	}
	l := &d.e.lease
	if l.Remaining(int(d.term.Load())) > l.Duration/3 {
		return true
	}
	ctx, cancel := context.WithTimeout(d.saveCtx, l.Duration/3)
	defer cancel()
	term, err := d.e.leases().renewLease(ctx, claimer)
	if err != nil {
		if errors.Is(err, runstore.ErrFenced) {
			d.e.log.Warn("workflow: the lease is lost: nothing is launched", "worker", d.e.options.Worker, "run", d.s.run.ID)
			l.Lose()
			d.e.server().loseAll()
		} else {
			d.e.health.failed(err)
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
	return l.Remaining(int(d.term.Load())) > 0
}

// holdLease renews the worker's lease during Advance, unless Serve renews it.
func (e leases) holdLease() (release func()) {
	claimer, ok := e.store.(runstore.Claimer)
	if !ok {
		return func() {}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.advancing++; e.advancing == 1 && !e.serving {
		e.stopLease = e.keepLease(claimer)
	}
	return func() {
		e.mu.Lock()
		e.advancing--
		stop := e.stopLease
		if e.advancing > 0 {
			stop = nil
		} else {
			e.stopLease = nil
		}
		e.mu.Unlock()
		if stop != nil {
			stop()
		}
	}
}

// takeFrom claims one run from a store. term is the term of the lease in which it was claimed.
func (e leases) takeFrom(ctx context.Context, claimer runstore.Claimer, id string) (l runstore.Loaded, term int, err error) {
	sentAt := lease.Now()
	l, err = claimer.ClaimRun(ctx, e.options.Worker, id, e.options.Lease)
	if err == nil {
		term = e.lease.Extend(sentAt, e.lease.ClaimSpend())
	}
	return l, term, err
}

func (e leases) take(ctx context.Context, id string) (l runstore.Loaded, term int, err error) {
	if d := e.server().driver(id); d != nil {
		return runstore.Loaded{}, 0, runstore.ErrOwned
	}
	if claimer, ok := e.store.(runstore.Claimer); ok {
		return e.takeFrom(ctx, claimer, id)
	}
	r, signals, err := e.store.Load(ctx, id)
	if err != nil {
		return runstore.Loaded{}, 0, err
	}
	if !r.Phase.Final() {
		r.Epoch++
		r.Owner = e.options.Worker
	}
	return runstore.Loaded{Run: r, Signals: signals}, 0, nil
}

// keepLease renews the worker's lease until stop is called. If no renewal has succeeded for two
// thirds of the lease, it cancels all attempts, before the lease expires.
func (e leases) keepLease(claimer runstore.Claimer) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		renewed := time.Now()
		ticker := time.NewTicker(e.options.Lease / 3)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
			}
			e.mu.Lock()
			owns := len(e.drivers) > 0 || len(e.parks) > 0
			e.mu.Unlock()
			if !owns {
				renewed = time.Now()
				continue
			}
			sentAt := lease.Now()
			bounded, cancel := context.WithTimeout(e.saveCtx, e.options.Lease/3)
			err := claimer.Renew(bounded, e.options.Worker, e.options.Lease)
			cancel()
			switch {
			case err == nil:
				e.lease.Extend(sentAt, 0)
				renewed = time.Now()
			case errors.Is(err, runstore.ErrFenced), time.Since(renewed) >= e.options.Lease*2/3:
				e.log.Warn("workflow: the lease is lost: all attempts end", "worker", e.options.Worker, "error", err)
				if !errors.Is(err, runstore.ErrFenced) {
					e.health.failed(err) // claim nothing before the lease can be renewed
				}
				e.lease.Lose()
				e.server().loseAll()
				renewed = time.Now()
			}
		}
	}()
	return func() { close(quit); <-done }
}
