package rollout

import (
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/rollout/internal/ordinal"
)

// scale judges a movement to another number of pods.
type scale struct{ *judgement }

func scaling(j *judgement) judge { return scale{j} }

// verify is VerifySpec of a scale.
func (j scale) verify() Verdict {
	w := *j.f.Target
	if j.p.TargetSize == nil {
		return refused(TargetSizeMissing.Errorf("%s %s has %d replicas, and the plan has no targetSize", w.Kind, w.Name, w.Replicas).With("field", "targetSize"))
	}
	if !w.observed() {
		return busy("%s %s has not observed its newest spec", w.Kind, w.Name)
	}
	j.at.OriginalSize, j.at.TargetSize = new(w.Replicas), j.p.TargetSize
	if err := j.refusedBy(problems, batchesFit, foreignOwner, honoured, gatesCompile); err != nil {
		return refused(err)
	}
	c := j.f.count(w, w.UpdateRevision)
	switch {
	case j.f.Autoscaler != "":
		return waits(0, ReplicasOwned.Reason(), "HorizontalPodAutoscaler %s scales %s %s: let it target the Rollout", j.f.Autoscaler, w.Kind, w.Name)
	case w.StatusReplicas != w.Replicas || c.pods != w.Replicas:
		return busy("%s %s is scaling: %d of %d pods", w.Kind, w.Name, c.pods, w.Replicas)
	case j.changesReserved():
		return busy("%s %s is changing its reserved ordinals", w.Kind, w.Name)
	case w.Kind == Deployment && c.old > 0,
		w.Kind != Deployment && w.UpdateType != OnDelete && c.updated < w.Replicas-w.kept():
		return busy("%s %s is updating: %d of %d pods have revision %s", w.Kind, w.Name, c.updated, w.Replicas, w.UpdateRevision)
	}
	return Verdict{Done: true, Position: j.resolved()}
}

// initialize is Initialize of a scale.
func (j scale) initialize() Verdict {
	w := *j.f.Target
	a := w.act("claim the workload")
	changed := false
	if !w.ours(j.f) || !w.Anchored || !w.Held {
		a.Claim, a.Held, changed = TakeClaim, new(true), true
	}
	if w.Paused && w.Kind != StatefulSet {
		a.Paused, changed = new(false), true
	}
	if changed {
		return Verdict{Acts: []Act{a}, Position: j.at}
	}
	return Verdict{Done: true, Position: j.at}
}

// release is RolloutOneBatchPods of a scale. What takes pods away is judged by the budgets.
func (j scale) release() Verdict {
	w := *j.f.Target
	size := j.size()
	if w.Replicas == size {
		return passed()
	}
	a := w.act("scale to " + strconv.Itoa(size) + " for batch " + strconv.Itoa(j.at.CurrentBatch))
	to := size
	if size < w.Replicas {
		next := j.nextToRemove()
		if j.single() {
			if v, ok := j.mayRemove(next); !ok {
				return v
			}
			to = w.Replicas - 1
		}
		if next != nil {
			if v, ok := j.handedOver(*next); !ok {
				return v
			}
		}
		if b := j.batch(); w.Kind == AdvancedStatefulSet && b.Pods != nil {
			a.Reserve = b.reserve(w, w.Replicas-to)
		}
	} else if j.paced() {
		if v, ok := j.mayRelease(nil); !ok {
			return v
		}
		to = w.Replicas + 1
	}
	a.Replicas = &to
	return Verdict{Acts: []Act{a}, Position: j.at}
}

// reserve adds the next chosen ordinals to those that the set skips.
func (b Batch) reserve(w WorkloadFacts, n int) []string {
	reserved, have := slices.Clone(w.Reserved), ordinal.List(w.Reserved)
	for _, o := range b.Pods.ordinals() {
		if n > 0 && !slices.Contains(have, o) {
			reserved = append(reserved, strconv.Itoa(o))
			n--
		}
	}
	return reserved
}

