package workflow

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// Advance executes one run until nothing is left to do, and returns its state: Done (Succeeded),
// Wait, or Fail with the fault of a paused or cancelled run.
func (e *Engine) Advance(ctx context.Context, id string) outcome.Outcome {
	l, err := e.take(ctx, id)
	if errors.Is(err, ErrOwned) {
		return outcome.Wait(0, "Owned", "a worker owns the run")
	}
	if err != nil {
		return outcome.Fail(runError(id, err))
	}
	if l.Run.Phase.Final() {
		return OutcomeOf(l.Run)
	}
	d := e.newDriver(l)
	if !e.register(d) {
		return outcome.Wait(retakeDelay, "Owned", "this worker executes the run already")
	}
	defer e.holdLease()()
	stop := context.AfterFunc(ctx, func() { d.cancel(ErrDraining) })
	defer stop()
	e.run(d)
	if d.lost { // do not report what was not saved
		return outcome.Wait(retakeDelay, "Lost", "the run was given up: another worker owns it, or this worker claims it again")
	}
	return OutcomeOf(d.s.run)
}

// holdLease renews the worker's lease during Advance, unless Serve renews it.
func (e *Engine) holdLease() (release func()) {
	claimer, ok := e.store.(Claimer)
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

// takeFrom claims one run from a store.
func (e *Engine) takeFrom(ctx context.Context, claimer Claimer, id string) (Loaded, error) {
	sentAt := instantNow()
	l, err := claimer.ClaimRun(ctx, e.options.Worker, id, e.options.Lease)
	if err == nil {
		l.leaseTerm = e.lease.extend(sentAt, e.lease.claimSpend())
	}
	return l, err
}

func (e *Engine) take(ctx context.Context, id string) (Loaded, error) {
	if d := e.driver(id); d != nil {
		return Loaded{}, ErrOwned
	}
	if claimer, ok := e.store.(Claimer); ok {
		return e.takeFrom(ctx, claimer, id)
	}
	r, signals, err := e.store.Load(ctx, id)
	if err != nil {
		return Loaded{}, err
	}
	if !r.Phase.Final() {
		r.Epoch++
		r.Owner = e.options.Worker
	}
	return Loaded{Run: r, Signals: signals}, nil
}

// OutcomeOf returns the state of a run as an outcome.
func OutcomeOf(r *Run) outcome.Outcome {
	switch r.Phase {
	case Succeeded:
		return outcome.Done()
	case Cancelled:
		return outcome.Fail(CancelledByPerson.Errorf("run %s was cancelled", r.ID))
	case Paused:
		kind, ok := fault.Lookup(string(r.Fault.Code))
		if !ok {
			kind = fault.Unknown
		}
		failure := kind.Errorf("%s", r.Fault.Message)
		for k, v := range r.Fault.Details {
			failure = failure.With(k, v)
		}
		return outcome.Fail(failure)
	}
	wait := time.Duration(0)
	if !r.NextAt.IsZero() {
		wait = max(time.Until(r.NextAt), time.Millisecond)
	}
	reason, message := string(r.Phase), "run "+r.ID
	if cur := r.Current(); cur != nil {
		message = cur.Name
		if cur.Wait != nil {
			reason, message = cur.Wait.Reason, cur.Wait.Message
		}
	}
	return outcome.Wait(wait, reason, "%s", message)
}
