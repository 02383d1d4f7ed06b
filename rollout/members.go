package rollout

import "slices"

// Members are the pods of each batch, as far as the workload does not choose them itself: those that
// have moved in the order in which they did, then those to come in the order in which they will. Pods of
// no batch are left out.
func Members(p Plan, at Position, f Facts) [][]Pod {
	all := make([][]Pod, len(at.Batches))
	if f.Target == nil || len(all) == 0 {
		return all
	}
	j := judgementOf(p, at, f)
	places := make([]int, len(all)) // free ones
	for i := range all {
		places[i] = at.Batches[i].Size
	}
	for _, pod := range j.inOrder(places) {
		i := j.batchOf(pod, places)
		if i < 0 {
			continue
		}
		places[i]--
		all[i] = append(all[i], pod)
	}
	return all
}

// batchOf is the batch that a pod belongs to: the one that names it, else the first with a free place.
func (j *judgement) batchOf(pod Pod, places []int) int {
	named := slices.IndexFunc(j.p.RolloutBatches, func(b Batch) bool { return (b.PodList != nil || b.Pods != nil) && b.names(pod) })
	if named >= 0 && named < len(places) && places[named] > 0 {
		return named
	}
	for i, free := range places {
		if free > 0 && (i >= len(j.p.RolloutBatches) || j.p.RolloutBatches[i].PodList == nil && j.p.RolloutBatches[i].Pods == nil) {
			return i
		}
	}
	return -1
}

// inOrder are the pods that batches move, in the order of the batches. Places of pods that a scale has
// removed are taken away.
func (j *judgement) inOrder(places []int) []Pod {
	w := *j.f.Target
	pods := slices.Clone(j.f.podsOf(w))
	down := func(a, b Pod) int { return b.Ordinal - a.Ordinal }
	switch {
	case j.at.Mode == Scale && j.target() < j.original():
		slices.SortStableFunc(pods, down)
		taken := max(0, j.original()-len(pods))
		for i := range places {
			n := min(taken, places[i])
			places[i], taken = places[i]-n, taken-n
		}
		return pods
	case j.at.Mode == Scale:
		if w.counted() {
			slices.SortStableFunc(pods, func(a, b Pod) int { return a.ReadySince.Compare(b.ReadySince) })
		} else {
			slices.SortStableFunc(pods, func(a, b Pod) int { return a.Ordinal - b.Ordinal })
		}
		return pods[min(j.original(), len(pods)):]
	case w.counted(): // which old pod is next is the workload's choice
		pods = slices.DeleteFunc(pods, func(p Pod) bool { return p.Revision != j.at.TargetHash })
		slices.SortStableFunc(pods, func(a, b Pod) int { return a.ReadySince.Compare(b.ReadySince) })
		return pods[min(j.at.Before, len(pods)):]
	case !j.p.picks() || j.at.Rollback != nil:
		slices.SortStableFunc(pods, down)
		return pods
	}
	moved := func(p Pod) bool { return p.Revision == j.at.TargetHash }
	slices.SortStableFunc(pods, func(a, b Pod) int {
		switch {
		case moved(a) && moved(b) && !a.ReadySince.Equal(b.ReadySince):
			return a.ReadySince.Compare(b.ReadySince)
		case moved(a) && !moved(b):
			return -1
		case moved(b) && !moved(a):
			return 1
		}
		if d := j.p.roleRank(a) - j.p.roleRank(b); d != 0 {
			return d
		}
		return b.Ordinal - a.Ordinal
	})
	return pods
}

// counted reports a workload whose pods have no ordinals.
func (w WorkloadFacts) counted() bool { return w.Kind == Deployment || w.counts() }
