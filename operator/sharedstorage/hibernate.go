package sharedstorage

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
)

// The states of a cluster whose spec says hibernated: no instance runs, and the data stay.
//
//	Running ──HibernateCluster──▶ Hibernated ──WakeCluster──▶ Running
//	           manager, readers, writer          writer, readers, manager
const (
	Hibernating machine.State = "Hibernating"
	Hibernated  machine.State = "Hibernated"
	Waking      machine.State = "Waking"
)

// ClusterHibernated is the fault of a request that needs engines which run.
var ClusterHibernated = declare("CLUSTER_HIBERNATED", fault.Invalid, "the cluster is hibernated",
	"Set spec.hibernated to false (pawl pg wake), and ask again when it is Running.")

// readersWakeIn is how long a waking cluster waits for its readers. Those that are not back then are
// rebuilt once it is Running.
const readersWakeIn = 5 * time.Minute

// suspended reports whether an instance is kept from running.
func (f *Facts) suspended() bool {
	for i := range f.Instances {
		if f.Instances[i].State == port.Suspended {
			return true
		}
	}
	return false
}

// awake reports whether something of a cluster runs that should not run while it is hibernated.
func (f *Facts) awake() bool {
	for i := range f.Instances {
		if s := f.Instances[i].State; s != port.Suspended && s != port.Leaving {
			return true
		}
	}
	return f.known(factManager) && f.Topology.Present
}

// sleeps reports whether a cluster is in a state in which only its run starts or ends instances.
func sleeps(p machine.Position) bool {
	at := p.State
	if p.Held {
		at = p.Previous
	}
	return at == Hibernating || at == Hibernated || at == Waking
}

// hibernate is the transition to Hibernating. It waits for a healthy writer, so that what wrote last is
// certain. A cluster that a dropped run has left half asleep needs none.
func (o *Operator) hibernate() transition {
	return transition{Event: "hibernate", To: Hibernating, Why: "spec.hibernated is true", Params: plain, Purpose: desiredSleep, When: func(c *Cluster) (bool, error) {
		f := c.Facts
		return c.Spec.Hibernated && f.known(factInstances) && f.known(factVolume) && (f.writer() != nil || f.suspended()), nil
	}}
}

// wake is the transition to Waking.
func (o *Operator) wake() transition {
	return transition{Event: "wake", To: Waking, Why: "spec.hibernated is false", Params: plain, Purpose: desiredWaking, When: func(c *Cluster) (bool, error) {
		return !c.Spec.Hibernated && c.Facts.known(factInstances) && c.Facts.suspended(), nil
	}}
}

// fromHibernated lists the transitions from Hibernated. Somebody may have ended the run of a waking in
// its middle, so that there are instances to end again.
func (o *Operator) fromHibernated() []transition {
	again := o.hibernate()
	again.Why = "an instance or the cluster manager is back although spec.hibernated is true"
	again.When = func(c *Cluster) (bool, error) {
		return c.Spec.Hibernated && c.Facts.known(factInstances) && c.Facts.known(factVolume) && c.Facts.awake(), nil
	}
	wake := o.wake()
	wake.When = func(c *Cluster) (bool, error) { return !c.Spec.Hibernated && c.Facts.known(factInstances), nil }
	return []transition{wake, again}
}

func desiredSleep(c *Cluster) (any, error) {
	return map[string]any{"hibernated": c.Spec.Hibernated}, nil
}

// desiredWaking holds what a waking instance is given besides its data: mending it mends the run.
func desiredWaking(c *Cluster) (any, error) {
	class, _ := c.Facts.class(c.className())
	return map[string]any{"hibernated": c.Spec.Hibernated, "version": c.Spec.Engine.Version, "template": c.template(class, c.Spec.Engine.Version), "class": class.Name}, nil
}

// suspendReaders ends all instances but the writer.
func suspendReaders(ctx context.Context, w *work) outcome.Outcome {
	writer, waits := w.f.leader(), ""
	for n := range w.f.Instances {
		i := &w.f.Instances[n]
		if writer != nil && i.Name == writer.Name {
			continue
		}
		ended, err := w.suspend(ctx, i)
		if err != nil {
			return outcome.Fail(withInstance(err, i.Name))
		}
		if !ended {
			waits = i.ID
		}
	}
	if waits != "" {
		return w.await(pollSoon, port.PodLost, "Suspending", "instance %s is being ended", waits)
	}
	return outcome.Done()
}

// suspendWriter ends the writer after all others, so that its data have everything. Its grant stays: it
// is the one that may write when the cluster wakes.
func suspendWriter(ctx context.Context, w *work) outcome.Outcome {
	if out := suspendReaders(ctx, w); !out.IsDone() {
		return out
	}
	i := w.f.leader()
	if i == nil {
		return outcome.Done()
	}
	if _, asked := w.f.Engines[i.Name]; !asked && i.State == port.Up && w.waited() < unhealthyAfter {
		return w.await(pollSoon, port.WriterUnhealthy, "WriterNotAsked", "instance %s cannot be asked whether it has stopped", i.ID)
	}
	switch ended, err := w.suspend(ctx, i); {
	case err != nil:
		return outcome.Fail(withInstance(err, i.Name))
	case !ended:
		return w.await(pollSoon, port.WriterUnhealthy, "Suspending", "instance %s, the writer, is being ended", i.ID)
	}
	return outcome.Done()
}

