package rollout

import "strconv"

// deployments judges a rollout from one Deployment to another.
type deployments struct{ *judgement }

func betweenDeployments(j *judgement) judge { return deployments{j} }

// verify is VerifySpec of a rollout from one Deployment to another.
func (j deployments) verify() Verdict {
	w := *j.f.Target
	if len(j.f.Sources) == 0 {
		if !j.f.Wanted.HasSource {
			return refused(SourceMissing.Errorf("Deployment %s: name the one with the old template in sourceRef", w.Name).With("field", "sourceRef"))
		}
		return waits(0, TargetMissing.Reason(), "the source Deployment does not exist")
	}
	sources := j.f.sourceReplicas()
	size := sources
	if j.p.TargetSize != nil {
		size = *j.p.TargetSize
	}
	if w.Replicas+sources > size { // what a modification has left behind
		size = max(size, w.Replicas+sources)
	}
	j.at.OriginalSize, j.at.TargetSize = new(sources), &size
	if j.p.TargetSize != nil && *j.p.TargetSize < sources {
		return refused(PlanInvalid.Errorf("targetSize is %d: a rollout of Deployments does not shrink, and the source has %d replicas", *j.p.TargetSize, sources).With("field", "targetSize"))
	}
	if err := j.refusedBy(problems, batchesFit, foreignOwner, honoured, budgetPossible, gatesCompile); err != nil {
		return refused(err)
	}
	if sources == 0 && w.Replicas == size {
		return refused(NothingToRoll.Errorf("Deployment %s has all %d pods already", w.Name, size))
	}
	for _, d := range j.f.workloads() {
		c := j.f.count(d, d.UpdateRevision)
		switch {
		case !d.observed():
			return busy("Deployment %s has not observed its newest spec", d.Name)
		case d.StatusReplicas != d.Replicas || c.pods != d.Replicas:
			return busy("Deployment %s is scaling: %d of %d pods", d.Name, c.pods, d.Replicas)
		case c.old > 0:
			return busy("Deployment %s is updating: %d pods have an old revision", d.Name, c.old)
		}
	}
	at := j.resolved()
	at.Before, at.TargetHash = w.Replicas, w.UpdateRevision
	return Verdict{Done: true, Position: at}
}

// initialize is Initialize: both belong to the rollout.
func (j deployments) initialize() Verdict {
	var acts []Act
	for _, w := range j.f.workloads() {
		a, changed := w.act("claim the Deployment"), false
		if !w.ours(j.f) || !w.Anchored || !w.Held {
			a.Claim, a.Held, changed = TakeClaim, new(true), true
		}
		if w.Paused {
			a.Paused, changed = new(false), true
		}
		if changed {
			acts = append(acts, a)
		}
	}
	return Verdict{Done: len(acts) == 0, Acts: acts, Position: j.at}
}

// halves are the sizes that target and sources have when the current batch has ended.
func (j deployments) halves() (target, sources int) {
	size, first := j.target(), j.original()
	if j.at.Rollback != nil {
		left := j.moved() // pods that are still at the target
		return min(left, j.f.Target.Replicas), max(0, first-left)
	}
	moved := max(j.moved(), min(j.at.Before, size))
	return moved, max(0, min(first, size-moved))
}

// increaseFirst reports whether the side that grows goes first; a rollback always lets the source
// grow first.
func (j deployments) increaseFirst() bool {
	return j.at.Rollback != nil || j.p.RolloutStrategy != DecreaseFirst
}

// release is RolloutOneBatchPods: two halves, told apart by what is observed.
func (j deployments) release() Verdict {
	target, sources := j.halves()
	grow, shrink := j.growTarget, j.shrinkSources
	if j.at.Rollback != nil {
		grow, shrink = j.growSource, j.shrinkTarget
	}
	first, second := grow, shrink
	if !j.increaseFirst() {
		first, second = shrink, grow
	}
	for _, half := range []func(target, sources int) (Verdict, bool){first, second} {
		if v, ok := half(target, sources); !ok {
			v.Position = j.at
			return v
		}
	}
	return passed()
}

func (w WorkloadFacts) scaleTo(n int, why string) Verdict {
	a := w.act(why + " Deployment " + w.Name + " to " + strconv.Itoa(n))
	a.Replicas = &n
	return Verdict{Acts: []Act{a}}
}

// stepDown is how far a Deployment may shrink now: one pod at a time where budgets count.
func (j deployments) stepDown(w WorkloadFacts, to int) (int, Verdict, bool) {
	if !j.single() {
		return to, Verdict{}, true
	}
	pods := j.f.podsOf(w)
	if extra := len(pods) - w.Replicas; extra > 0 {
		return 0, waits(0, "PodsNotGone", "%d pods of Deployment %s have not gone yet", extra, w.Name), false
	}
	var next *Pod
	for i := range pods {
		if !pods[i].Ready && !pods[i].Terminating { // it goes before those that are ready
			next = &pods[i]
			break
		}
		if !j.f.away(&pods[i], &w) {
			next = &pods[i]
		}
	}
	if v, ok := j.mayRelease(next); !ok {
		return 0, v, false
	}
	return w.Replicas - 1, Verdict{}, true
}

