package rollout

import (
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/fault"
)

// Rules are the row of one kind and one movement: six judgements on facts. Each is pure, and may be
// asked again at any time.
type Rules struct {
	Kind Kind
	Mode Mode

	verify     func(judgement) Verdict
	initialize func(judgement) Verdict
	release    func(judgement) Verdict
	check      func(judgement) Verdict
	inRange    func(judgement) Verdict
	finalize   func(judgement, bool) Verdict
}

// rows are the eight controllers of workloads.
var rows = []Rules{
	{Deployment, Scale, verifyScale, claimTarget, setReplicas, checkScale, scaleInRange, finalizeScale},
	{CloneSet, Scale, verifyScale, claimTarget, setReplicas, checkScale, scaleInRange, finalizeScale},
	{StatefulSet, Scale, verifyScale, claimTarget, setReplicas, checkScale, scaleInRange, finalizeScale},
	{AdvancedStatefulSet, Scale, verifyScale, claimTarget, setReplicas, checkScale, scaleInRange, finalizeScale},
	{Deployment, Rollout, verifyDeployments, claimDeployments, moveDeployments, checkDeployments, deploymentsInRange, finalizeDeployments},
	{CloneSet, Rollout, verifyInPlace, holdInPlace, releaseInPlace, checkInPlace, inPlaceInRange, finalizeInPlace},
	{StatefulSet, Rollout, verifyInPlace, holdInPlace, releaseInPlace, checkInPlace, inPlaceInRange, finalizeInPlace},
	{AdvancedStatefulSet, Rollout, verifyInPlace, holdInPlace, releaseInPlace, checkInPlace, inPlaceInRange, finalizeInPlace},
}

// RulesOf returns the row of a kind and a movement. The fault is UNSUPPORTED_WORKLOAD.
func RulesOf(k Kind, m Mode) (Rules, error) {
	for _, r := range rows {
		if r.Kind == k && r.Mode == m {
			return r, nil
		}
	}
	return Rules{}, UnsupportedWorkload.Errorf("%s: there are Deployment, StatefulSet, CloneSet and AdvancedStatefulSet", k).With("kind", string(k))
}

// judgement is what a rule judges. The plan has its defaults and the batches of the position.
type judgement struct {
	p  Plan
	at Position
	f  Facts
}

// VerifySpec refuses what cannot be, waits for what is not ready, and records sizes and batches.
func (r Rules) VerifySpec(p Plan, at Position, f Facts) Verdict {
	return at.keep(r.verify(judgement{p, at, f}))
}

// Initialize claims the workload; a rollout in place writes the template and the full hold with it.
func (r Rules) Initialize(p Plan, at Position, f Facts) Verdict {
	return at.keep(r.initialize(judge(p, at, f)))
}

// RolloutOneBatchPods releases pods of the current batch as far as the budgets allow: none while the
// newest spec of a workload is not observed, or has another template than the recorded one.
func (r Rules) RolloutOneBatchPods(p Plan, at Position, f Facts) Verdict {
	j := judge(p, at, f)
	if v, ok := j.steady(); !ok {
		return at.keep(v)
	}
	return at.keep(r.release(j))
}

// CheckOneBatchPods is done when the pods of the current batch are there and ready.
func (r Rules) CheckOneBatchPods(p Plan, at Position, f Facts) Verdict {
	return at.keep(r.check(judge(p, at, f)))
}

// FinalizeOneBatch refuses a batch in which other pods moved than the plan says: BATCH_OUT_OF_RANGE.
func (r Rules) FinalizeOneBatch(p Plan, at Position, f Facts) Verdict {
	return at.keep(r.inRange(judge(p, at, f)))
}

// Finalize releases the claim, and leaves the workload as the end asks for.
func (r Rules) Finalize(p Plan, at Position, f Facts, succeeded bool) Verdict {
	return at.keep(r.finalize(judge(p, at, f), succeeded))
}

// keep gives a verdict that changes nothing the position that it had.
func (at Position) keep(v Verdict) Verdict {
	if v.Position.State == "" {
		v.Position = at
	}
	return v
}

func judge(p Plan, at Position, f Facts) judgement {
	j := judgement{p.Defaulted(-1), at, f}
	j.p = at.recorded(j.p)
	if at.OriginalSize != nil && at.TargetSize != nil {
		j.p = j.p.Defaulted(total(at.Mode, *at.OriginalSize, *at.TargetSize))
	}
	return j
}

// recorded is the plan with the batches of the position: those may not be edited any more.
func (at Position) recorded(p Plan) Plan {
	if len(at.Batches) == 0 {
		return p
	}
	if at.Strategy != "" {
		p.RolloutStrategy = at.Strategy
	}
	batches := make([]Batch, len(at.Batches))
	for i := range batches {
		if i < len(p.RolloutBatches) {
			batches[i] = p.RolloutBatches[i]
		} else if p.RolloutBatches == nil {
			batches[i].Soak, batches[i].Deadline = &p.Soak, p.BatchDeadline
		}
		b := at.Batches[i]
		batches[i].Replicas, batches[i].PodList, batches[i].Pods = b.Replicas, b.PodList, b.Pods
		batches[i].MaxUnavailable, batches[i].InstanceInterval = b.MaxUnavailable, b.InstanceInterval
	}
	p.RolloutBatches = batches
	return p
}

func (j judgement) original() int { return deref(j.at.OriginalSize) }
func (j judgement) target() int   { return deref(j.at.TargetSize) }
func (j judgement) total() int    { return total(j.at.Mode, j.original(), j.target()) }

