package rollout

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

// decide asks rollout.Next, once more when the turn of a quorum is needed and was granted.
func decide(ctx context.Context, p *pass) outcome.Outcome {
	if p.decided {
		return outcome.Done()
	}
	f := &p.facts
	f.Wanted = p.wanted()
	f.Unavailable = rollout.Duration(p.memory.unavailable)
	if err := p.gates.Check(p.plan); err != nil {
		f.GateProblem = fault.Message(err)
	}
	if f.Target != nil {
		f.Target.Guarded = p.guarded
		if f.Target.Template == workload.Unobserved && !moves(p.was.State) {
			p.waits(outcome.Wait(time.Second, rollout.WorkloadBusy.Reason(), "%s %s has no revision of its template yet", p.kind, f.Target.Name))
			return outcome.Done()
		}
	}
	q := p.quorum()
	if q != nil {
		f.Turn = &rollout.Turn{Mine: !p.memory.turn.IsZero()}
		if f.Turn.Mine {
			turn, err := p.turns.take(ctx, p.rollout(), q, p.memory, p.now)
			if err != nil {
				return outcome.Fail(err)
			}
			f.Turn = turn
		}
	}
	p.decision = p.judge(ctx)
	if q != nil && p.decision.Outcome.Reason() == "QuorumTurn" {
		turn, err := p.turns.take(ctx, p.rollout(), q, p.memory, p.now)
		if err != nil {
			return outcome.Fail(err)
		}
		f.Turn = turn
		p.decision = p.judge(ctx)
	}
	p.decided = true
	return outcome.Done()
}

// wanted is what the Rollout asks for. The target is the template that the workload has; while its
// controller has made no revision of that, the recorded one counts.
func (p *pass) wanted() rollout.Wanted {
	r := p.rollout()
	w := rollout.Wanted{
		Kind: p.kind, TargetSize: p.plan.TargetSize, HasSource: r.Spec.SourceRef != nil, HoldAlways: r.Spec.Hold != "DuringRollout",
		DeletionPolicy: rollout.DeletionPolicy(r.Spec.DeletionPolicy), Deleting: p.deleting(), Request: p.request, TargetRevision: p.was.TargetRevision,
	}
	if t := p.facts.Target; t != nil && t.ObservedGeneration >= t.Generation && t.Template != workload.Unobserved && t.Template != "" {
		w.TargetRevision = t.Template
	}
	return w
}

// act does the writes of the decision.
func act(ctx context.Context, p *pass) outcome.Outcome {
	switch {
	case p.releasesNext():
		p.memory.due = p.since
	case p.decision.Position.State != rollout.InBatch:
		p.memory.due = time.Time{}
	}
	for _, a := range p.decision.Acts {
		err := p.workload.Apply(ctx, a)
		switch {
		case err == nil && a.Evict != nil:
			p.memory.removed[a.Evict.UID] = true
		case err == nil && a.Delete != nil:
			p.memory.removed[a.Delete.UID] = true
		case err == nil:
		case fault.Of(err) == rollout.WorkloadBusy:
			return outcome.Wait(pollTurn, "DisruptionBudget", "%s", fault.Message(err))
		default:
			return outcome.Fail(err)
		}
	}
	if due := p.memory.due; len(p.decision.Acts) > 0 && !due.IsZero() {
		p.metrics.released(p.Operator.now().Sub(due))
		p.memory.due = time.Time{}
	}
	return outcome.Done()
}

// releasesNext reports whether the decision is the first to release pods of a batch behind the first.
func (p *pass) releasesNext() bool {
	at := p.decision.Position
	return len(p.decision.Acts) > 0 && at.State == rollout.InBatch && at.CurrentBatch > 0 &&
		(p.was.CurrentBatch < at.CurrentBatch || p.was.BatchState == rollout.BatchInitializing)
}

// answer removes the annotation of the request, as its answer is saved.
func answer(ctx context.Context, p *pass) outcome.Outcome {
	if last := p.rollout().Status.LastRequest; p.request == nil || last == nil || last.ID != p.request.ID {
		return outcome.Done()
	}
	if err := p.store.Annotate(ctx, p.draft, p.annotated, p.value, ""); err != nil {
		return outcome.Fail(err)
	}
	return outcome.Done()
}
