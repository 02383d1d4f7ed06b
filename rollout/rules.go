package rollout

import (
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/fault"
)

// judge is the judgements of one movement, on facts: its six rules, and what they have moved.
type judge interface {
	verify() Verdict
	initialize() Verdict
	release() Verdict
	check() Verdict
	inRange() Verdict
	finalize(succeeded bool) Verdict

	// movedPods are the names of the pods that the current batch has moved, in their order. They are told by
	// looking.
	movedPods() []string
}

// Rules are the row of one kind and one movement: six judgements on facts. Each is pure, and may be
// asked again at any time.
type Rules struct {
	Kind Kind
	Mode Mode

	judge func(*judgement) judge
}

// rows are the eight controllers of workloads.
var rows = []Rules{
	{Deployment, Scale, scaling},
	{CloneSet, Scale, scaling},
	{StatefulSet, Scale, scaling},
	{AdvancedStatefulSet, Scale, scaling},
	{Deployment, Rollout, betweenDeployments},
	{CloneSet, Rollout, rollingInPlace},
	{StatefulSet, Rollout, rollingInPlace},
	{AdvancedStatefulSet, Rollout, rollingInPlace},
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

// VerifySpec refuses what cannot be, waits for what is not ready, and records sizes and batches.
func (r Rules) VerifySpec(p Plan, at Position, f Facts) Verdict {
	return at.keep(r.judge(&judgement{movement{p, at}, f}).verify())
}

// Initialize claims the workload; a rollout in place writes the template and the full hold with it.
func (r Rules) Initialize(p Plan, at Position, f Facts) Verdict {
	return at.keep(r.judge(judgementOf(p, at, f)).initialize())
}

// RolloutOneBatchPods releases pods of the current batch as far as the budgets allow: none while the
// newest spec of a workload is not observed, or has another template than the recorded one.
func (r Rules) RolloutOneBatchPods(p Plan, at Position, f Facts) Verdict {
	j := judgementOf(p, at, f)
	if v, ok := j.steady(); !ok {
		return at.keep(v)
	}
	return at.keep(r.judge(j).release())
}

// CheckOneBatchPods is done when the pods of the current batch are there and ready.
func (r Rules) CheckOneBatchPods(p Plan, at Position, f Facts) Verdict {
	return at.keep(r.judge(judgementOf(p, at, f)).check())
}

// FinalizeOneBatch refuses a batch in which other pods moved than the plan says: BATCH_OUT_OF_RANGE.
func (r Rules) FinalizeOneBatch(p Plan, at Position, f Facts) Verdict {
	return at.keep(r.judge(judgementOf(p, at, f)).inRange())
}

// Finalize releases the claim, and leaves the workload as the end asks for.
func (r Rules) Finalize(p Plan, at Position, f Facts, succeeded bool) Verdict {
	return at.keep(r.judge(judgementOf(p, at, f)).finalize(succeeded))
}

// keep gives a verdict that changes nothing the position that it had.
func (at Position) keep(v Verdict) Verdict {
	if v.Position.State == "" {
		v.Position = at
	}
	return v
}

// refuse is a check of a spec: an error is fatal.
type refuse func(*judgement) error

// busy is a check of a workload that is not ready yet.
func busy(format string, args ...any) Verdict {
	return waits(0, WorkloadBusy.Reason(), format, args...)
}

func (j *judgement) refusedBy(checks ...refuse) error {
	for _, c := range checks {
		if err := c(j); err != nil {
			return err
		}
	}
	return nil
}

func problems(j *judgement) error {
	if found := j.p.Problems(); found != nil {
		return PlanInvalid.Errorf("%s", found[0]).With("field", found[0].Path)
	}
	return nil
}

func foreignOwner(j *judgement) error {
	for _, w := range j.f.workloads() {
		if o := w.foreign(j.f); o != nil {
			return ClaimedByOther.Errorf("%s %s belongs to %s %s", w.Kind, w.Name, o.Kind, o.Name).With("owner", o.Name)
		}
	}
	return nil
}

func gatesCompile(j *judgement) error {
	if j.f.GateProblem != "" {
		return GateInvalid.Errorf("%s", j.f.GateProblem)
	}
	return nil
}

// honoured refuses fields that the kind cannot honour.
func honoured(j *judgement) error {
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

// fatal reports whether a fault ends the rollout; others are waits.
func fatal(err error) bool { return fault.Of(err).Class != fault.Transient }
