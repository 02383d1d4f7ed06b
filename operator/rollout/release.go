package rollout

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

// release gives back what is not needed any more: the turn, the watches, and a Rollout that is deleted.
// Its outcome is that of the pass.
func release(ctx context.Context, p *pass) outcome.Outcome {
	at, d := p.decision.Position, p.decision
	if q := p.quorum(); q != nil && !p.memory.turn.IsZero() && !releasing(at) {
		if err := p.turns.release(ctx, p.rollout(), q, p.memory); err != nil {
			return outcome.Fail(err)
		}
		p.wakeOthers()
	}
	if !moves(at.State) {
		p.memory.moving.Store(false)
		p.dependents.Release(p.key)
	}
	if err := p.awaited.set(p.key, p.awaits); err != nil {
		return outcome.Fail(err)
	}
	done := len(d.Acts) == 0 && at.State.Terminal() && d.Outcome.IsDone()
	if done && p.deleting() {
		return p.letGo(ctx)
	}
	idle := done || p.rehearsed || len(d.Acts) == 0 && at.State == rollout.Locating && d.Outcome.Reason() == rollout.NothingToRoll.Reason()
	if idle && (p.postponed || p.undelivered()) { // the status does not say yet what event hooks have got
		p.again(quietSave)
		return outcome.Wait(p.soonest, "EventHooks", "event hooks have not got the newest records, or the status does not say so yet")
	}
	if idle && p.facts.Target != nil && p.facts.Target.ObservedGeneration >= p.facts.Target.Generation && len(p.facts.Target.Template) > 0 {
		p.resting = p.fingerprint()
		p.memory.rested = p.resting
		return outcome.Done()
	}
	p.memory.rested = ""
	return p.next(d)
}

// releasing reports whether the turn is still needed: from a release until its pods are back.
func releasing(at rollout.Position) bool {
	return (at.State == rollout.InBatch || at.State == rollout.RollingBack) &&
		(at.BatchState == rollout.BatchInRolling || at.BatchState == rollout.BatchVerifying && at.Verified == nil)
}

// next is when the decision is made again without an event.
func (p *pass) next(d rollout.Decision) outcome.Outcome {
	out := d.Outcome
	if !out.IsWait() {
		return out
	}
	after := resync
	switch {
	case len(d.Acts) > 0:
		after = afterAct
	case out.Reason() == "QuorumTurn" && !p.turnIsNear():
		after = pollTurn
	case out.Reason() == "QuorumTurn": // who has it wakes the others when it ends; or else it runs out
		after = turnDuration
	case !p.memory.turn.IsZero():
		after = turnDuration / 3
	case out.Reason() == rollout.KindNotServed.Reason(), p.awaitsOptional(): // a definition may come or go
		after = pollKind
	case p.postponed:
		after = p.untilSave()
	}
	for _, d := range []time.Duration{out.After(), p.soonest} {
		if d > 0 {
			after = min(after, d)
		}
	}
	return outcome.Wait(after, out.Reason(), "%s", out.Message())
}

// awaitsOptional reports whether a workload is missing whose kind may not be served any more: its
// objects go before that is seen.
func (p *pass) awaitsOptional() bool {
	return slices.ContainsFunc(p.awaits, func(ref workload.Ref) bool {
		return workload.Optional(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Group)
	})
}

// turnIsNear reports whether a Rollout that this process moves has the turn.
func (p *pass) turnIsNear() bool {
	turn := p.facts.Turn
	return turn != nil && slices.ContainsFunc(p.rollouts.movingIn(context.Background(), p.rollout()), func(key types.NamespacedName) bool { return key.Name == turn.Holder })
}

// wakeOthers tells the Rollouts of the namespace that a turn is free.
func (p *pass) wakeOthers() {
	for _, key := range p.rollouts.movingIn(context.Background(), p.rollout()) {
		if key != p.key {
			p.rollouts.wake(key)
		}
	}
}

// letGo takes the label off the workload and the finalizer off the Rollout.
func (p *pass) letGo(ctx context.Context) outcome.Outcome {
	for _, ref := range p.workload.Refs() {
		o, err := p.workload.Read(ctx, ref)
		switch {
		case fault.Of(err) == rollout.KindNotServed, fault.Of(err) == rollout.UnsupportedWorkload, o == nil && err == nil:
			continue
		case err != nil:
			return outcome.Fail(err)
		case o.GetLabels()[workload.RolloutLabel] != p.key.Name:
			continue
		}
		left := leftOn(p.key.Name, p.decision.Position, p.facts, ref)
		if left != "" {
			p.events.Warn(o, "LeftInTheMiddle", "%s", left)
		}
		if err := p.workload.Unlabel(ctx, o, left); err != nil {
			return outcome.Fail(err)
		}
	}
	if err := p.store.Release(ctx, p.draft); err != nil && !errors.Is(err, control.NotFound) {
		return outcome.Fail(err)
	}
	p.metrics.undelivered.Add(float64(p.lost()))
	p.forget(p.key)
	return outcome.Done()
}
