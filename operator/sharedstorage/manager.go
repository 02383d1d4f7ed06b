package sharedstorage

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
)

// createManager has the manager there: of the wanted version, knowing all that
// is in a place, away from the writer's node.
func createManager(ctx context.Context, w *work) outcome.Outcome {
	var t port.Topology
	err := w.call(ctx, func(ctx context.Context) (err error) {
		t, err = w.ports().Manager.Ensure(ctx, w.ref, w.c.managerSpec())
		return
	})
	if err != nil {
		return outcome.Fail(err)
	}
	if !t.Ready {
		return w.await(pollSoon, port.ManagerUnreachable, "ManagerStarting", "the cluster manager starts")
	}
	return outcome.Done()
}

// addToManager makes the instance of a place a member, or all that are in one.
func addToManager(ctx context.Context, w *work) outcome.Outcome {
	var members []port.Member
	if a, err := w.allocated(); err == nil {
		if a.Skip {
			return outcome.Done()
		}
		if turned, out := w.promotedMeanwhile(ctx, a); turned {
			return out
		}
		i := w.f.named(a.Name)
		if i == nil {
			return outcome.Fail(w.temporaryLost(a, a.Name))
		}
		members = append(members, memberOf(i))
	} else {
		members = w.c.managerSpec().Members
	}
	if err := w.restoreManager(ctx); err != nil {
		return outcome.Fail(err)
	}
	for _, m := range members {
		if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Manager.Add(ctx, w.ref, m) }); err != nil {
			return outcome.Fail(err)
		}
	}
	return outcome.Done()
}

// stopManager takes the manager away: nobody fails over from here on.
func stopManager(ctx context.Context, w *work) outcome.Outcome {
	return outcome.Fail(w.call(ctx, func(ctx context.Context) error {
		_, err := w.ports().Manager.Ensure(ctx, w.ref, port.ManagerSpec{})
		return err
	}))
}

// disableHA asks the manager to stop failing over, until an end.
func disableHA(ctx context.Context, w *work) outcome.Outcome {
	if ok, out := w.checkWriter(); !ok {
		if !w.switches() { // a switch is also the way out when the writer is gone
			return out
		}
	}
	_, out := w.setHAOff(ctx)
	return out
}

// switches reports the flow of a switch that a person has asked for.
func (w *work) switches() bool { return w.c.Status.State == string(Switching) }

func (w *work) setHAOff(ctx context.Context) (ok bool, out outcome.Outcome) {
	if err := w.restoreManager(ctx); err != nil {
		return false, outcome.Fail(err)
	}
	if !w.c.haEnabled() {
		return true, outcome.Done() // it is off, and has no end
	}
	until := w.o.now().Add(w.o.options.HAOffFor)
	if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Manager.SetHA(ctx, w.ref, false, until) }); err != nil {
		return false, outcome.Fail(err)
	}
	return true, outcome.Done()
}

// restoreManager makes a manager anew that somebody has deleted, or that has lost its
// memory, while a flow needs it. What it was told before stays as long as its memory does.
func (w *work) restoreManager(ctx context.Context) error {
	if !w.f.known(factManager) || w.f.Topology.Ready {
		return nil
	}
	var t port.Topology
	err := w.call(ctx, func(ctx context.Context) (err error) {
		t, err = w.ports().Manager.Ensure(ctx, w.ref, w.c.managerSpec())
		return
	})
	if err != nil {
		return err
	}
	if !w.f.Topology.Present {
		w.o.emit(w.c, managerRestored)
	}
	if !t.Ready {
		return port.ManagerUnreachable.Errorf("the cluster manager of %s was gone, and starts anew", w.ref)
	}
	w.f.Topology = t
	return nil
}

// extendHAOff is the look of every step within the bracket: failover must be off, and
// its end far enough away.
func (w *work) extendHAOff(ctx context.Context) (ok bool, out outcome.Outcome) {
	if err := w.f.Unknown[factManager]; err != nil {
		return false, outcome.Fail(err)
	}
	t := w.f.Topology
	if t.Present && !w.c.haEnabled() && !t.HA || !t.HA && !t.Until.IsZero() && t.Until.Sub(w.o.now()) > w.o.options.HAOffFor/2 {
		return true, out
	}
	return w.setHAOff(ctx)
}

// enableHA gives failover back, as the spec asks. A manager that is gone is made
// anew; it is tried without end. A writer that was stopped for a switch which
// did not come to its promotion writes again.
func enableHA(ctx context.Context, w *work) outcome.Outcome {
	w.forgetOrders()
	if out := unfenceOldWriter(ctx, w); out.IsFail() {
		w.t.Logger().Warn("the writer could not be started again", "error", out.Err())
	}
	if !w.f.known(factManager) || !w.f.Topology.Present {
		if err := w.call(ctx, func(ctx context.Context) error {
			_, err := w.ports().Manager.Ensure(ctx, w.ref, w.c.managerSpec())
			return err
		}); err != nil {
			return outcome.Fail(err)
		}
	}
	return outcome.Fail(w.call(ctx, func(ctx context.Context) error {
		return w.ports().Manager.SetHA(ctx, w.ref, w.c.haEnabled(), time.Time{})
	}))
}

// updateRunningStatus verifies what the flow has left: a writer that takes
// writes, records that fit the roles, failover as the spec asks. The request is
// closed in the write that ends the state.
func updateRunningStatus(ctx context.Context, w *work) outcome.Outcome {
	if err := w.f.splitBrain(); err != nil {
		return outcome.Fail(err)
	}
	writer := w.f.writer()
	if writer == nil {
		if w.waited() >= time.Minute {
			return outcome.Fail(port.WriterUnhealthy.Errorf("%s", w.noWriterFault()))
		}
		return outcome.Wait(pollSoon, port.WriterUnhealthy.Reason(), "there is no healthy writer")
	}
	if writer.Type == port.Reader {
		retyped := *writer
		retyped.Type = port.Writer
		if err := w.call(ctx, func(ctx context.Context) error { _, err := w.ports().Instances.Ensure(ctx, w.ref, retyped); return err }); err != nil {
			return outcome.Fail(err)
		}
	}
	for _, i := range w.f.readers() {
		if health, why := w.f.health(i); health == Starting && w.waited() < 2*time.Minute {
			return outcome.Wait(pollSoon, "ReaderStarting", "reader %s: %s", i.ID, why)
		}
	}
	if err := w.f.Unknown[factManager]; err != nil {
		return outcome.Fail(err)
	}
	if t := w.f.Topology; t.HA != w.c.haEnabled() {
		return enableHA(ctx, w)
	}
	return outcome.Done()
}
