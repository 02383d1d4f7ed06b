package rollout

import (
	"slices"
	"strconv"
)

// inPlace judges a rollout in which the workload keeps its object.
type inPlace struct{ *judgement }

func rollingInPlace(j *judgement) judge { return inPlace{j} }

// verify is VerifySpec of a rollout in which the workload keeps its object.
func (j inPlace) verify() Verdict {
	w := *j.f.Target
	if !w.observed() {
		return busy("%s %s has not observed its newest spec", w.Kind, w.Name)
	}
	j.at.OriginalSize, j.at.TargetSize = new(w.Replicas), new(w.Replicas)
	j.p = j.at.withPodCounts(j.p, j.f)
	if err := j.refusedBy(problems, sizeOfRollout, batchesFit, somethingToRoll, foreignOwner, honoured, budgetPossible, gatesCompile); err != nil {
		return refused(err)
	}
	c := j.f.count(w, w.UpdateRevision)
	switch inFlight := c.updated - (w.Replicas - w.kept()); {
	case w.StatusReplicas != w.Replicas || c.pods != w.Replicas:
		return busy("%s %s is scaling: %d of %d pods", w.Kind, w.Name, c.pods, w.Replicas)
	case w.UpdateType != OnDelete && w.Template == j.f.Wanted.TargetRevision && inFlight < 0:
		return busy("%s %s is updating: %d pods have revision %s, %d are asked for", w.Kind, w.Name, c.updated, w.UpdateRevision, w.Replicas-w.kept())
	case j.changesReserved():
		return busy("%s %s is changing its reserved ordinals", w.Kind, w.Name)
	}
	at := j.resolved()
	at.Before = j.f.count(w, j.targetHash()).updated
	return Verdict{Done: true, Position: at}
}

func sizeOfRollout(j *judgement) error {
	if size := j.p.TargetSize; size != nil && *size != j.f.Target.Replicas {
		return SizeAndTemplateChanged.Errorf("targetSize is %d, %s has %d replicas, and its template changed too", *size, j.f.Target.Name, j.f.Target.Replicas).With("field", "targetSize")
	}
	return nil
}

func batchesFit(j *judgement) error { return j.p.Verify(j.at.Mode, j.original(), j.target()) }

func somethingToRoll(j *judgement) error {
	w := *j.f.Target
	if w.Template != j.at.TargetRevision {
		return nil
	}
	for _, p := range j.f.podsOf(w) {
		if p.Revision != w.UpdateRevision {
			return nil
		}
	}
	if w.Replicas == 0 || w.CurrentRevision == w.UpdateRevision {
		return NothingToRoll.Errorf("%s %s: all %d pods have revision %s", w.Kind, w.Name, w.Replicas, w.UpdateRevision)
	}
	return nil
}

// withPodCounts gives batches whose pods are selected by role or labels their number of pods.
func (at Position) withPodCounts(p Plan, f Facts) Plan {
	if !slices.ContainsFunc(p.RolloutBatches, func(b Batch) bool { return b.Pods != nil && b.Replicas == nil }) {
		return p
	}
	taken := map[string]bool{}
	p.RolloutBatches = slices.Clone(p.RolloutBatches)
	for i, b := range p.RolloutBatches {
		n := 0
		for _, pod := range f.podsOf(*f.Target) {
			if b.names(pod) && !taken[pod.Name] {
				taken[pod.Name] = true
				n++
			}
		}
		if b.Pods != nil && b.Replicas == nil {
			p.RolloutBatches[i].Replicas = Int(n)
		}
	}
	return p
}

// names reports whether the batch names the pod.
func (b Batch) names(pod Pod) bool {
	if b.Pods == nil {
		return slices.Contains(b.PodList, pod.Name)
	}
	s := b.Pods
	return (s.Ordinals == nil || slices.Contains(s.ordinals(), pod.Ordinal)) &&
		(s.Role == "" || s.Role == pod.Role) &&
		(s.Selector == nil || s.Selector.Matches(pod.Labels))
}

// pauses reports whether the kind has a field that stops its updates.
func (k Kind) pauses() bool { return k == CloneSet || k == AdvancedStatefulSet }

