package sharedstorage

import (
	"cmp"
	"context"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

// healPoll is how often a healer checks whether the cause is gone.
const healPoll = 10 * time.Second

// Healers returns the healers by fault code, with their limits per run.
func (o *Operator) Healers() map[faultCode]workflow.Healer {
	heal := func(s step, attempts int) workflow.Healer {
		return workflow.Healer{Do: o.do(s), Limits: workflow.Limits{Attempts: attempts}}
	}
	first := func(s step) workflow.Healer {
		return workflow.Healer{Do: o.do(s), From: workflow.FromFirst, Limits: workflow.Limits{Attempts: 1}}
	}
	return map[faultCode]workflow.Healer{
		port.PodLost.Code:               heal(nodeIsBack, 3),
		port.PodUnscheduled.Code:        heal(nodeTakesIt, 10),
		port.NoAvailableNode.Code:       heal(nodeIsReady, 10),
		port.StartFailed.Code:           first(rebuildFaulty),
		port.TargetNodeUnavailable.Code: {Do: o.do(nothing), Undo: true, Limits: workflow.Limits{Attempts: 1}},
		TempInsIDNotFound.Code:          first(nothing),
		TempRoForRwMetaLost.Code:        first(nothing),
		RoMetaInvalid.Code:              first(removeDuplicates),
		port.WriterUnhealthy.Code:       heal(writerIsHealthy, 20),
		port.ReplicaLag.Code:            heal(lagIsSmall, 10),
		port.ManagerUnreachable.Code:    heal(remakeManager, 2),
		port.TwoWriters.Code:            heal(fenceLower, 3),
		port.ClaimRetained.Code:         heal(adoptionIsAllowed, 10),
		port.GrantLost.Code:             heal(nothing, 20), // the retried step restores the record, or fails again with this code
	}
}

func nothing(context.Context, *work) outcome.Outcome { return outcome.Done() }

// faultyInstance returns the instance that the fault names; nil if it names none or the instance
// is gone.
func (w *work) faultyInstance() *port.Instance {
	if f := w.t.Fault(); f != nil {
		if name, ok := f.Details["instance"].(string); ok {
			return w.f.named(name)
		}
	}
	return nil
}

// nodeIsBack waits until the node answers. An instance that is only down is started again by the
// step.
func nodeIsBack(_ context.Context, w *work) outcome.Outcome {
	if i := w.faultyInstance(); i != nil && i.State == port.Lost {
		return outcome.Wait(healPoll, port.PodLost.Reason(), "instance %s cannot be asked", i.Name)
	}
	for _, i := range w.f.Instances {
		if w.faultyInstance() == nil && i.State == port.Lost {
			return outcome.Wait(healPoll, port.PodLost.Reason(), "instance %s cannot be asked", i.Name)
		}
	}
	return outcome.Done()
}

func nodeTakesIt(_ context.Context, w *work) outcome.Outcome {
	for _, i := range w.f.Instances {
		if i.State == port.Unscheduled {
			return outcome.Wait(healPoll, port.PodUnscheduled.Reason(), "no node takes instance %s", i.Name)
		}
	}
	return outcome.Done()
}

func nodeIsReady(ctx context.Context, w *work) outcome.Outcome {
	var nodes []port.Node
	err := w.call(ctx, func(ctx context.Context) (err error) { nodes, err = w.ports().Instances.Nodes(ctx, w.ref); return })
	if err != nil {
		return outcome.Fail(err)
	}
	for _, n := range nodes {
		if n.Ready && n.Schedulable {
			return outcome.Done()
		}
	}
	return outcome.Wait(healPoll, port.NoAvailableNode.Reason(), "none of %d nodes is ready", len(nodes))
}

// rebuildFaulty removes a reader whose engine does not start, so that the run creates it again. It
// does not touch a writer, whose data may be the only copy.
func rebuildFaulty(ctx context.Context, w *work) outcome.Outcome {
	name := ""
	if f := w.t.Fault(); f != nil {
		name, _ = f.Details["instance"].(string)
	}
	i := w.f.named(name)
	_, recreated := w.in.Former[name]
	switch {
	case recreated:
		return outcome.Fail(port.StartFailed.Errorf("%s was recreated on its data, which are kept", name))
	case name == "" || name == w.f.Volume.Writer || i != nil && i.Type == port.Writer:
		return outcome.Fail(port.StartFailed.Errorf("%s is not a reader that could be rebuilt", cmp.Or(name, "it")))
	case i != nil:
		if out := w.remove(ctx, name); !out.IsDone() {
			return out
		}
		return outcome.Wait(pollSoon, "InstancesLeaving", "instance %s is going away", name)
	}
	for _, i := range w.f.Instances {
		if i.Name == name {
			return outcome.Wait(pollSoon, "InstancesLeaving", "instance %s is going away", name)
		}
	}
	return outcome.Done()
}

// removeDuplicates removes the instances that share a place with a better one.
func removeDuplicates(ctx context.Context, w *work) outcome.Outcome {
	for n := range w.f.Instances {
		i := &w.f.Instances[n]
		if i.State == port.Leaving || i.Type == port.Temporary || i.Name == w.f.Volume.Writer {
			continue
		}
		for _, other := range w.f.holders(i.ID) {
			if other.Name == i.Name || other.Type == port.Temporary || other.Name != w.f.Volume.Writer && !w.f.preferred(other, i) {
				continue
			}
			if out := w.remove(ctx, i.Name); !out.IsDone() {
				return out
			}
			break
		}
	}
	return outcome.Done()
}

func writerIsHealthy(_ context.Context, w *work) outcome.Outcome {
	if w.f.writer() == nil {
		return outcome.Wait(healPoll, port.WriterUnhealthy.Reason(), "there is no healthy writer")
	}
	return outcome.Done()
}

func adoptionIsAllowed(_ context.Context, w *work) outcome.Outcome {
	if !w.c.Spec.Storage.AdoptClaims && w.f.Volume.State == "" {
		return outcome.Wait(healPoll, port.ClaimRetained.Reason(), "spec.storage.adoptClaims is not set")
	}
	return outcome.Done()
}

func lagIsSmall(_ context.Context, w *work) outcome.Outcome {
	i := w.faultyInstance()
	if i == nil {
		return outcome.Done()
	}
	if st, asked := w.f.Engines[i.Name]; !asked || !st.Streaming || st.Lag < 0 || st.Lag >= caughtUpBytes {
		return outcome.Wait(healPoll, port.ReplicaLag.Reason(), "instance %s is not less than 1 MiB behind", i.Name)
	}
	return outcome.Done()
}

// remakeManager creates the cluster manager again.
func remakeManager(ctx context.Context, w *work) outcome.Outcome {
	if w.f.known(factManager) && w.f.Topology.Ready {
		return outcome.Done()
	}
	if err := w.call(ctx, func(ctx context.Context) error {
		_, err := w.ports().Manager.Ensure(ctx, w.ref, w.c.managerSpec())
		return err
	}); err != nil {
		return outcome.Fail(err)
	}
	return outcome.Wait(pollSoon, "ManagerStarting", "the cluster manager starts")
}

// fenceLower stops all writers but the one with the newest epoch.
func fenceLower(ctx context.Context, w *work) outcome.Outcome {
	many := w.f.primaries()
	if len(many) < 2 {
		return outcome.Done()
	}
	for _, i := range many[1:] {
		if err := w.call(ctx, func(ctx context.Context) error { return w.ports().Engine.Stop(ctx, w.ref.Of(i.Name), port.Immediate) }); err != nil {
			return outcome.Fail(err)
		}
	}
	return outcome.Wait(pollSoon, port.TwoWriters.Reason(), "a second writer is being fenced")
}