func deref(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// moved is how many pods have moved when the current batch has ended; in a rollback, how many are
// still moved.
func (j judgement) moved() int { return j.movedAfter(j.at.CurrentBatch) }

// movedBefore is what moved was when the current batch began.
func (j judgement) movedBefore() int { return j.movedAfter(j.at.CurrentBatch - 1) }

func (j judgement) movedAfter(batch int) int {
	back := j.at.Rollback
	switch {
	case back == nil:
		return j.p.moved(j.total(), batch)
	case batch >= back.FromBatch:
		return 0
	default:
		return max(0, back.Size-j.p.moved(j.total(), batch))
	}
}

// maxUnavailable is how many pods the check of the current batch may miss.
func (j judgement) maxUnavailable() int {
	if b := j.batch(); b.MaxUnavailable != nil {
		return b.MaxUnavailable.Of(j.total())
	}
	return 0
}

func (j judgement) batch() Batch {
	if k := j.at.CurrentBatch; k >= 0 && k < len(j.p.RolloutBatches) {
		return j.p.RolloutBatches[k]
	}
	return Batch{}
}

// refuse is a check of a spec: an error is fatal.
type refuse func(judgement) error

// busy is a check of a workload that is not ready yet.
func busy(format string, args ...any) Verdict {
	return waits(0, WorkloadBusy.Reason(), format, args...)
}

func (j judgement) refusedBy(checks ...refuse) error {
	for _, c := range checks {
		if err := c(j); err != nil {
			return err
		}
	}
	return nil
}

func problems(j judgement) error {
	if found := j.p.Problems(); found != nil {
		return PlanInvalid.Errorf("%s", found[0]).With("field", found[0].Path)
	}
	return nil
}

func foreignOwner(j judgement) error {
	all := append([]WorkloadFacts{*j.f.Target}, j.f.Sources...)
	for _, w := range all {
		if o := w.foreign(j.f); o != nil {
			return ClaimedByOther.Errorf("%s %s belongs to %s %s", w.Kind, w.Name, o.Kind, o.Name).With("owner", o.Name)
		}
	}
	return nil
}

func gatesCompile(j judgement) error {
	if j.f.GateProblem != "" {
		return GateInvalid.Errorf("%s", j.f.GateProblem)
	}
	return nil
}

// honoured refuses fields that the kind cannot honour.
func honoured(j judgement) error {
	kind, mode := j.f.Target.Kind, j.at.Mode
	not := func(field, why string) error {
		return FieldNotHonoured.Errorf("%s: %s", field, why).With("field", field)
	}
	if j.f.Target.UpdateType == Recreate {
		return not("the workload's updateStrategy.type", "Recreate stops all pods at once; use RollingUpdate or OnDelete")
	}
	if kind == Deployment && j.p.Order != nil {
		return not("order", "the pods of a Deployment have no order")
	}
	if kind == CloneSet && mode == Scale && j.p.Order != nil && deref(j.p.TargetSize) < j.f.Target.Replicas {
		return not("order", "a CloneSet chooses itself which pods a smaller size takes away")
	}
	for i, b := range j.p.RolloutBatches {
		if b.PodList == nil && b.Pods == nil {
			continue
		}
		field := "rolloutBatches[" + strconv.Itoa(i) + "].pods"
		if b.PodList != nil {
			field = "rolloutBatches[" + strconv.Itoa(i) + "].podList"
		}
		switch {
		case kind == Deployment:
			return not(field, "the pods of a Deployment have no names that last")
		case kind == CloneSet && b.Pods != nil && b.Pods.Ordinals != nil:
			return not(field+".ordinals", "the pods of a CloneSet have no ordinals")
		case mode == Scale && (kind != AdvancedStatefulSet || b.PodList != nil || b.Pods.Ordinals == nil):
			return not(field, "a scale takes chosen pods only from an Advanced StatefulSet, by ordinals")
		case mode == Scale && deref(j.p.TargetSize) > j.f.Target.Replicas:
			return not(field, "a scale up cannot choose pods")
		}
		if mode != Scale {
			continue
		}
		for _, o := range b.Pods.ordinals() {
			if !slices.ContainsFunc(j.f.podsOf(*j.f.Target), func(p Pod) bool { return p.Ordinal == o }) {
				return not(field+".ordinals", "there is no pod "+strconv.Itoa(o)+" to take away")
			}
		}
	}
	return nil
}

// picks reports whether single pods are chosen: the workload then moves only pods that are deleted.
func (p Plan) picks() bool {
	return p.Order != nil || slices.ContainsFunc(p.RolloutBatches, func(b Batch) bool { return b.PodList != nil || b.Pods != nil })
}

// resolved writes the batches with their sizes to the position.
func (j judgement) resolved() Position {
	at, all := j.at, j.total()
	p := j.p.Defaulted(all)
	at.Strategy = p.RolloutStrategy
	at.Batches = make(map[int]BatchPosition, len(p.RolloutBatches))
	for i, b := range p.RolloutBatches {
		at.Batches[i] = BatchPosition{
			Replicas: b.Replicas, PodList: b.PodList, Pods: b.Pods, MaxUnavailable: b.MaxUnavailable, InstanceInterval: b.InstanceInterval,
			Size: p.moved(all, i) - p.moved(all, i-1), Target: p.moved(all, i),
		}
	}
	return at
}

// resized is the position with the sizes of another total; starts, ends and deadlines stay.
func (j judgement) resized(size int) Position {
	at := j.at
	at.TargetSize = &size
	j.at = at
	p, all := at.recorded(j.p), j.total()
	batches := make(map[int]BatchPosition, len(at.Batches))
	for i, b := range at.Batches {
		b.Size, b.Target = p.moved(all, i)-p.moved(all, i-1), p.moved(all, i)
		batches[i] = b
	}
	at.Batches = batches
	return at
}

// fatal reports whether a fault ends the rollout; others are waits.
func fatal(err error) bool { return fault.Of(err).Class != fault.Transient }