// initialize is Initialize: claim, template and the full hold in one write.
func (j inPlace) initialize() Verdict {
	w := *j.f.Target
	if !j.at.Named && j.unseen() { // it is its user's, and the next target
		return busy("%s %s has not observed its newest spec", w.Kind, w.Name)
	}
	a := w.act("hold every pod, then write the template")
	changed := false
	if !w.ours(j.f) || !w.Anchored || !w.Held {
		a.Claim, a.Held, changed = TakeClaim, new(true), true
	}
	if w.Template != j.at.TargetRevision {
		a.Template, changed = j.at.TargetRevision, true
	}
	if w.Partition != HoldAll {
		a.Partition, changed = new(HoldAll), true
	}
	if w.Kind.pauses() && w.Paused {
		a.Paused, changed = new(false), true
	}
	at := j.at
	if wanted := j.updateType(); w.UpdateType != wanted {
		a.UpdateType, changed = wanted, true
		if at.Original == nil {
			at.Original = &Original{UpdateType: w.UpdateType, Strategy: w.Strategy}
		}
	}
	if changed {
		return Verdict{Acts: []Act{a}, Position: at}
	}
	if !w.observed() {
		v := busy("%s %s has not observed the hold", w.Kind, w.Name)
		v.Position = at
		return v
	}
	if at.Named && at.TargetHash == "" { // which pods carry it is known now that the template is written
		at.Before = j.f.count(w, w.UpdateRevision).updated
	}
	at.TargetHash = w.UpdateRevision
	return Verdict{Done: true, Position: at}
}

// updateType is the one in which the rollout moves pods.
func (j inPlace) updateType() string {
	if j.p.picks() && !j.f.Target.counts() {
		return OnDelete
	}
	return RollingUpdate
}

// release is RolloutOneBatchPods: the partition goes down, or single pods are evicted.
func (j inPlace) release() Verdict {
	if j.updateType() == OnDelete {
		return j.pickNext()
	}
	w := *j.f.Target
	want := j.partition()
	if w.Partition <= want || w.kept() <= want && want == w.Replicas {
		return passed()
	}
	if j.weighs() {
		return j.weighNext()
	}
	to := want
	if j.single() {
		if to = max(want, w.kept()-j.standing()); to == w.kept() {
			v, ok := j.mayRelease(j.nextByPartition())
			if !ok {
				return v
			}
			to--
		}
	}
	a := w.act("release " + podCount(w.kept()-to) + " of batch " + strconv.Itoa(j.at.CurrentBatch))
	a.Partition = &to
	return Verdict{Acts: []Act{a}, Position: j.at}
}

// partition is how many pods the current batch keeps.
func (j inPlace) partition() int {
	w := *j.f.Target
	switch {
	case j.at.Rollback == nil:
		return w.Replicas - j.moved()
	case w.counts(): // those that have not gone back yet; pods of a third revision go too
		return j.moved()
	default:
		return w.Replicas - j.movedBack()
	}
}

func podCount(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return strconv.Itoa(n) + " pods"
}

// counts reports whether the partition counts pods without regard to their ordinals.
func (w WorkloadFacts) counts() bool { return w.Kind == CloneSet || w.Unordered }

// movedBack is how many positions the partition has to release in a rollback. The last batch releases
// all: pods that had the revision before the rollout began go back too.
func (j inPlace) movedBack() int {
	if j.at.CurrentBatch >= j.at.Rollback.FromBatch {
		return j.f.Target.Replicas
	}
	return j.p.moved(j.total(), j.at.CurrentBatch)
}

// nextByPartition is the pod that the next lower partition releases; nil: any one. Which pod a CloneSet
// takes is not known: one that is ready, in the worst case.
func (j inPlace) nextByPartition() *Pod {
	w := j.f.Target
	pods, last := j.f.podsOf(*w), w.kept()-1
	going := map[string]bool{}
	if w.counts() {
		for _, p := range j.going() {
			going[p.Name] = true
		}
	}
	for i := range pods {
		p := &pods[i]
		if w.counts() && p.Revision != j.revision() && !going[p.Name] && !j.f.away(p, w) || !w.counts() && w.ordinals().Place(p.Ordinal) == last {
			return p
		}
	}
	return nil
}

