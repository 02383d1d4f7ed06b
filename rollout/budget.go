package rollout

import (
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/rollout/internal/budget"
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

// budgets are those of the plan, and the PodDisruptionBudgets that it respects.
func (j *judgement) budgets() budget.Budgets {
	d := j.p.disruption()
	var b budget.Budgets
	if d.MaxUnavailable != nil {
		b.Unavailable = d.MaxUnavailable
	}
	if d.MaxUnavailablePerZone != nil {
		b.UnavailablePerZone = d.MaxUnavailablePerZone
	}
	if q := d.Quorum; q != nil {
		b.Quorum = &budget.Quorum{Selector: q.Selector, Healthy: q.MinHealthy, Members: q.Members}
	}
	if d.respects() {
		for _, p := range j.f.Budgets {
			b.Disruptions = append(b.Disruptions, budget.Disruption{Name: p.Name, Allowed: p.Allowed, Selector: p.Selector})
		}
	}
	return b
}

// pods are what budgets count. Down are those that are away, or may go at any moment.
func (j *judgement) pods() budget.Pods {
	w := j.f.Target
	own := j.f.podsOf(*w)
	all := budget.Pods{Own: make([]budget.Pod, len(own)), Others: make([]budget.Pod, len(j.f.Members)), Replicas: w.Replicas}
	going := map[string]bool{}
	if w.counts() && j.at.Mode == Rollout {
		for _, p := range j.going() {
			going[p.Name] = true
		}
	}
	for i := range own {
		p := &own[i]
		all.Own[i] = seen(p)
		all.Own[i].Down = !j.f.available(p, w) || j.released(p) || going[p.Name]
	}
	for i := range j.f.Members {
		all.Others[i] = seen(&j.f.Members[i])
	}
	return all
}

func seen(p *Pod) budget.Pod {
	return budget.Pod{Name: p.Name, Zone: p.Zone, Labels: p.Labels, Serves: p.Ready && !p.Terminating}
}

// budgetPossible refuses budgets that never allow a release.
func budgetPossible(j *judgement) error {
	if field, why := j.budgets().Impossible(j.pods()); field != "" {
		return BudgetImpossible.Errorf("disruption.%s: %s", field, why).With("field", "disruption."+field)
	}
	return nil
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
	if j.f.away(next, j.workloadOf(next)) || j.released(next) {
		return Verdict{}, true
	}
	if turn := j.f.Turn; turn != nil && !turn.Mine && j.p.disruption().Quorum != nil {
		return waits(0, "QuorumTurn", "%s has the turn of the quorum since %s", turn.Holder, turn.Since.UTC().Format("15:04:05")), false
	}
	if r := j.budgets().Refuses(seen(next), j.pods()); r.Reason != "" {
		after := j.nextMinReady()
		if r.Reason == budget.ByKubernetes {
			after = 0
		}
		return waits(after, r.Reason, "%s", r.Message), false
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