func (j deployments) growTarget(target, _ int) (Verdict, bool) {
	w := *j.f.Target
	if w.Replicas < target {
		if j.paced() {
			if v, ok := j.mayRelease(nil); !ok {
				return v, false
			}
			target = w.Replicas + 1
		}
		return w.scaleTo(target, "grow"), false
	}
	if w.Replicas > target && j.at.Before <= target { // a foreign change is put back
		return w.scaleTo(target, "put back"), false
	}
	if c := j.f.count(w, w.UpdateRevision); !w.observed() || c.good+j.maxUnavailable() < target {
		return waits(j.nextMinReady(), "PodsNotReady", "%d of %d pods of Deployment %s are ready", c.good, target, w.Name), false
	}
	return Verdict{}, true
}

func (j deployments) shrinkSources(_, sources int) (Verdict, bool) {
	if have := j.f.sourceReplicas(); have < sources { // a foreign change is put back
		if len(j.f.Sources) == 0 {
			return waits(0, TargetMissing.Reason(), "the source Deployment does not exist"), false
		}
		w := j.f.Sources[len(j.f.Sources)-1]
		return w.scaleTo(w.Replicas+sources-have, "put back"), false
	}
	extra := j.f.sourceReplicas() - sources
	for _, w := range j.f.Sources { // the oldest shrinks first
		if extra <= 0 || w.Replicas == 0 {
			continue
		}
		to, v, ok := j.stepDown(w, max(0, w.Replicas-extra))
		if !ok {
			return v, false
		}
		return w.scaleTo(to, "shrink"), false
	}
	pods := 0
	for _, w := range j.f.Sources {
		pods += len(j.f.podsOf(w))
	}
	if pods > sources {
		return waits(0, "PodsNotGone", "%d pods of the source exist, %d are asked for", pods, sources), false
	}
	return Verdict{}, true
}

func (j deployments) growSource(_, sources int) (Verdict, bool) {
	if len(j.f.Sources) == 0 {
		return Verdict{}, true
	}
	w := j.f.Sources[len(j.f.Sources)-1]
	if have := j.f.sourceReplicas(); have < sources {
		return w.scaleTo(w.Replicas+sources-have, "grow"), false
	}
	ready := 0
	for _, s := range j.f.Sources {
		ready += j.f.count(s, s.UpdateRevision).ready
	}
	if ready+j.maxUnavailable() < sources {
		return waits(0, "PodsNotReady", "%d of %d pods of the source are ready", ready, sources), false
	}
	return Verdict{}, true
}

func (j deployments) shrinkTarget(target, _ int) (Verdict, bool) {
	w := *j.f.Target
	if w.Replicas > target {
		to, v, ok := j.stepDown(w, target)
		if !ok {
			return v, false
		}
		return w.scaleTo(to, "shrink"), false
	}
	if n := len(j.f.podsOf(w)); n > target {
		return waits(0, "PodsNotGone", "%d pods of Deployment %s exist, %d are asked for", n, w.Name, target), false
	}
	return Verdict{}, true
}

// check is CheckOneBatchPods: both halves are reached.
func (j deployments) check() Verdict {
	at := j.at
	c := j.f.count(*j.f.Target, j.f.Target.UpdateRevision)
	at.Upgraded, at.UpgradedReady = c.updated, c.good
	v := j.release()
	v.Acts = nil
	if !v.Done && v.Outcome.IsDone() {
		v = waits(0, "PodsNotReady", "the Deployments do not have the sizes of batch %d", at.CurrentBatch)
	}
	v.Position = at
	return v
}

// inRange is FinalizeOneBatch: together the Deployments have the size that is asked for.
func (j deployments) inRange() Verdict {
	target, sources := j.halves()
	got := j.f.Target.Replicas + j.f.sourceReplicas()
	if surge := j.at.Rollback != nil && got > target+sources; got != target+sources && !surge { // the batch that went back had not let the source shrink
		return refused(BatchOutOfRange.Errorf("the Deployments have %d replicas together, %d are asked for", got, target+sources))
	}
	return passed()
}

// finalize is Finalize: the claims go, the sizes stay.
func (j deployments) finalize(_ bool) Verdict {
	var acts []Act
	var all []WorkloadFacts
	if j.f.Target != nil && !j.replaced() {
		all = append(all, *j.f.Target)
	}
	for _, w := range append(all, j.f.Sources...) {
		if w.foreign(j.f) != nil || !w.ours(j.f) && !w.Anchored && !w.Held {
			continue
		}
		a := w.act("release the Deployment")
		a.Claim, a.Held = ReleaseClaim, new(false)
		acts = append(acts, a)
	}
	return Verdict{Done: len(acts) == 0, Acts: acts, Position: j.at}
}
