package rollout

import (
	"slices"
)

// counting reports whether a budget counts pods: then they are released one at a time.
func (j judgement) counting() bool {
	d := j.p.disruption()
	return d.Quorum != nil || d.MaxUnavailable != nil || d.MaxUnavailablePerZone != nil || d.respects() && len(j.f.Budgets) > 0
}

func (p Plan) disruption() Disruption {
	if p.Disruption == nil {
		return Disruption{}
	}
	return *p.Disruption
}

func (d Disruption) respects() bool {
	return d.RespectPodDisruptionBudgets == nil || *d.RespectPodDisruptionBudgets
}

// budgetPossible refuses budgets that never allow a release.
func budgetPossible(j judgement) error {
	d, size := j.p.disruption(), max(j.f.Target.Replicas, 1)
	impossible := func(field string, format string, args ...any) error {
		return BudgetImpossible.Errorf(field+": "+format, args...).With("field", field)
	}
	if m := d.MaxUnavailable; m != nil && m.Of(size) < 1 {
		return impossible("disruption.maxUnavailable", "%s of %d pods is none", m, size)
	}
	if m := d.MaxUnavailablePerZone; m != nil && m.Of(size) < 1 {
		return impossible("disruption.maxUnavailablePerZone", "%s of %d pods is none", m, size)
	}
	if q := d.Quorum; q != nil {
		members := j.quorumMembers(*q)
		if least := q.MinHealthy.Of(members); least >= members && members > 0 {
			return impossible("disruption.quorum.minHealthy", "%s of %d members is %d: none may ever be away", q.MinHealthy, members, least)
		}
	}
	return nil
}

// down are the pods of the target that are away, or may go at any moment; missing have no pod at all.
func (j judgement) down() (pods map[string]Pod, missing int) {
	w := *j.f.Target
	pods = map[string]Pod{}
	own := j.f.podsOf(w)
	for _, p := range own {
		if !j.f.available(p, w) || j.released(p) {
			pods[p.Name] = p
		}
	}
	if w.counts() && j.at.Mode == Rollout { // which old pods go is not known: the first that are ready
		c := j.f.count(w, w.UpdateRevision)
		going := w.Replicas - w.kept() - c.updated
		for _, p := range own {
			if _, ok := pods[p.Name]; !ok && p.Revision != w.UpdateRevision && going > 0 {
				pods[p.Name] = p
				going--
			}
		}
	}
	return pods, max(0, w.Replicas-len(own))
}

// mayRelease judges the budgets before a pod is released; nil is a pod that does not exist. A pod
// that is away already may always be replaced.
func (j judgement) mayRelease(next *Pod) (Verdict, bool) {
	if interval := j.batch().InstanceInterval; interval > 0 && j.at.Released != nil {
		if left := j.at.Released.Add(timeOf(interval)).Sub(j.f.Now); left > 0 {
			return waits(left, "InstanceInterval", "the next pod of batch %d follows %s after the last", j.at.CurrentBatch, interval), false
		}
	}
	if next == nil {
		return Verdict{}, true
	}
	down, missing := j.down()
	if _, away := down[next.Name]; away {
		return Verdict{}, true
	}
	if turn := j.f.Turn; turn != nil && !turn.Mine && j.p.disruption().Quorum != nil {
		return waits(0, "QuorumTurn", "%s has the turn of the quorum since %s", turn.Holder, turn.Since.UTC().Format("15:04:05")), false
	}
	for _, allows := range []func(Pod, map[string]Pod, int) (Verdict, bool){j.poolAllows, j.zonesAllow, j.quorumAllows, j.podBudgetsAllow} {
		if v, ok := allows(*next, down, missing); !ok {
			return v, false
		}
	}
	return Verdict{}, true
}

func (j judgement) poolAllows(next Pod, down map[string]Pod, missing int) (Verdict, bool) {
	m := j.p.disruption().MaxUnavailable
	if m == nil {
		return Verdict{}, true
	}
	if away, most := len(down)+missing, m.Of(j.f.Target.Replicas); away+1 > most {
		return waits(j.nextMinReady(), "MaxUnavailable", "%d pods are away, %d may be: %s waits", away, most, next.Name), false
	}
	return Verdict{}, true
}