// suspend stops the engine of an instance fast, so that it flushes everything and stays stopped, then
// ends the instance. It reports whether it has ended.
func (w *work) suspend(ctx context.Context, i *port.Instance) (ended bool, err error) {
	if i.State == port.Suspended || i.State == port.Leaving {
		return true, nil
	}
	if st, asked := w.f.Engines[i.Name]; asked && st.Running {
		return false, w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Stop(ctx, w.ref.Of(i.Name), port.Fast) })
	}
	var got port.Instance
	err = w.call(ctx, func(ctx context.Context) (err error) {
		got, err = w.ports().Instances.Suspend(ctx, w.ref, i.Name)
		return
	})
	return got.State == port.Suspended, err
}

// verifyHibernated checks that nothing runs any more.
func verifyHibernated(ctx context.Context, w *work) outcome.Outcome {
	if w.f.known(factManager) && w.f.Topology.Present {
		if out := stopManager(ctx, w); !out.IsDone() {
			return out
		}
		return w.await(pollSoon, port.ManagerUnreachable, "ManagerLeaving", "the cluster manager is going away")
	}
	if w.f.awake() {
		return suspendWriter(ctx, w)
	}
	return outcome.Done()
}

// wakeWriter starts the instance with the grant, and no other: it wrote last, so it has everything.
func wakeWriter(ctx context.Context, w *work) outcome.Outcome {
	i := w.f.writer()
	if i == nil {
		i = w.f.named(w.f.Volume.Writer)
	}
	if i == nil {
		return outcome.Fail(port.DataLost.Errorf("instance %q, which wrote last, is gone; no other is promoted by itself", w.f.Volume.Writer))
	}
	_, out := w.wake(ctx, i, "")
	return out
}

// wakeReaders starts all other instances as followers, side by side. It gives up one that does not
// come back: the writer works, and a reader that has failed is rebuilt at rest. A writer that has failed
// meanwhile is started first: while there is no cluster manager nobody takes its place.
func wakeReaders(ctx context.Context, w *work) outcome.Outcome {
	if err := w.f.splitBrain(); err != nil {
		return outcome.Fail(err)
	}
	if w.f.writer() == nil {
		if out := wakeWriter(ctx, w); !out.IsDone() {
			return out
		}
		return w.await(pollSoon, port.WriterUnhealthy, "Waking", "the writer is started")
	}
	writer, waits := w.f.writer(), ""
	for n := range w.f.Instances {
		i := &w.f.Instances[n]
		st := w.f.Engines[i.Name]
		if i.Name == writer.Name || i.State == port.Leaving || st.Ready && st.Streaming && st.Lag >= 0 && st.Lag < caughtUpBytes {
			continue
		}
		waits = fmt.Sprintf("instance %s catches up with the writer", i.ID)
		if st.Ready && st.Role == port.Follower { // repeated on every poll: the writer may have got another address
			if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Follow(ctx, w.ref.Of(i.Name), writer.Name) }); err != nil {
				waits = fmt.Sprintf("instance %s: %s", i.ID, fault.Message(err))
			}
			continue
		}
		if _, out := w.wake(ctx, i, writer.Name); out.IsFail() {
			waits = fmt.Sprintf("instance %s: %s", i.ID, fault.Message(out.Err()))
		} else if out.IsWait() {
			waits = out.Message()
		}
	}
	if waits == "" {
		return outcome.Done()
	}
	if w.waited() >= readersWakeIn {
		w.t.Logger().Warn("a reader is not back, and is left to the repairs of a running cluster", "why", waits)
		return outcome.Done()
	}
	return outcome.Wait(pollSoon, "ReadersWaking", "%s", waits)
}

// wake lets an instance run again, as the spec wants it now, on the data that it has.
func (w *work) wake(ctx context.Context, i *port.Instance, from string) (done bool, out outcome.Outcome) {
	w.in.Class, w.in.Version = port.Class{}, ""
	if w.c.refusal(ofClass, ofVersion) == nil { // otherwise it runs as before, and Running says what is wrong
		w.in.Class, _ = w.f.class(w.c.className())
		w.in.Version = w.c.Spec.Engine.Version
	}
	want := w.want(i.Name, i.ID, i.Type, i)
	if i.State == port.Suspended && !(i.RunsAs(want) || i.Template == "" && i.Class.Name == want.Class.Name && i.Version == want.Version) {
		if err := w.call(ctx, func(ctx context.Context) error { _, err := w.ports().Instances.Recreate(ctx, w.ref, want); return err }); err != nil {
			return false, outcome.Fail(withInstance(err, i.Name))
		}
		return false, w.await(pollSoon, port.PodLost, "Waking", "instance %s is started with what the spec asks of it now", i.ID)
	}
	return w.bringUp(ctx, want, from)
}

// asleep returns the condition of a cluster on its way into hibernation, in it, or on its way out of
// it, and whether there is one to tell.
func asleep(c *Cluster, kind string, p machine.Position) (at metav1.Condition, tells bool) {
	switch {
	case p.Held || p.Visit == 0:
	case p.State == Hibernated:
		return condition.New(kind, metav1.ConditionFalse, string(Hibernated), "no instance runs, and the data are kept: set spec.hibernated to false to wake the cluster"), true
	case (p.State == Hibernating || p.State == Waking) && c.Facts.writer() == nil:
		return condition.New(kind, metav1.ConditionFalse, string(p.State), "%s", map[machine.State]string{
			Hibernating: "the instances are being ended, and the data are kept", Waking: "the instances are being started, the writer first",
		}[p.State]), true
	}
	return at, false
}

// hasSlept reports whether all of a cluster was ended, and its status written after that.
func (c *Cluster) hasSlept() bool {
	at := machine.State(c.Status.State)
	if at == Interrupted {
		at = machine.State(c.Status.PreviousState)
	}
	return at == Hibernated || at == Waking
}
