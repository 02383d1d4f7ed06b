package rollout

import (
	"context"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

// save writes position, history and conditions, before anything is done.
func save(ctx context.Context, p *pass) outcome.Outcome {
	if err := p.fill(p.decision.Outcome); err != nil {
		return outcome.Fail(err)
	}
	if p.unimportant() && p.draft.Changed() {
		p.postponed = true
		if p.memory.postponed.IsZero() {
			p.memory.postponed = p.now
		}
		return outcome.Done()
	}
	if err := p.history.archive(ctx, p.rollout()); err != nil {
		return outcome.Fail(err)
	}
	if p.observedGeneration != p.rollout().Generation { // the limit may be lower
		if err := p.history.trim(ctx, p.rollout()); err != nil {
			return outcome.Fail(err)
		}
	}
	if err := p.write(ctx); err != nil {
		return outcome.Fail(err)
	}
	p.metrics.moved(p.was, p.decision.Position, p.decision.Records, p.now)
	p.events.report(p.rollout(), p.decision)
	if why := p.decision.Position.PlanRefused; why != "" && why != p.was.PlanRefused {
		reason := rollout.PlanChangeRefused.Reason()
		p.events.Warn(p.rollout(), reason, "%s", withRemedy(reason, why))
	}
	return outcome.Done()
}

func (p *pass) write(ctx context.Context) error {
	version := p.rollout().ResourceVersion
	if err := p.store.Save(ctx, p.draft, true); err != nil {
		return err
	}
	p.memory.postponed = time.Time{}
	if p.rollout().ResourceVersion != version {
		p.memory.saved = p.now
	}
	return nil
}

// unimportant reports whether the status can be written later, at the latest after quietSave. The next
// pass finds the same again, and shares the write that follows.
func (p *pass) unimportant() bool {
	r, d := p.rollout(), p.decision
	if r.Status.ObservedGeneration != r.Generation || p.observedGeneration != r.Generation {
		return false
	}
	return len(d.Acts) == 0 && p.now.Sub(p.memory.saved) < quietSave && onlyCounts(p.was, d) ||
		(p.memory.postponed.IsZero() || p.now.Sub(p.memory.postponed) < quietSave) && passes(p.was, d)
}

// onlyCounts reports whether only counts and messages have changed, or the pods of a batch have gone.
func onlyCounts(was rollout.Position, d rollout.Decision) bool {
	gone := len(d.Records) == 1 && d.Records[0].Event == rollout.RolloutOneBatch
	if len(d.Records) > 0 && (!gone || len(d.Asks) > 0) {
		return false
	}
	strip := func(at rollout.Position) rollout.Position {
		at = withoutCounts(at)
		if gone {
			at.Sequence, at.BatchState = 0, ""
		}
		return at
	}
	return reflect.DeepEqual(strip(was), strip(d.Position))
}

// untilSave is how long a postponed write still waits.
func (p *pass) untilSave() time.Duration {
	if left := quietSave - p.now.Sub(p.memory.saved); left > 0 {
		return left
	}
	return max(again, quietSave-p.now.Sub(p.memory.postponed))
}

// passes reports whether a decision waits for the workload's controller alone, and would be made again
// by a process that knew nothing of it: before a rollout begins, before an act that changes nothing of
// the position, and after the last batch, which the pass that lets the workload go closes as well.
func passes(was rollout.Position, d rollout.Decision) bool {
	ends := d.Position.State == rollout.Finalising && was.State == rollout.InBatch && len(d.Acts) == 0
	for _, r := range d.Records {
		ends = ends && endsLastBatch[r.Event]
	}
	switch w := d.Position.Waiting; {
	case w == nil, !passing[w.Reason], len(d.Asks) > 0, len(d.Records) > 0 && !ends:
		return false
	case !ends && moves(was.State) && len(d.Acts) == 0:
		return false
	}
	strip := func(at rollout.Position) rollout.Position {
		if w := at.Waiting; w != nil && (passing[w.Reason] || w.Reason == rollout.NothingToRoll.Reason()) {
			at.Waiting = nil
		}
		if ends {
			at = withoutCounts(at)
			at.State, at.BatchState, at.Sequence, at.Batches, at.Verified = "", "", 0, nil, nil
		}
		return at
	}
	return reflect.DeepEqual(strip(was), strip(d.Position))
}

// endsLastBatch are the events from the last release to the end of the last batch.
var endsLastBatch = map[rollout.Event]bool{rollout.RolloutOneBatch: true, rollout.OneBatchAvailable: true, rollout.AllBatchFinished: true}

// passing are waits that follow each other by themselves after a release.
var passing = map[string]bool{"Applying": true, rollout.WorkloadBusy.Reason(): true, "PodsNotReady": true, "PodsNotGone": true}

func withoutCounts(at rollout.Position) rollout.Position {
	at.Upgraded, at.UpgradedReady = 0, 0
	if at.Waiting != nil {
		w := *at.Waiting
		w.Message = ""
		if passing[w.Reason] {
			w = rollout.Waiting{}
		}
		at.Waiting = &w
	}
	return at
}

// fill makes the status that of the decision.
func (p *pass) fill(out outcome.Outcome) error {
	s, at := &p.rollout().Status, p.decision.Position
	p.observedGeneration = s.ObservedGeneration
	if err := writePosition(s, at); err != nil {
		return err
	}
	if err := addRecords(s, p.decision.Records); err != nil {
		return err
	}
	p.describe(at, out)
	s.Delivered = p.delivered(s)
	s.Preview = p.preview
	p.writeRefs(s)
	if t := p.facts.Target; t != nil {
		s.Replicas = new(int32(t.Replicas))
		if n := len(p.facts.Sources); n > 0 && at.TargetSize != nil {
			all := t.Replicas
			for _, source := range p.facts.Sources {
				all += source.Replicas
			}
			s.Replicas = new(int32(min(all, *at.TargetSize)))
		}
		if selector, err := workload.SelectorOfAll(p.target, p.left...); err == nil {
			s.Selector = selector.String()
		}
	}
	return nil
}

// describe fills what is for people.
func (p *pass) describe(at rollout.Position, out outcome.Outcome) {
	r := p.rollout()
	reading := reading{at: at, out: out, kind: p.kind, guarded: p.guarded, source: p.sourceName(at), rehearsed: p.rehearsed, now: p.now}
	if t := p.facts.Target; t != nil {
		reading.observed, reading.held = true, t.Held
	}
	if out.IsFail() || !p.closing() {
		condition.Set(&r.Status.Conditions, r.Generation, p.now, reading.conditions()...)
	}
	p.metrics.stands(p.key, reading.standing())
	if r.Status.Summary = summary(at, reading.remedy()); p.decided || p.refused { // else the position is about an earlier spec
		r.Status.ObservedGeneration = r.Generation
	}
}

// closing reports whether the decision closes the last batch and lets the workload go in one pass. Its
// write carries the records of the batch; the conditions, which are sent whole, follow with the end.
func (p *pass) closing() bool {
	return p.decided && p.was.State == rollout.InBatch && p.decision.Position.State == rollout.Finalising && len(p.decision.Acts) > 0 &&
		p.observedGeneration == p.rollout().Generation
}

// report writes what the links after the last write have met: a failure, or a refused eviction.
func (p *pass) report(ctx context.Context, out outcome.Outcome) error {
	if p.atRest || out.IsDone() || out.IsFail() && fault.Of(out.Err()).Uncharged {
		return nil
	}
	at := p.was
	if p.decided {
		at = p.decision.Position
	}
	switch {
	case out.IsFail():
	case out.Reason() == "DisruptionBudget" && p.decided && at.Waiting != nil:
		w := *at.Waiting
		w.Reason, w.Message = out.Reason(), out.Message()
		at.Waiting = &w
		if err := writePosition(&p.rollout().Status, at); err != nil {
			return err
		}
	default:
		return nil
	}
	was := p.stalledBy()
	p.describe(at, out)
	if p.refused && p.stalledBy() != was {
		p.events.Fault(p.rollout(), out.Err())
	}
	return p.write(ctx)
}

// stalledBy is what the condition Stalled says.
func (p *pass) stalledBy() string {
	if c := meta.FindStatusCondition(p.rollout().Status.Conditions, Stalled); c != nil {
		return c.Reason + c.Message
	}
	return ""
}