// zonesAllow counts a pod whose zone is unknown, and one that is missing, in every zone.
func (j judgement) zonesAllow(next Pod, down map[string]Pod, missing int) (Verdict, bool) {
	m := j.p.disruption().MaxUnavailablePerZone
	if m == nil {
		return Verdict{}, true
	}
	own := j.f.podsOf(*j.f.Target)
	zones := []string{next.Zone}
	if next.Zone == "" {
		for _, p := range own {
			if p.Zone != "" && !slices.Contains(zones, p.Zone) {
				zones = append(zones, p.Zone)
			}
		}
	}
	for _, zone := range zones {
		size, away := 0, missing
		for _, p := range own {
			if p.Zone != zone && p.Zone != "" && zone != "" {
				continue
			}
			size++
			if _, ok := down[p.Name]; ok {
				away++
			}
		}
		if most := m.Of(size + missing); away+1 > most {
			return waits(j.nextMinReady(), "MaxUnavailablePerZone", "%d pods of zone %q are away, %d may be: %s waits", away, zone, most, next.Name), false
		}
	}
	return Verdict{}, true
}

// members are the pods that the quorum selects: those of other workloads, and those of the target.
func (j judgement) members(q Quorum) []Pod {
	all := slices.Clone(j.f.Members)
	for _, p := range j.f.podsOf(*j.f.Target) {
		if q.Selector.Matches(p.Labels) && !slices.ContainsFunc(all, func(m Pod) bool { return m.Name == p.Name }) {
			all = append(all, p)
		}
	}
	return all
}

// quorumMembers is the size of the quorum group: pods of the target that are missing belong to it.
func (j judgement) quorumMembers(q Quorum) int {
	if q.Members != nil {
		return *q.Members
	}
	own := j.f.podsOf(*j.f.Target)
	size := len(j.members(q))
	if slices.ContainsFunc(own, func(p Pod) bool { return q.Selector.Matches(p.Labels) }) || len(own) == 0 {
		size += max(0, j.f.Target.Replicas-len(own))
	}
	return size
}

// quorumLeft is how many members are healthy and stay so.
func (j judgement) quorumLeft(q Quorum, down map[string]Pod) int {
	healthy := 0
	for _, m := range j.members(q) {
		if _, away := down[m.Name]; !away && m.Ready && !m.Terminating {
			healthy++
		}
	}
	return healthy
}

func (j judgement) quorumAllows(next Pod, down map[string]Pod, _ int) (Verdict, bool) {
	q := j.p.disruption().Quorum
	if q == nil || !slices.ContainsFunc(j.members(*q), func(m Pod) bool { return m.Name == next.Name }) {
		return Verdict{}, true
	}
	members, healthy := j.quorumMembers(*q), j.quorumLeft(*q, down)
	if least := q.MinHealthy.Of(members); healthy-1 < least {
		return waits(j.nextMinReady(), "Quorum", "%d of %d members are healthy, %d must stay: %s waits", healthy, members, least, next.Name), false
	}
	return Verdict{}, true
}

// podBudgetsAllow looks at PodDisruptionBudgets: pods that were released but not yet disturbed are not
// in their numbers.
func (j judgement) podBudgetsAllow(next Pod, down map[string]Pod, _ int) (Verdict, bool) {
	if !j.p.disruption().respects() {
		return Verdict{}, true
	}
	for _, b := range j.f.Budgets {
		if !b.Selector.Matches(next.Labels) {
			continue
		}
		going := 0
		for _, p := range down {
			if p.Ready && !p.Terminating && b.Selector.Matches(p.Labels) {
				going++
			}
		}
		if b.Allowed-going < 1 {
			return waits(0, "DisruptionBudget", "PodDisruptionBudget %s allows no disruption: %s waits", b.Name, next.Name), false
		}
	}
	return Verdict{}, true
}
