package rollout

import (
	"maps"
	"slices"
)

// counting reports whether a budget counts pods: then they are released one at a time.
func (j *judgement) counting() bool {
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
func budgetPossible(j *judgement) error {
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
		members := j.quorum(*q, nil).members
		if least := q.MinHealthy.Of(members); least >= members && members > 0 {
			return impossible("disruption.quorum.minHealthy", "%s of %d members is %d: none may ever be away", q.MinHealthy, members, least)
		}
	}
	return nil
}

// down are the pods of the target that are away, or may go at any moment; missing have no pod at all.
func (j *judgement) down() (pods map[string]Pod, missing int) {
	w := j.f.Target
	pods = map[string]Pod{}
	own := j.f.podsOf(*w)
	for i := range own {
		if p := &own[i]; !j.f.available(p, w) || j.released(p) {
			pods[p.Name] = *p
		}
	}
	if w.counts() && j.at.Mode == Rollout {
		for _, p := range j.going() {
			pods[p.Name] = p
		}
	}
	return pods, max(0, w.Replicas-len(own))
}

// workloadOf is the workload of a pod: the target, or a source.
func (j *judgement) workloadOf(p *Pod) *WorkloadFacts {
	for i := range j.f.Sources {
		if w := &j.f.Sources[i]; w.UID == p.Workload {
			return w
		}
	}
	return j.f.Target
}

// mayRelease judges the budgets before a pod is released; nil is a pod that does not exist. A pod
// that is away already may always be replaced.
func (j *judgement) mayRelease(next *Pod) (Verdict, bool) {
	if interval := j.batch().InstanceInterval; interval > 0 && j.at.Released != nil {
		if left := j.at.Released.Add(timeOf(interval)).Sub(j.f.Now); left > 0 {
			return waits(left, "InstanceInterval", "the next pod of batch %d follows %s after the last", j.at.CurrentBatch, interval), false
		}
	}
	if next == nil {
		return Verdict{}, true
	}
	if name, ok := next.pendingProbe(); ok {
		return waits(0, "ProbePending", "probe %s of pod %s has not answered yet", name, next.Name), false
	}
	down, missing := j.down()
	if j.f.away(next, j.workloadOf(next)) || j.released(next) {
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

// pendingProbe is a probe of a ready pod of which nobody knows yet whether it passes: the pod is not
// away, and may not be replaced as if it were.
func (p Pod) pendingProbe() (string, bool) {
	if !p.Ready || p.Terminating {
		return "", false
	}
	for _, name := range slices.Sorted(maps.Keys(p.Probes)) {
		if p.Probes[name].pending() {
			return name, true
		}
	}
	return "", false
}

func (j *judgement) poolAllows(next Pod, down map[string]Pod, missing int) (Verdict, bool) {
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
func (j *judgement) zonesAllow(next Pod, down map[string]Pod, missing int) (Verdict, bool) {
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

// quorum is the group of a quorum budget.
type quorum struct {
	members int // those that are missing too
	healthy int // and stay so
	has     map[string]bool
}

// quorum counts the pods that the budget selects: those of other workloads, and those of the target.
// Pods of the target that are missing belong to the group.
func (j *judgement) quorum(q Quorum, down map[string]Pod) quorum {
	own := j.f.podsOf(*j.f.Target)
	g := quorum{has: make(map[string]bool, len(own)+len(j.f.Members))}
	add := func(pods []Pod) (selected int) {
		for i := range pods {
			p := &pods[i]
			if g.has[p.Name] || !q.Selector.Matches(p.Labels) {
				continue
			}
			g.has[p.Name] = true
			selected++
			if _, away := down[p.Name]; !away && p.Ready && !p.Terminating {
				g.healthy++
			}
		}
		return selected
	}
	if mine := add(own); mine > 0 || len(own) == 0 {
		g.members = max(0, j.f.Target.Replicas-len(own))
	}
	add(j.f.Members)
	g.members += len(g.has)
	if q.Members != nil {
		g.members = *q.Members
	}
	return g
}

func (j *judgement) quorumAllows(next Pod, down map[string]Pod, _ int) (Verdict, bool) {
	q := j.p.disruption().Quorum
	if q == nil {
		return Verdict{}, true
	}
	g := j.quorum(*q, down)
	if !g.has[next.Name] {
		return Verdict{}, true
	}
	if least := q.MinHealthy.Of(g.members); g.healthy-1 < least {
		return waits(j.nextMinReady(), "Quorum", "%d of %d members are healthy, %d must stay: %s waits", g.healthy, g.members, least, next.Name), false
	}
	return Verdict{}, true
}

// podBudgetsAllow judges PodDisruptionBudgets. Their numbers lack pods that were released and are not
// disturbed yet.
func (j *judgement) podBudgetsAllow(next Pod, down map[string]Pod, _ int) (Verdict, bool) {
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
