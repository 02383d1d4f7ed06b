package rollout

import (
	"cmp"
	"slices"
	"strconv"
)

// movedPods are told by the positions that the batch has released, or by looking where the workload or the
// plan has chosen.
func (j inPlace) movedPods() []string {
	w := *j.f.Target
	if w.counts() || w.UpdateType == OnDelete {
		return j.chosenPods()
	}
	from, to := w.Replicas-j.moved(), w.Replicas-j.movedBefore()
	if back := j.at.Rollback; back != nil {
		from, to = w.Replicas-j.movedBack(), w.Replicas
		if j.at.CurrentBatch > 0 {
			to -= j.p.moved(j.total(), j.at.CurrentBatch-1)
		}
		from = max(from, w.Replicas-back.Size)
	}
	return j.between(from, to, j.revision())
}

// movedPods are those of the Deployment that has grown: which pods the other has taken away is not seen.
func (j deployments) movedPods() []string {
	grown := []WorkloadFacts{*j.f.Target}
	if j.at.Rollback != nil {
		grown = j.f.Sources
	}
	var pods []Pod
	for _, d := range grown {
		pods = append(pods, j.f.podsOf(d)...)
	}
	return newest(pods, abs(j.moved()-j.movedBefore()))
}

// between are the pods with positions from..to-1, the highest first; revision is what they carry, or "".
func (j *judgement) between(from, to int, revision string) []string {
	w := j.f.Target
	var pods []Pod
	for _, p := range j.f.podsOf(*w) {
		if at := w.ordinals().Place(p.Ordinal); at >= from && at < to && (revision == "" || p.Revision == revision) {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b Pod) int { return b.Ordinal - a.Ordinal })
	return podNames(pods)
}

// chosenPods are those of a batch that chooses its pods, or lets the workload choose.
func (j inPlace) chosenPods() []string {
	batch := j.batch()
	var pods []Pod
	for _, p := range j.f.podsOf(*j.f.Target) {
		if p.Revision != j.revision() || p.Terminating {
			continue
		}
		mine := !batch.chooses() && !slices.ContainsFunc(j.p.RolloutBatches, func(b Batch) bool { return b.chooses() && b.names(p) })
		if j.at.Rollback != nil || mine || batch.chooses() && batch.names(p) {
			pods = append(pods, p)
		}
	}
	return newest(pods, abs(j.moved()-j.movedBefore()))
}

// movedPods are those that came, or the names of those that have gone: none where the workload has chosen
// them.
func (j scale) movedPods() []string {
	w := j.f.Target
	before, after := j.sizeAfter(j.at.CurrentBatch-1), j.size()
	ordered := w.Kind == StatefulSet || w.Kind == AdvancedStatefulSet
	switch {
	case after >= before && ordered:
		return j.between(before, after, "")
	case after >= before:
		return newest(j.f.podsOf(*w), after-before)
	case !ordered:
		return nil
	}
	var names []string
	if b := j.batch(); b.Pods != nil && j.at.Rollback == nil {
		for _, o := range b.Pods.ordinals() {
			names = append(names, w.Name+"-"+strconv.Itoa(o))
		}
		return names
	}
	for _, o := range w.ordinals().Between(after, before) {
		names = append(names, w.Name+"-"+strconv.Itoa(o))
	}
	slices.Reverse(names)
	return names
}

// newest are the n pods that became ready last, in the order in which they did.
func newest(pods []Pod, n int) []string {
	pods = slices.Clone(pods)
	slices.SortStableFunc(pods, func(a, b Pod) int {
		return cmp.Or(a.ReadySince.Compare(b.ReadySince), b.Ordinal-a.Ordinal)
	})
	return podNames(pods[max(0, len(pods)-n):])
}

func podNames(pods []Pod) []string {
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	return names
}
