package rollout

import (
	"cmp"
	"slices"
)

// weighs reports whether the rollout tells a workload that counts pods which ones to move first: where
// pods are chosen, and where a budget must know which pod goes. An order of its user stands, unless the
// plan chooses.
func (j inPlace) weighs() bool {
	w := j.f.Target
	return w.counts() && (j.p.picks() || j.single() && (!w.Priority || len(w.First) > 0))
}

// weighNext is RolloutOneBatchPods of a workload that counts pods and moves those first that it is told
// to: the next pod is chosen from what is observed, and named in the write that releases it.
func (j inPlace) weighNext() Verdict {
	w := *j.f.Target
	want := j.partition()
	if v, ok := j.rolesRead(); !ok {
		return v
	}
	next, left := j.nextByWeight()
	to, nameless := w.kept()-1, j.releasedOld(len(j.old()))-len(j.named())
	switch {
	case nameless > 0 && j.alive() > w.Replicas:
		return busy("%s %s is scaling: %d of %d pods", w.Kind, w.Name, j.alive(), w.Replicas)
	case nameless > 0 && next != nil: // somebody took the names away: it is named, and nothing more is released
		to = w.kept()
	case left == 0: // all that has to move is released already
		to = want
	case next == nil:
		return waits(0, "PodsNotReady", "no pod of batch %d is left, and %d pods are those of later batches", j.at.CurrentBatch, left)
	case j.earlier(*next) != nil: // of those that are released the workload may take any one first
		return waits(0, "PodsNotGone", "pod %s has not gone yet, and goes before pod %s", j.earlier(*next).Name, next.Name)
	default:
		if v, ok := j.mayRelease(next); !ok {
			return v
		}
		if v, ok := j.handedOver(*next); !ok {
			return v
		}
	}
	a := w.act("release " + podCount(w.kept()-to))
	a.Partition = &to
	at := j.at
	if next != nil {
		a.Why = "release pod " + next.Name
		for _, p := range j.named() {
			a.First = append(a.First, p.Name)
		}
		a.First = append(a.First, next.Name)
		at.Original = at.Original.with(w)
	}
	return Verdict{Acts: []Act{a}, Position: at}
}

// alive is how many pods do not go.
func (j inPlace) alive() int {
	c := j.f.count(*j.f.Target, "")
	return c.pods - c.terminating
}

// with is the original with the update strategy, if it has none yet.
func (o *Original) with(w WorkloadFacts) *Original {
	if o != nil && o.Strategy != "" {
		return o
	}
	found := Original{Strategy: cmp.Or(w.Strategy, "{}")}
	if len(w.First) > 0 { // of a rollout that has no status any more
		found.Strategy = "{}"
	}
	if o != nil {
		found.UpdateType = o.UpdateType
	}
	return &found
}

// nextByWeight is the next pod to release, and how many there are to choose from.
func (j inPlace) nextByWeight() (next *Pod, left int) {
	named := j.named()
	pods := slices.DeleteFunc(j.old(), func(p Pod) bool {
		return slices.ContainsFunc(named, func(n Pod) bool { return n.Name == p.Name })
	})
	return j.firstOf(pods), len(pods)
}

// old are the pods that a workload which counts has yet to move.
func (j *judgement) old() []Pod {
	var all []Pod
	for _, p := range j.f.podsOf(*j.f.Target) {
		if p.Revision != j.revision() && !p.Terminating {
			all = append(all, p)
		}
	}
	return all
}

// releasedOld is how many of the old pods of a workload which counts may go at any moment. Pods that
// are missing are made first, with the new revision if enough old ones are left.
func (j *judgement) releasedOld(old int) int { return max(0, old-j.f.Target.kept()) }

// named are the pods that were chosen and released, and have not gone yet.
func (j *judgement) named() []Pod {
	old := j.old()
	released := j.releasedOld(len(old))
	var all []Pod
	for _, name := range j.f.Target.First {
		if i := slices.IndexFunc(old, func(p Pod) bool { return p.Name == name }); i >= 0 && len(all) < released {
			all = append(all, old[i])
		}
	}
	return all
}

// earlier is a pod that was released, has not gone yet, and has a role that goes before that of the
// next one; nil: there is none.
func (j inPlace) earlier(next Pod) *Pod {
	for _, p := range j.named() {
		if j.p.roleRank(p) < j.p.roleRank(next) {
			return &p
		}
	}
	return nil
}

// going are the pods that a workload which counts may move at any moment: those that were chosen; of
// others, which is not known, those that are ready in the worst case.
func (j *judgement) going() []Pod {
	w := j.f.Target
	old := j.old()
	released := j.releasedOld(len(old))
	all := j.named()
	for _, ready := range []bool{true, false} {
		for _, p := range old {
			if len(all) < released && j.f.away(&p, w) != ready && !slices.Contains(w.First, p.Name) {
				all = append(all, p)
			}
		}
	}
	return all
}

// byRole sorts pods: by role, then those that are away, then from the highest ordinal down.
func (j inPlace) byRole(pods []Pod) {
	w := j.f.Target
	slices.SortStableFunc(pods, func(a, b Pod) int {
		if d := j.p.roleRank(a) - j.p.roleRank(b); d != 0 {
			return d
		}
		if up := !j.f.away(&a, w); up == j.f.away(&b, w) {
			if up {
				return 1
			}
			return -1
		}
		return cmp.Compare(b.Ordinal, a.Ordinal)
	})
}
