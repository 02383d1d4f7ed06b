package sharedstorage

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
)

// How often a step polls, and how long it waits where the flow sets no deadline.
const (
	pollSoon             = time.Second
	pollSlow             = 5 * time.Second
	unscheduledAfter     = 30 * time.Second // then an instance without a node is a fault
	unhealthyAfter       = 20 * time.Second // then a writer that does not answer is a fault
	candidateDownAfter   = time.Minute      // then a switch gives up a candidate that went down
	candidateBehindAfter = 5 * time.Second  // then a candidate without the end of the log will not get it
	caughtUpBytes        = 1 << 20          // a follower with less lag counts as caught up
)

// want returns the instance to create in a place. Class and version come from the run, or else
// from like, or else from the leader.
func (w *work) want(name, id string, kind port.Type, like *port.Instance) port.Instance {
	s := w.c.Spec
	i := port.Instance{Name: name, ID: id, Type: kind, Node: w.in.Node, NodeSelector: s.Scheduling.NodeSelector, Spread: cmp.Or(s.Scheduling.Spread, defaultSpread), SpreadAnyway: s.Scheduling.WhenUnsatisfiable == "ScheduleAnyway"}
	if i.Class, i.Version = w.in.Class, w.in.Version; i.Class.Name == "" || i.Version == "" {
		if like == nil {
			like = w.f.leader()
		}
		if like != nil && i.Class.Name == "" {
			if class, ok := w.f.class(like.Class.Name); ok {
				i.Class = class
			} else {
				i.Class = like.Class
			}
		}
		if like != nil && i.Version == "" {
			i.Version = like.Version
		}
	}
	if i.Class.Name == "" {
		i.Class, _ = w.f.class(w.c.className())
	}
	i.Version = cmp.Or(i.Version, s.Engine.Version)
	i.Image, i.Template = s.Images[i.Version], w.c.template(i.Class, i.Version)
	i.Port, i.Pod = w.freePort(name, id), w.c.podSettings().raw()
	return i
}

// freePort returns the port of an instance: its present one if spec.ports has it, or a free one of
// those; 0 lets the adapter choose. Two readers that are
// created at the same time do not see each other yet, so each leaves the lower ports to the places
// before its own.
func (w *work) freePort(name, place string) int32 {
	r := w.c.Spec.Ports
	if r == nil {
		return 0
	}
	step := max(r.Step, 1)
	used, own := map[int32]bool{}, int32(0)
	for _, i := range w.f.Instances {
		if i.Name == name {
			own = i.Port
			continue
		}
		used[i.Port] = true
	}
	if own >= r.Start && (own-r.Start)%step == 0 && !used[own] {
		return own
	}
	before := 0
	for _, other := range w.in.Readers[:max(slices.Index(w.in.Readers, place), 0)] {
		if len(w.f.holders(other)) == 0 {
			before++
		}
	}
	for at := r.Start; at <= 65535; at += step {
		if used[at] {
			continue
		}
		if before == 0 {
			return at
		}
		before--
	}
	return 0
}

