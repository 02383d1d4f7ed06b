package rollout

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

// decide asks rollout.Next, once more when the turn of a quorum is needed and was granted.
func decide(ctx context.Context, p *pass) outcome.Outcome {
	if p.decided {
		return outcome.Done()
	}
	p.complete()
	f := &p.facts
	if f.Target != nil {
		if f.Target.Template == workload.Unobserved && !moves(p.was.State) && (f.Target.Held || !holdsAlways(p.rollout())) {
			p.waits(outcome.Wait(time.Second, rollout.WorkloadBusy.Reason(), "%s %s has no revision of its template yet", p.kind, f.Target.Name))
			return outcome.Done()
		}
	}
	q := p.quorum()
	if q != nil {
		f.Turn = &rollout.Turn{Mine: !p.memory.turn.IsZero() || p.seeksTurn()}
		if f.Turn.Mine {
			turn, err := p.turns.take(ctx, p.rollout(), q, p.memory, p.now)
			if err != nil {
				return outcome.Fail(err)
			}
			f.Turn = turn
		}
	}
	p.decision = p.judge(ctx)
	if p.memory.asked.rest(held(p.decision)) {
		if err := p.judgeAnew(ctx); err != nil {
			return outcome.Fail(err)
		}
	}
	if q != nil && p.decision.Outcome.Reason() == "QuorumTurn" {
		turn, err := p.turns.take(ctx, p.rollout(), q, p.memory, p.now)
		if err != nil {
			return outcome.Fail(err)
		}
		f.Turn = turn
		p.decision = p.judge(ctx)
	}
	if p.overdue() {
		p.reader.fresh = true
		if err := p.judgeAnew(ctx); err != nil {
			return outcome.Fail(err)
		}
	}
	p.decided = true
	p.memory.moving.Store(moves(p.decision.Position.State))
	if err := p.rehearse(); err != nil {
		return outcome.Fail(err)
	}
	return outcome.Done()
}

// seeksTurn reports whether pods of the batch were released that are not back yet, by a process that had
// the turn: this one takes it up again, once.
func (p *pass) seeksTurn() bool {
	at := p.was
	released := at.Released != nil && (at.Batches[at.CurrentBatch].Start == nil || !at.Released.Before(*at.Batches[at.CurrentBatch].Start))
	batch := batchOf{at.Number, at.CurrentBatch, at.Rollback != nil}
	if !releasing(at) || !released || p.memory.sought == batch {
		return false
	}
	p.memory.sought = batch
	return true
}

// judgeAnew observes and judges once more.
func (p *pass) judgeAnew(ctx context.Context) error {
	turn := p.facts.Turn
	if err := p.look(ctx); err != nil {
		return err
	}
	p.complete()
	p.facts.Turn = turn
	p.decision = p.judge(ctx)
	return nil
}

// held reports whether a decision waits for a person, with nothing under way: for an approval, or for
// the end of a pause.
func held(d rollout.Decision) bool {
	reason, pause := d.Outcome.Reason(), d.Position.Pause
	return reason == heldReason || pause != nil && reason == pause.Reason
}

// overdue reports whether the decision lets a deadline act: what caches show may be older than that, so
// that the API server is asked first.
func (p *pass) overdue() bool {
	at, late := p.decision.Position, rollout.DeadlinePassed.Reason()
	return at.Pause != nil && at.Pause.By == rollout.ByDeadline && p.was.Pause == nil ||
		at.Failure != nil && at.Failure.Reason == late && p.was.Failure == nil
}

// complete adds what is known without the workload.
func (p *pass) complete() {
	f := &p.facts
	f.Wanted, f.MissingRevision, f.Recorded = p.wanted(), p.missing, p.recorded
	f.Unavailable, f.Since = rollout.Duration(p.memory.unavailable), p.memory.since
	if err := p.gates.Check(p.plan); err != nil {
		f.GateProblem = fault.Message(err)
	}
	if f.Target != nil {
		f.Target.Guarded = p.guarded
	}
}

// wanted is what the Rollout asks for. The target is the template that the workload has; while its
// controller has made no revision of that, the recorded one counts.
func (p *pass) wanted() rollout.Wanted {
	w := wantedOf(p.rollout(), p.plan, p.was, p.facts)
	w.Kind, w.Request = p.kind, p.request
	if p.rollout().Spec.Application != nil {
		p.wantRevisions(&w)
	}
	return w
}

// holdsAlways reports whether a new template is held between rollouts too.
func holdsAlways(r *api.Rollout) bool {
	return r.Spec.Hold != "DuringRollout" && (r.Spec.Application == nil || r.Spec.Hold != "")
}

func wantedOf(r *api.Rollout, plan rollout.Plan, was rollout.Position, f rollout.Facts) rollout.Wanted {
	w := rollout.Wanted{
		TargetSize: plan.TargetSize, HasSource: r.Spec.SourceRef != nil, HoldAlways: holdsAlways(r),
		DeletionPolicy: rollout.DeletionPolicy(r.Spec.DeletionPolicy), Deleting: !r.DeletionTimestamp.IsZero(), TargetRevision: was.TargetRevision,
	}
	if r.Spec.RolloutPlan.Paused {
		w.PausedFor = r.Annotations[PauseReasonAnnotation]
	}
	if refs := refsOf(r); refs != nil {
		w.Kind = kindOf(refs[0])
	}
	if a := r.Spec.Application; a != nil {
		w.Named, w.TargetRevision, w.SourceRevision, w.HasSource = true, a.TargetRevision, a.SourceRevision, a.SourceRevision != ""
		return w
	}
	if t := f.Target; t != nil && t.ObservedGeneration >= t.Generation && t.Template != workload.Unobserved && t.Template != "" {
		w.TargetRevision = t.Template
	}
	return w
}

// act does the writes of the decision.
func act(ctx context.Context, p *pass) outcome.Outcome {
	for _, a := range p.decision.Acts {
		err := p.workload.Apply(ctx, a)
		switch {
		case err == nil && a.Evict != nil:
			p.memory.removed[a.Evict.UID] = true
			p.metrics.delay.Observe(p.Operator.now().Sub(p.since()).Seconds())
		case err == nil && a.Delete != nil:
			p.memory.removed[a.Delete.UID] = true
		case err == nil && p.releases(a):
			p.metrics.delay.Observe(p.Operator.now().Sub(p.since()).Seconds())
		case err == nil:
		case fault.Of(err) == rollout.WorkloadBusy:
			return outcome.Wait(pollTurn, "DisruptionBudget", "%s", fault.Message(err))
		default:
			return outcome.Fail(err)
		}
	}
	return outcome.Done()
}

// releases reports whether a write lets pods of a batch go or come.
func (p *pass) releases(a rollout.Act) bool {
	s, t := p.decision.Position.State, p.facts.Target
	return (s == rollout.InBatch || s == rollout.RollingBack) && a.Template == "" &&
		(a.Replicas != nil || a.Partition != nil && t != nil && *a.Partition < t.Partition)
}

// since is when the event came that led to this pass.
func (p *pass) since() time.Time {
	if p.heard == 0 {
		return p.now
	}
	return time.Unix(0, p.heard)
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
