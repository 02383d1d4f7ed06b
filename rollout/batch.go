package rollout

import (
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/rollout/internal/ordinal"
)

// MaxBatches is the largest number of batches of a plan.
const MaxBatches = 200

// Defaulted returns the plan with its defaults and its batches: those of RolloutBatches, or total
// dealt to NumBatches, or one with everything. total is the number of pods to move; below 0 it is
// unknown, and nothing is dealt.
func (p Plan) Defaulted(total int) Plan {
	if p.RolloutStrategy == "" {
		p.RolloutStrategy = IncreaseFirst
	}
	if p.OnFailure == "" {
		p.OnFailure = OnFailurePause
	}
	rollback := RollbackPlan{}
	if p.Rollback != nil {
		rollback = *p.Rollback
	}
	if rollback.Mode == "" {
		rollback.Mode = InBatches
	}
	p.Rollback = &rollback
	p.RolloutWebhooks = defaultedAll(p.RolloutWebhooks, func(h Hook) Hook { return h.defaulted(p.OnFailure) })
	p.CanaryMetric = defaultedAll(p.CanaryMetric, func(m Metric) Metric { return m.defaulted(p.OnFailure) })
	p.Gates = defaultedAll(p.Gates, func(g Gate) Gate { return g.defaulted(p.OnFailure) })
	p.Probes = defaultedAll(p.Probes, func(r Probe) Probe { return r.defaulted(p.OnFailure) })
	if p.Disruption != nil {
		d := *p.Disruption
		if d.ZoneKey == "" && d.MaxUnavailablePerZone != nil { // it counts only beside it
			d.ZoneKey = "topology.kubernetes.io/zone"
		}
		p.Disruption = &d
	}
	if p.RolloutBatches == nil && total >= 0 {
		p.RolloutBatches = p.dealt(total)
	}
	p.RolloutBatches = defaultedAll(p.RolloutBatches, func(b Batch) Batch {
		if b.Soak == nil {
			b.Soak = &p.Soak
		}
		if b.Deadline == nil {
			b.Deadline = p.BatchDeadline
		}
		b.BatchRolloutWebhooks = defaultedAll(b.BatchRolloutWebhooks, func(h Hook) Hook { return h.defaulted(p.OnFailure) })
		b.CanaryMetric = defaultedAll(b.CanaryMetric, func(m Metric) Metric { return m.defaulted(p.OnFailure) })
		b.Gates = defaultedAll(b.Gates, func(g Gate) Gate { return g.defaulted(p.OnFailure) })
		return b
	})
	return p
}

func defaultedAll[T any](list []T, one func(T) T) []T {
	if list == nil {
		return nil
	}
	all := make([]T, len(list))
	for i, item := range list {
		all[i] = one(item)
	}
	return all
}

// dealt gives each batch total / n; the remainder goes one by one to the last batches.
func (p Plan) dealt(total int) []Batch {
	if p.NumBatches == nil || *p.NumBatches < 1 {
		return []Batch{{}}
	}
	n := *p.NumBatches
	batches := make([]Batch, n)
	for i := range batches {
		size := total / n
		if i >= n-total%n {
			size++
		}
		batches[i].Replicas = Int(size)
	}
	return batches
}

// total is the number of pods that a movement touches.
func total(m Mode, original, target int) int {
	if m == Scale {
		return abs(target - original)
	}
	return target
}

func abs(n int) int { return max(n, -n) }

// Verify refuses a plan whose batches do not fit the pods: the batches before the last must leave
// something, a number in the last must make the sum exact, and percentages must not exceed 100.
// original counts for Scale only. The fault is PLAN_INVALID.
func (p Plan) Verify(m Mode, original, target int) error {
	all := total(m, original, target)
	if p.NumBatches != nil && p.RolloutBatches != nil && *p.NumBatches != len(p.RolloutBatches) {
		return PlanInvalid.Errorf("numBatches is %d, and there are %d rolloutBatches", *p.NumBatches, len(p.RolloutBatches))
	}
	batches := p.Defaulted(all).RolloutBatches
	last := len(batches) - 1
	if last < 0 {
		return PlanInvalid.Errorf("rolloutBatches is empty: leave it out, or name a batch")
	}
	whole, percent := 0, 0 // the exact share is (100 * whole + percent * all) / 100
	for i, b := range batches {
		size, named := b.size()
		if i < last {
			if b.Replicas == nil && !named {
				return PlanInvalid.Errorf("rolloutBatches[%d].replicas is absent: only the last batch may take the rest", i)
			}
			if size.Percent {
				percent += size.Value
			} else {
				whole += size.Value
			}
			continue
		}
		before, left := 100*int64(whole)+int64(percent)*int64(all), 100*int64(all)
		if before > left || before == left && all > 0 {
			return PlanInvalid.Errorf("the batches before the last take %s of %d pods: they must leave at least a part of one to the last", share(whole, percent), all)
		}
		if (b.Replicas != nil || named) && !size.Percent {
			if sum := whole + ceilPercent(all, percent) + size.Value; sum != all {
				return PlanInvalid.Errorf("the batches take %d pods, and there are %d: leave replicas of the last batch out, or correct it", sum, all)
			}
		} else if b.Replicas != nil {
			percent += size.Value
		}
	}
	if percent > 100 {
		return PlanInvalid.Errorf("the percentages of rolloutBatches are %d%% together: they must not exceed 100%%", percent)
	}
	return nil
}

func share(whole, percent int) string {
	var parts []string
	if whole > 0 || percent == 0 {
		parts = append(parts, strconv.Itoa(whole))
	}
	if percent > 0 {
		parts = append(parts, strconv.Itoa(percent)+"%")
	}
	return strings.Join(parts, " and ")
}

// size is what a batch takes; named is true if its list of pods says it. Pods that are selected by
// role or labels count when the rollout begins.
func (b Batch) size() (size IntOrPercent, named bool) {
	switch {
	case b.Replicas != nil:
		return *b.Replicas, false
	case b.PodList != nil:
		return IntOrPercent{Value: len(b.PodList)}, true
	case b.Pods != nil:
		return IntOrPercent{Value: len(b.Pods.ordinals())}, true
	default:
		return IntOrPercent{}, false
	}
}

// moved is T(k): how many pods have moved after batch k, of all. -1 is before the first.
func (p Plan) moved(all, k int) int {
	if k < 0 || all <= 0 {
		return 0
	}
	if k >= len(p.RolloutBatches)-1 {
		return all
	}
	whole, percent := 0, 0
	for _, b := range p.RolloutBatches[:k+1] {
		if size, _ := b.size(); size.Percent {
			percent += size.Value
		} else {
			whole += size.Value
		}
	}
	return min(all, whole+ceilPercent(all, percent))
}

// Target returns the size (Scale) or the number of pods that have moved (Rollout) after a batch. -1
// is before the first batch; beyond the last it is the target.
func (p Plan) Target(m Mode, original, target, batch int) int {
	all := total(m, original, target)
	moved := p.Defaulted(all).moved(all, batch)
	switch {
	case m != Scale:
		return moved
	case target >= original:
		return original + moved
	default:
		return original - moved
	}
}

// ordinals are the single ordinals of the set, in the order in which they are named. What cannot be
// read is left out; Problems refuses it.
func (s PodSet) ordinals() []int { return ordinal.List(s.Ordinals) }