// bringUp creates and starts an instance, with one action per poll: the instance, its data, its
// parameters, its engine. from is the instance whose data it copies; empty creates the writer.
// done means that the engine answers in its role.
func (w *work) bringUp(ctx context.Context, want port.Instance, from string) (done bool, out outcome.Outcome) {
	ports := w.ports()
	if w.f.named(want.Name) == nil {
		if err := w.call(ctx, func(ctx context.Context) error { return w.o.certify(ctx, w.c, want.Name) }); err != nil {
			return false, outcome.Fail(withInstance(err, want.Name))
		}
	}
	var got port.Instance
	err := w.call(ctx, func(ctx context.Context) (err error) { got, err = ports.Instances.Ensure(ctx, w.ref, want); return })
	if err != nil {
		return false, outcome.Fail(withInstance(err, want.Name))
	}
	switch got.State {
	case port.Unscheduled:
		if w.o.now().Sub(got.Since) >= unscheduledAfter || w.waited() >= unscheduledAfter {
			return false, outcome.Fail(port.PodUnscheduled.Errorf("instance %s: %s", want.Name, cmp.Or(got.Message, "no node takes it")).With("instance", want.Name))
		}
		return false, outcome.Wait(pollSlow, port.PodUnscheduled.Reason(), "instance %s waits for a node", want.Name)
	case port.Lost, port.Down:
		return false, w.await(pollSlow, port.PodLost, port.PodLost.Reason(), "instance %s: %s", want.Name, cmp.Or(got.Message, "it does not run"))
	case port.Up:
	default:
		return false, w.await(pollSoon, port.PodLost, "InstanceNotReady", "instance %s is being made", want.Name)
	}
	id := w.ref.Of(want.Name)
	var st port.Status
	if err := w.call(ctx, func(ctx context.Context) (err error) { st, err = ports.Engine.Status(ctx, id); return }); err != nil {
		return false, outcome.Fail(withInstance(err, want.Name))
	}
	source, err := w.source(ctx, from)
	if err != nil {
		return false, outcome.Fail(err)
	}
	switch {
	case !st.Installed && st.Code != "" && source.Restore != nil && w.t.Waited() == nil: // somebody has resumed the run
		if err := w.call(ctx, func(ctx context.Context) error {
			return ports.Engine.Install(ctx, id, source, w.ref.String()+"/"+want.Name)
		}); err != nil {
			return false, outcome.Fail(withInstance(err, want.Name))
		}
		return false, outcome.Wait(pollSoon, "Restoring", "the data of instance %s are restored again", want.Name)
	case !st.Installed && st.Code != "" && st.Code != string(port.WriterUnhealthy.Code):
		return false, outcome.Fail(engineFault(st, want.Name))
	case !st.Installed: // repeated on every poll: the source may have got another address
		if err := w.call(ctx, func(ctx context.Context) error {
			return ports.Engine.Install(ctx, id, source, w.ref.String()+"/"+want.Name)
		}); err != nil {
			return false, outcome.Fail(withInstance(err, want.Name))
		}
		return false, w.await(pollSoon, port.StartFailed, "Installing", "the data of instance %s are being made", want.Name)
	case st.Ready && (from != "" && st.Role == port.Follower || from == "" && st.Role == port.Primary):
		return true, outcome.Done()
	case st.Running:
		return false, w.await(pollSoon, port.StartFailed, "EngineStarting", "the engine of instance %s starts", want.Name)
	}
	if from == "" {
		if err := w.grant(ctx, want.Name); err != nil {
			return false, outcome.Fail(err)
		}
	}
	if err := w.call(ctx, func(ctx context.Context) error {
		_, err := ports.Engine.Apply(ctx, id, w.c.parameters(want.Class))
		return err
	}); err != nil {
		return false, outcome.Fail(withInstance(err, want.Name))
	}
	if err := w.archive(ctx, id, st); err != nil {
		return false, outcome.Fail(withInstance(err, want.Name))
	}
	start := func(ctx context.Context) error { return ports.Engine.Start(ctx, id) }
	if from != "" && st.Upstream != "" && st.Upstream != from {
		start = func(ctx context.Context) error { return ports.Engine.Follow(ctx, id, from) }
	}
	if err := w.call(ctx, start); err != nil {
		return false, outcome.Fail(withInstance(err, want.Name))
	}
	return false, w.await(pollSoon, port.StartFailed, "EngineStarting", "the engine of instance %s starts", want.Name)
}

// grant gives an instance the right to write: it renews its own grant, or issues a new one with a
// higher epoch.
func (w *work) grant(ctx context.Context, name string) error {
	epoch := w.f.Volume.Epoch
	if w.f.Volume.Writer != name {
		epoch = w.f.epoch() + 1
	}
	return w.call(ctx, func(ctx context.Context) error { return w.ports().Storage.Grant(ctx, w.ref, name, max(epoch, 1)) })
}

// withInstance adds the instance to a fault, for healers and for readers of the message.
func withInstance(err error, instance string) error {
	kind := fault.Of(err)
	if kind == fault.Unknown || fault.Details(err)["instance"] != nil {
		return err
	}
	tag := kind.Errorf("%s", fault.Message(err)).With("instance", instance)
	for key, value := range fault.Details(err) {
		tag = tag.With(key, value)
	}
	return tag
}

// engineFault returns the fault that an engine reports in its status.
func engineFault(st port.Status, instance string) error {
	kind, ok := fault.Lookup(st.Code)
	if !ok {
		kind = port.StartFailed
	}
	return kind.Errorf("instance %s: %s", instance, st.Message).With("instance", instance)
}