// nextToRemove is the pod that the next smaller size takes away: the highest ordinal, or the one that
// the batch chooses. Other kinds choose themselves: any pod that is ready, in the worst case.
func (j scale) nextToRemove() *Pod {
	w := *j.f.Target
	pods := j.f.podsOf(w)
	if len(pods) == 0 {
		return nil
	}
	if b := j.batch(); w.Kind == AdvancedStatefulSet && b.Pods != nil {
		for _, o := range b.Pods.ordinals() {
			if i := slices.IndexFunc(pods, func(p Pod) bool { return p.Ordinal == o }); i >= 0 {
				return &pods[i]
			}
		}
	}
	if w.Kind == StatefulSet || w.Kind == AdvancedStatefulSet {
		last := slices.MaxFunc(pods, func(a, b Pod) int { return a.Ordinal - b.Ordinal })
		return &last
	}
	if w.Kind == Deployment { // one that is not ready goes before those that are
		if i := slices.IndexFunc(pods, func(p Pod) bool { return !p.Ready && !p.Terminating }); i >= 0 {
			return &pods[i]
		}
	}
	for i := range pods {
		if !j.f.away(&pods[i], &w) {
			return &pods[i]
		}
	}
	return &pods[0]
}

// mayRemove waits until the pods that were taken away before have gone, then judges the budgets.
func (j scale) mayRemove(next *Pod) (Verdict, bool) {
	if extra := len(j.f.podsOf(*j.f.Target)) - j.f.Target.Replicas; extra > 0 {
		return waits(0, "PodsNotGone", "%d pods of %s have not gone yet", extra, j.f.Target.Name), false
	}
	return j.mayRelease(next)
}

// check is CheckOneBatchPods of a scale: going up the pods are ready, going down they are gone.
func (j scale) check() Verdict {
	w := *j.f.Target
	if !w.observed() {
		return busy("%s %s has not observed its newest spec", w.Kind, w.Name)
	}
	c, size := j.f.count(w, w.UpdateRevision), j.size()
	at := j.at
	at.Upgraded, at.UpgradedReady = abs(c.pods-j.original()), abs(c.ready-j.original())
	down := size < j.sizeAfter(at.CurrentBatch-1)
	var v Verdict
	switch {
	case down && c.pods > size:
		v = waits(0, "PodsNotGone", "%d pods of %s exist, %d are asked for", c.pods, w.Name, size)
	case !down && c.ready+j.maxUnavailable() < size:
		v = waits(j.nextMinReady(), "PodsNotReady", "%d of %d pods of %s are ready", c.ready, size, w.Name)
	default:
		v.Done = true
	}
	v.Position = at
	return v
}

// inRange is FinalizeOneBatch of a scale.
func (j scale) inRange() Verdict {
	a, b := j.sizeAfter(j.at.CurrentBatch-1), j.size()
	if size := j.f.Target.Replicas; size < min(a, b) || size > max(a, b) {
		return refused(BatchOutOfRange.Errorf("%s has %d replicas: batch %d goes from %d to %d", j.f.Target.Name, size, j.at.CurrentBatch, a, b))
	}
	return passed()
}

// finalize is Finalize of a scale.
func (j scale) finalize(succeeded bool) Verdict {
	if j.f.Target == nil || j.replaced() || j.f.Target.foreign(j.f) != nil {
		return passed()
	}
	w := *j.f.Target
	a, changed := w.act("release the workload"), false
	if w.ours(j.f) || w.Anchored {
		a.Claim, changed = ReleaseClaim, true
	}
	held := j.f.Wanted.HoldAlways && !j.f.Wanted.Deleting && w.Kind != Deployment || w.Partition != 0 && w.Partition != HoldAll
	if w.Held != held {
		a.Held, changed = &held, true
	}
	if !succeeded && w.Kind.pauses() && !w.Paused {
		a.Paused, changed = new(true), true
	}
	if changed {
		return Verdict{Acts: []Act{a}, Position: j.at}
	}
	return Verdict{Done: true, Position: j.at}
}
