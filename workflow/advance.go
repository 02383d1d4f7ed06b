package workflow

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Advance executes one run until nothing is left to do, and returns its state: Done (Succeeded),
// Wait, or Fail with the fault of a paused or cancelled run.
func (e *Engine) Advance(ctx context.Context, id string) outcome.Outcome {
	l, term, err := e.leases().take(ctx, id)
	if errors.Is(err, runstore.ErrOwned) {
		return outcome.Wait(0, "Owned", "a worker owns the run")
	}
	if err != nil {
		return outcome.Fail(runError(id, err))
	}
	if l.Run.Phase.Final() {
		return OutcomeOf(l.Run)
	}
	d := e.newDriver(l, term)
	if !e.server().register(d) {
		return outcome.Wait(retakeDelay, "Owned", "this worker executes the run already")
	}
	defer e.leases().holdLease()()
	stop := context.AfterFunc(ctx, func() { d.cancel(ErrDraining) })
	defer stop()
	e.server().run(d)
	if d.lost { // do not report what was not saved
		return outcome.Wait(retakeDelay, "Lost", "the run was given up: another worker owns it, or this worker claims it again")
	}
	return OutcomeOf(d.s.run)
}

// OutcomeOf returns the state of a run as an outcome.
func OutcomeOf(r *runtype.Run) outcome.Outcome {
	switch r.Phase {
	case runtype.Succeeded:
		return outcome.Done()
	case runtype.Cancelled:
		return outcome.Fail(CancelledByPerson.Errorf("run %s was cancelled", r.ID))
	case runtype.Paused:
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