// standing is how many of the next pods have the revision already: a lower partition does not move them.
func (j inPlace) standing() int {
	w := j.f.Target
	if w.counts() {
		return 0
	}
	at := map[int]bool{}
	pods, to := j.f.podsOf(*w), j.revision()
	for i := range pods {
		if p := &pods[i]; p.Revision == to && !p.Terminating {
			at[w.ordinals().Place(p.Ordinal)] = true
		}
	}
	n := 0
	for at[w.kept()-1-n] {
		n++
	}
	return n
}

// check is CheckOneBatchPods: believe pods only.
func (j inPlace) check() Verdict {
	w := *j.f.Target
	if !w.observed() {
		return busy("%s %s has not observed its newest spec", w.Kind, w.Name)
	}
	c := j.f.count(w, j.revision())
	at, slack := j.at, j.maxUnavailable()
	if at.Rollback != nil {
		return j.checkBack(slack)
	}
	at.Upgraded, at.UpgradedReady = c.updated, c.good
	if w.UpdateType == OnDelete && c.pods > w.Replicas {
		v := busy("%s %s is scaling: %d of %d pods", w.Kind, w.Name, c.pods, w.Replicas)
		v.Position = at
		return v
	}
	if want := j.moved(); c.good+slack < want || j.missing() > slack {
		v := waits(j.nextMinReady(), "PodsNotReady", "%d of %d pods of batch %d are updated and ready", min(c.good, want), want, at.CurrentBatch)
		v.Position = at
		return v
	}
	return Verdict{Done: true, Position: at}
}

// missing is how many released positions have no pod that is updated and ready.
func (j inPlace) missing() int {
	w := j.f.Target
	if w.counts() || w.UpdateType == OnDelete {
		return 0
	}
	good := 0
	pods, revision := j.f.podsOf(*w), j.revision()
	for i := range pods {
		if p := &pods[i]; p.Revision == revision && w.ordinals().Place(p.Ordinal) >= w.kept() && w.ordinals().Place(p.Ordinal) < w.Replicas && j.f.available(p, w) {
			good++
		}
	}
	return w.Replicas - w.kept() - good
}

// takenBack is why a batch that was released must be released again; empty: it need not. The admission rule
// raises the partition with each write of another template.
func (j inPlace) takenBack() string {
	batch := strconv.Itoa(j.at.CurrentBatch)
	if j.f.Target.UpdateType == OnDelete { // a pod that went for another reason does not count
		if !j.picked() && j.nextInOrder() != nil {
			return "fewer pods were replaced than batch " + batch + " needs"
		}
		return ""
	}
	if kept, want := j.f.Target.kept(), j.partition(); kept > want {
		return "the partition is " + strconv.Itoa(kept) + ", and batch " + batch + " needs " + strconv.Itoa(want)
	}
	return ""
}

// stuck is a pod on which an ordered set waits for ever: not ready, released, and of a revision that is
// neither the source nor the one that pods are moved to.
func (j inPlace) stuck() *Pod {
	w := j.f.Target
	if j.at.Mode != Rollout || w.Kind != StatefulSet && w.Kind != AdvancedStatefulSet || w.Parallel {
		return nil
	}
	if _, ok := j.steady(); !ok {
		return nil
	}
	to, pods := j.revision(), j.f.podsOf(*w)
	for i := range pods {
		p := &pods[i]
		if p.Ready || p.Terminating || p.Revision == to || p.Revision == j.at.SourceHash && j.at.Rollback == nil ||
			w.UpdateType != OnDelete && w.ordinals().Place(p.Ordinal) < w.kept() {
			continue
		}
		return p
	}
	return nil
}

// checkBack is the check of a rollback: no more pods have the revision that is left than the batch
// allows, and those that went back are ready.
func (j inPlace) checkBack(slack int) Verdict {
	w := j.f.Target
	missing, left := j.missing(), 0
	if w.counts() || w.UpdateType == OnDelete {
		left = max(0, j.toRevert(true)-j.moved())
		pods := j.f.podsOf(*w)
		missing = max(0, w.Replicas-len(pods))
		for i := range pods {
			if pods[i].Revision == j.revision() && !j.f.available(&pods[i], w) {
				missing++
			}
		}
	}
	if left > 0 || missing > slack {
		return waits(j.nextMinReady(), "PodsNotReady", "%d pods have to go back, and %d that went back are not ready", left, missing)
	}
	return Verdict{Done: true, Position: j.at}
}