// bracket is the name of the bracket in which failover is off. All flows use the same.
const bracket = "HA"

// withHAOff wraps a step that some flows use within the bracket and others outside of it. Within
// the bracket each poll extends the time for which failover is off. While readers are added each
// poll also renews the lock on the topology.
func withHAOff(do step) step {
	return func(ctx context.Context, w *work) outcome.Outcome {
		if strings.HasPrefix(w.t.Step(), bracket+"/") {
			if ok, out := w.extendHAOff(ctx); !ok {
				return out
			}
		}
		if w.t.View().Run().Flow == adding {
			if out := takeTopologyLock(ctx, w); !out.IsDone() {
				return out
			}
		}
		return do(ctx, w)
	}
}

// checkHA is the check of every step within the bracket: the writer must be healthy, and failover
// must stay off long enough. If ok is false, out says why.
func (w *work) checkHA(ctx context.Context) (ok bool, out outcome.Outcome) {
	if ok, out := w.checkWriter(); !ok {
		return false, out
	}
	return w.extendHAOff(ctx)
}

// checkWriter checks that there is exactly one writer and that it is healthy. It waits for
// unhealthyAfter before it fails.
func (w *work) checkWriter() (ok bool, out outcome.Outcome) {
	if err := w.f.splitBrain(); err != nil {
		return false, outcome.Fail(err)
	}
	if w.f.writer() != nil {
		return true, out
	}
	if w.f.full() {
		return false, outcome.Fail(port.StorageFull.Errorf("%s", w.noWriterFault()))
	}
	if w.waited() >= unhealthyAfter {
		return false, outcome.Fail(port.WriterUnhealthy.Errorf("%s", w.noWriterFault()))
	}
	return false, outcome.Wait(pollSlow, port.WriterUnhealthy.Reason(), "there is no healthy writer")
}

func (w *work) noWriterFault() string {
	leader := w.f.leader()
	if leader == nil {
		return "there is no writer"
	}
	_, why := w.f.health(leader)
	return "instance " + leader.ID + ": " + cmp.Or(why, "it is not the writer")
}

// createReader creates the instance of a new place as a follower of the writer.
func createReader(ctx context.Context, w *work) outcome.Outcome {
	a, err := w.allocated()
	if err != nil || a.Skip {
		return outcome.Fail(err)
	}
	if ok, out := w.checkWriter(); !ok {
		return out
	}
	_, out := w.bringUp(ctx, w.want(a.Name, a.Place, port.Reader, nil), w.f.writer().Name)
	return out
}

// removeCreated undoes createReader.
func removeCreated(ctx context.Context, w *work) outcome.Outcome {
	a, err := w.allocated()
	if err != nil || a.Skip {
		return outcome.Done() // nothing was allocated, so nothing was created
	}
	if writer := w.f.writer(); writer != nil && writer.Name == a.Name {
		return outcome.Done() // a failover has made it the writer
	}
	return w.remove(ctx, a.Name)
}

// remove removes an instance from the cluster manager, then deletes it. It is Done when the
// instance is gone or is being deleted.
func (w *work) remove(ctx context.Context, name string) outcome.Outcome {
	if w.f.known(factManager) && w.f.Topology.Present {
		if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Manager.Remove(ctx, w.ref, name) }); err != nil {
			return outcome.Fail(err)
		}
	}
	if w.f.named(name) == nil {
		return outcome.Done()
	}
	return outcome.Fail(w.call(ctx, func(ctx context.Context) error { return w.ports().Instances.Remove(ctx, w.ref, name) }))
}

