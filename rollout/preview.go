package rollout

import (
	"fmt"
	"maps"
	"strconv"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// BatchPreview is what one batch will do.
type BatchPreview struct {
	Index int `json:"index"`
	Size  int `json:"size"` // pods of this batch
	// Target is how many pods have moved after it (a scale: the size).
	Target int `json:"target"`
	// Pods are those that move, in their order. Kinds that choose themselves have none.
	Pods []PodPreview `json:"pods,omitempty"`
	// Partition is that of the workload at the end of the batch; nil: the kind has none.
	Partition *int `json:"partition,omitempty"`
	// Replicas are the sizes at the end of the batch, by name of the workload.
	Replicas map[string]int `json:"replicas,omitempty"`
	// Releases is the number of writes that release pods.
	Releases int `json:"releases"`
	// Unavailable is the most pods that are away at once if all goes well; WorstCase is the most if
	// no released pod comes back.
	Unavailable int `json:"unavailable"`
	WorstCase   int `json:"worstCase"`
	// QuorumLeft is the least number of healthy members; nil: there is no quorum budget.
	QuorumLeft *int     `json:"quorumLeft,omitempty"`
	Gates      []string `json:"gates,omitempty"`
	Metrics    []string `json:"metrics,omitempty"`
	// Webhooks are type and name. Those that begin the rollout stand at the first batch, those that end it
	// at the last one.
	Webhooks  []string `json:"webhooks,omitempty"`
	Handovers []string `json:"handovers,omitempty"` // pods that give up the last role first
	// Stops is where the rollout waits for a person.
	Stops    []string `json:"stops,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// PodPreview is one pod that moves.
type PodPreview struct {
	Name    string `json:"name"`
	Ordinal int    `json:"ordinal"`
	Role    string `json:"role,omitempty"`
	Zone    string `json:"zone,omitempty"`
}

// maxPreview bounds the decisions of a preview: 200 batches of 1,000 pods, released one at a time.
const maxPreview = 20_000

// Preview walks Next over ideal facts: every pod becomes ready, every hook, gate and metric passes,
// every stop is approved. The error is the fault with which the plan would be refused, or what the
// rollout would wait for.
func Preview(p Plan, f Facts) ([]BatchPreview, error) { return PreviewFrom(p, Position{}, f) }

// PreviewFrom is Preview from a position. Of batches that have ended it has the size only. A position
// that is at rest counts as none.
func PreviewFrom(p Plan, at Position, f Facts) ([]BatchPreview, error) {
	walk := p
	walk.Paused, walk.BatchPartition = false, nil
	w := &ideal{f: f.clone(), now: f.Now}
	w.f.Wanted.Request, w.f.Turn = nil, nil
	w.observe()
	if at.Released != nil && at.Released.After(w.now) { // by the operator, after the clock was looked at
		w.now = *at.Released
	}
	if at.State == "" || at.State == Locating || at.State.Terminal() {
		at = Position{}
	}
	from := at
	at.Pause, at.Batches = nil, maps.Clone(at.Batches)
	var all []BatchPreview
	worst := -1
	var lost *ideal
	var left Position
	refused := ""
	for step := range maxPreview {
		d, before := Next(walk, at, w.f, w.now), at
		if at = d.Position; step == 0 {
			refused = at.PlanRefused
		}
		for len(all) < len(at.Batches) {
			i := len(all)
			all = append(all, BatchPreview{Index: i, Size: at.Batches[i].Size, Target: at.recorded(p).Target(at.Mode, deref(at.OriginalSize), deref(at.TargetSize), i)})
		}
		switch {
		case d.Fault != nil:
			return nil, d.Fault
		case at.State == Succeeded:
			return warned(finished(all, p, from, at, f), refused), nil
		case at.State.Terminal() && from.Started != nil: // a pod that is away keeps budgets or roles from being seen
			return nil, WorkloadBusy.Errorf("the pods are changing: %s", at.failure())
		case at.State.Terminal():
			return nil, PlanInvalid.Errorf("the rollout would end as %s: %+v", at.State, at.Failure)
		}
		moving := at.State == InBatch && at.CurrentBatch < len(all)
		if moving && at.CurrentBatch > worst {
			worst = at.CurrentBatch
			switch {
			case lost != nil && left.CurrentBatch == worst:
				lost, left = lost.worst(&all[worst], walk, left)
			case judgementOf(walk, at, w.f).inSteps():
				lost, left = w.worst(&all[worst], walk, before)
			}
		}
		if moving {
			w.note(&all[at.CurrentBatch], d, p, at)
		}
		if !w.follow(d) {
			return nil, blocked(d.Outcome)
		}
		if moving {
			all[at.CurrentBatch].Pods = append(all[at.CurrentBatch].Pods, w.moved...)
		}
		w.moved = nil
	}
	return nil, BudgetImpossible.Errorf("the rollout would not end")
}

// failure is the message of the failure, if there is one.
func (at Position) failure() string {
	if at.Failure == nil {
		return string(at.State)
	}
	return at.Failure.Message
}

// warned adds to the first batch why the last edit of the plan does not count.
func warned(all []BatchPreview, refused string) []BatchPreview {
	if refused != "" && len(all) > 0 {
		all[0].Warnings = append(all[0].Warnings, "the plan as it was before its last edit counts: "+refused)
	}
	return all
}

func blocked(o outcome.Outcome) error {
	for _, kind := range []*fault.Kind{NothingToRoll, ReplicasOwned, KindNotServed, TargetMissing, TargetRevisionMissing} {
		if kind.Reason() == o.Reason() {
			return kind.Errorf("%s", o.Message())
		}
	}
	return WorkloadBusy.Errorf("%s: %s", o.Reason(), o.Message())
}

// ended is how many batches have ended.
func (at Position) ended() int {
	switch {
	case at.State == Finalising:
		return len(at.Batches)
	case at.State == InBatch && at.BatchState == BatchReady:
		return at.CurrentBatch + 1
	case at.State == InBatch:
		return at.CurrentBatch
	}
	return 0
}

// stops are where the batch waits for a person, as seen from a position.
func (p Plan) stops(i int, from Position) (stops []string) {
	if i == from.ended() {
		switch {
		case from.Pause != nil && from.Pause.By != ByUser:
			stops = append(stops, "paused: "+from.Pause.Reason)
		case p.Paused && !from.Resumed:
			stops = append(stops, "paused")
		}
	}
	runs := from.State == InBatch && i == from.CurrentBatch
	approved := from.Approved != nil && same(from.Approved.Partition, p.BatchPartition) && i <= from.Approved.Batch
	if p.BatchPartition != nil && i > *p.BatchPartition && !runs && !approved {
		stops = append(stops, "batchPartition "+strconv.Itoa(*p.BatchPartition)+": waits for an approval")
	}
	return stops
}

// uncounted warns of pods that a budget does not see as what they are.
func (d Disruption) uncounted(pods []Pod) (warnings []string) {
	count := func(which func(Pod) bool) (n int) {
		for _, p := range pods {
			if which(p) {
				n++
			}
		}
		return n
	}
	if q := d.Quorum; q != nil {
		if n := count(func(p Pod) bool { return !q.Selector.Matches(p.Labels) }); n > 0 {
			warnings = append(warnings, fmt.Sprintf("the selector of the quorum does not select %d of %d pods: each of them is released as if it were a member", n, len(pods)))
		}
	}
	if d.MaxUnavailablePerZone != nil {
		if n := count(func(p Pod) bool { return p.Zone == "" && p.UID != "" }); n > 0 { // pods without a cluster have no zone
			warnings = append(warnings, fmt.Sprintf("%d of %d pods have no label %s: each counts in every zone", n, len(pods), d.ZoneKey))
		}
	}
	return warnings
}

// finished adds what stands in the plan beside the walk: stops and warnings.
func finished(all []BatchPreview, p Plan, from, at Position, f Facts) []BatchPreview {
	plan := judgementOf(p, at, f).p
	for i := range all {
		b := &all[i]
		types := []HookType{PreBatchHook, PostBatchHook, EventHook}
		if i == 0 && from.State != InBatch {
			types = append([]HookType{InitializeHook}, types...)
		}
		if i == len(all)-1 {
			types = append(types, FinalizeHook)
		}
		if i < from.ended() {
			if i == len(all)-1 {
				b.Webhooks = plan.hookNames(i, EventHook, FinalizeHook)
			}
			continue
		}
		for _, when := range []GateWhen{BeforeBatch, BeforePod, AfterBatch} {
			for _, g := range plan.gates(when, i) {
				b.Gates = append(b.Gates, string(when)+" "+g.Name)
			}
		}
		for _, m := range plan.metrics(i) {
			b.Metrics = append(b.Metrics, m.Name)
		}
		b.Webhooks, b.Stops = plan.hookNames(i, types...), p.stops(i, from)
	}
	if len(all) == 0 || f.Target == nil {
		return all
	}
	first := &all[0]
	first.Warnings = append(first.Warnings, plan.disruption().uncounted(f.Pods)...)
	if t := f.Target; t.Kind != Deployment {
		if at.Mode == Rollout && !t.Guarded {
			first.Warnings = append(first.Warnings, "the hold is not guarded: a write of the template by somebody else releases pods")
		}
		if at.Mode == Rollout && at.Before > 0 {
			first.Warnings = append(first.Warnings, strconv.Itoa(at.Before)+" pods have the target revision already; one that is made anew before its batch comes back with the old one")
		}
		if at.Mode == Rollout && plan.picks() && t.Kind != CloneSet {
			first.Warnings = append(first.Warnings, "pods are replaced one by one, as the type OnDelete has it: one that anybody deletes meanwhile comes back with the new revision")
		}
		if at.Mode == Scale && deref(at.TargetSize) < deref(at.OriginalSize) && t.kept() > 0 && t.kept() < t.Replicas {
			first.Warnings = append(first.Warnings, "the pods with the highest ordinals go first: those of the canary")
		}
		if at.Mode == Rollout && p.RolloutStrategy == DecreaseFirst {
			first.Warnings = append(first.Warnings, "rolloutStrategy counts only for Deployments")
		}
	}
	return all
}
