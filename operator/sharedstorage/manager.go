package sharedstorage

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
)

// createManager creates the cluster manager in the desired version, with all placed instances as
// members and on another node than the writer.
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

// addToManager adds the allocated instance to the cluster manager, or all placed instances if the
// run allocated none.
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

// stopManager removes the cluster manager, so that nothing fails over from here on, and the poolers.
func stopManager(ctx context.Context, w *work) outcome.Outcome {
	if err := w.o.removePoolers(ctx, w.c); err != nil {
		return outcome.Fail(err)
	}
	return outcome.Fail(w.call(ctx, func(ctx context.Context) error {
		_, err := w.ports().Manager.Ensure(ctx, w.ref, port.ManagerSpec{})
		return err
	}))
}

// disableHA switches failover off until a time.
func disableHA(ctx context.Context, w *work) outcome.Outcome {
	if ok, out := w.checkWriter(); !ok {
		if !w.switches() { // a switch may go on: it is also the way out when the writer is gone
			return out
		}
	}
	_, out := w.setHAOff(ctx)
	return out
}

// switches reports whether the run is a switch that a person requested.
func (w *work) switches() bool { return w.c.Status.State == string(Switching) }

func (w *work) setHAOff(ctx context.Context) (ok bool, out outcome.Outcome) {
	if err := w.restoreManager(ctx); err != nil {
		return false, outcome.Fail(err)
	}
	if !w.c.haEnabled() {
		return true, outcome.Done() // failover is off for good
	}
	until := w.o.now().Add(w.o.options.HAOffFor)
	if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Manager.SetHA(ctx, w.ref, false, until) }); err != nil {
		return false, outcome.Fail(err)
	}
	return true, outcome.Done()
}

// restoreManager creates the cluster manager again if somebody deleted it or if it lost its state
// while a flow needs it. Its settings survive as long as its state does.
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

// extendHAOff is called by every step within the bracket on each poll: it checks that failover is
// off, and extends the time before it ends.
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

// enableHA switches failover on again if the spec wants it, and retries without limit. It
// recreates a missing cluster manager. It also starts the writer again that a switch stopped
// without promoting another one, and ends the pause of the poolers there.
func enableHA(ctx context.Context, w *work) outcome.Outcome {
	w.forgetOrders()
	if out := unfenceOldWriter(ctx, w); out.IsFail() {
		w.t.Logger().Warn("the writer could not be started again", "error", out.Err())
	}
	w.resume(ctx)
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

// updateRunningStatus verifies the result of the flow: the writer accepts writes, the recorded
// types fit the roles, and failover is as the spec wants. The request is closed in the write that
// ends the state.
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