// inRange is FinalizeOneBatch: no pod may have moved that the batches so far do not name.
func (j inPlace) inRange() Verdict {
	w := *j.f.Target
	if j.at.Rollback != nil {
		return passed()
	}
	c := j.f.count(w, j.revision())
	most := max(j.moved(), w.Replicas-w.kept()) + j.at.Before
	if w.UpdateType == OnDelete { // a pod that anybody deletes comes back updated
		most = w.Replicas
	}
	if w.UpdateType != OnDelete && w.Replicas-w.kept() > j.moved()+j.resizedRelease() {
		return refused(BatchOutOfRange.Errorf("the partition of %s is %d: it releases %d pods, and batch %d ends at %d", w.Name, w.Partition, w.Replicas-w.kept(), j.at.CurrentBatch, j.moved()))
	}
	least := j.movedBefore()
	if c.updated > most || w.Replicas-c.old < least {
		return refused(BatchOutOfRange.Errorf("%d pods of %s are updated: batch %d allows %d to %d", c.updated, w.Name, j.at.CurrentBatch, least, most))
	}
	return passed()
}

// resizedRelease is how many positions a foreign resize has released: pods that are born above the
// partition are no overshoot.
func (j inPlace) resizedRelease() int {
	if j.at.Replans == 0 {
		return 0
	}
	return j.f.Target.Replicas
}

// finalize is Finalize: the claim goes, and the end decides about the hold.
func (j inPlace) finalize(succeeded bool) Verdict {
	if j.f.Target == nil || j.replaced() {
		return passed()
	}
	w := *j.f.Target
	if w.foreign(j.f) != nil {
		return passed()
	}
	a := w.act("release the workload")
	changed := false
	if w.ours(j.f) || w.Anchored {
		a.Claim, changed = ReleaseClaim, true
	}
	c := j.f.count(w, w.UpdateRevision)
	settled := c.old == 0 && c.updated == w.Replicas && !j.unseen()
	partition, held, paused := w.Partition, true, w.Paused
	switch {
	case succeeded && !settled:
		return busy("%d of %d pods of %s have revision %s", c.updated, c.updated+c.old, w.Name, w.UpdateRevision)
	case settled && w.CurrentRevision != w.UpdateRevision && succeeded && j.f.Wanted.HoldAlways && w.Kind == AdvancedStatefulSet && w.UpdateType == OnDelete:
		// such a set takes no revision over: it rolls again first, and all its pods are updated
		if original := j.at.Original; original != nil && original.UpdateType == RollingUpdate {
			back := w.act("let the set take the revision over")
			back.UpdateType, back.Strategy, back.Partition, back.Paused = original.UpdateType, original.Strategy, new(0), new(false)
			return Verdict{Acts: []Act{back}, Position: j.at}
		}
	case settled && w.CurrentRevision != w.UpdateRevision && succeeded && j.f.Wanted.HoldAlways:
		return busy("%s %s has not taken over revision %s yet", w.Kind, w.Name, w.UpdateRevision)
	case settled && j.f.Wanted.HoldAlways && !j.f.Wanted.Deleting:
		partition, paused = HoldAll, false
	case settled:
		partition, held, paused = 0, false, false
	case j.unseen() && !j.f.Wanted.Deleting:
		partition = HoldAll // the next rollout moves the pods
	case w.UpdateType == OnDelete && !succeeded:
		partition = HoldAll // the type goes back to RollingUpdate, and keeps the pods as they are
	case !succeeded && w.Kind.pauses():
		paused = true
	}
	end := w.UpdateType
	if original := j.at.Original; original != nil {
		if original.UpdateType != "" && w.UpdateType != original.UpdateType {
			a.UpdateType, a.Strategy, end, changed = original.UpdateType, original.Strategy, original.UpdateType, true
		}
		if len(w.First) > 0 {
			a.Strategy, changed = original.Strategy, true
		}
	}
	if w.Partition != partition && !(w.Kind != CloneSet && end == OnDelete) { // that has no partition
		a.Partition, changed = &partition, true
	}
	if w.Held != held {
		a.Held, changed = &held, true
	}
	if w.Kind.pauses() && w.Paused != paused {
		a.Paused, changed = &paused, true
	}
	if changed {
		return Verdict{Acts: []Act{a}, Position: j.at}
	}
	return Verdict{Done: true, Position: j.at}
}