// awaitCaughtUp waits until a follower streams and is less than 1 MiB behind.
func awaitCaughtUp(ctx context.Context, w *work) outcome.Outcome {
	a, err := w.allocated()
	name := a.Name
	if err != nil { // no allocation: the step is not part of a replacement and works on a place
		holders := w.f.holders(w.placeID())
		if len(holders) == 0 {
			return outcome.Done()
		}
		name = holders[0].Name
	}
	if a.Skip {
		return outcome.Done()
	}
	if turned, out := w.promotedMeanwhile(ctx, a); turned {
		return out
	}
	if ok, out := w.checkWriter(); !ok {
		return out
	}
	writer := w.f.writer()
	if writer.Name == name {
		return outcome.Done()
	}
	i := w.f.named(name)
	if i == nil {
		return outcome.Fail(w.temporaryLost(a, name))
	}
	st := w.f.Engines[name]
	switch {
	case st.Code != "":
		return outcome.Fail(engineFault(st, name))
	case !st.Ready: // it was up and went down
		_, out := w.bringUp(ctx, *i, writer.Name)
		return out
	case st.Streaming && st.Lag >= 0 && st.Lag < caughtUpBytes:
		return outcome.Done()
	case st.Ready && (st.Upstream != writer.Name || !st.Streaming): // repeated on every poll: the writer may have got another address
		if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Follow(ctx, w.ref.Of(name), writer.Name) }); err != nil {
			return outcome.Fail(withInstance(err, name))
		}
	}
	w.t.Progress(-st.Lag, 0, "%d bytes behind", st.Lag)
	if waited := w.t.Waited(); waited != nil && !waited.Deadline.IsZero() && !w.o.now().Add(pollSoon).Before(waited.Deadline) {
		return outcome.Fail(port.ReplicaLag.Errorf("instance %s is %d bytes behind", name, st.Lag).With("instance", name))
	}
	return outcome.Wait(pollSoon, "CatchingUp", "instance %s is less than 1 MiB behind", name)
}

// temporaryLost returns the fault that a temporary reader was created and has disappeared.
func (w *work) temporaryLost(a allocation, name string) error {
	kind := TempInsIDNotFound
	if a.Writer {
		kind = TempRoForRwMetaLost
	}
	return kind.Errorf("instance %s, made for place %s, is not there", name, a.Place).With("id", a.Place)
}

// removeInstance removes the replaced instance, or the one in the place of the run.
func removeInstance(ctx context.Context, w *work) outcome.Outcome {
	a, err := w.allocated()
	if err == nil {
		if a.Skip || a.Old == "" {
			return outcome.Done()
		}
		if turned, out := w.promotedMeanwhile(ctx, a); turned {
			return out
		}
		if writer := w.f.writer(); writer != nil && writer.Name == a.Old {
			return outcome.Fail(InstanceIsWriter.Errorf("instance %s writes", a.Old))
		}
		return w.remove(ctx, a.Old)
	}
	holders := w.f.holders(w.placeID())
	if len(holders) == 0 {
		return outcome.Done()
	}
	if out := w.onlyReader(holders[0]); !out.IsDone() {
		return out
	}
	return w.remove(ctx, holders[0].Name)
}

func (w *work) onlyReader(i *port.Instance) outcome.Outcome {
	if leader := w.f.leader(); leader != nil && leader.Name == i.Name {
		return outcome.Fail(InstanceIsWriter.Errorf("instance %s became the writer meanwhile", i.ID))
	}
	return outcome.Done()
}

// removeInstances deletes all instances of a deleted cluster. Of a cluster that is being rebuilt
// it deletes only those that certainly hold no data that the others lack.
func removeInstances(ctx context.Context, w *work) outcome.Outcome {
	if w.c.DeletedAt.IsZero() {
		return w.stopEngines(ctx)
	}
	left := false
	for _, i := range w.f.Instances {
		left = true
		if i.State == port.Leaving {
			continue
		}
		if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Instances.Remove(ctx, w.ref, i.Name) }); err != nil {
			return outcome.Fail(err)
		}
	}
	if left {
		return w.await(pollSoon, port.PodLost, "InstancesLeaving", "instances are going away")
	}
	return outcome.Done()
}

// awaitReady waits until the instance of the run is ready.
func awaitReady(_ context.Context, w *work) outcome.Outcome {
	holders := w.f.holders(w.placeID())
	if len(holders) == 0 {
		return outcome.Done()
	}
	i := holders[0]
	health, why := w.f.health(i)
	if st := w.f.Engines[i.Name]; health == Healthy || st.Ready && st.Role == port.Follower && st.Streaming {
		return outcome.Done()
	} else if st.Code != "" {
		return outcome.Fail(engineFault(st, i.Name))
	}
	return w.await(pollSoon, port.StartFailed, "EngineStarting", "instance %s: %s", i.ID, why)
}
