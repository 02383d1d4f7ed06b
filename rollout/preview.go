package rollout

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

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
	if at.State == "" || at.State == Locating || at.State.Terminal() {
		at = Position{}
	}
	from := at
	at.Pause, at.Batches = nil, maps.Clone(at.Batches)
	var all []BatchPreview
	for range maxPreview {
		d := Next(walk, at, w.f, w.now)
		at = d.Position
		for len(all) < len(at.Batches) {
			i := len(all)
			all = append(all, BatchPreview{Index: i, Size: at.Batches[i].Size, Target: p.Target(at.Mode, deref(at.OriginalSize), deref(at.TargetSize), i)})
		}
		switch {
		case d.Fault != nil:
			return nil, d.Fault
		case at.State == Succeeded:
			return finished(all, p, from, at, f), nil
		case at.State.Terminal():
			return nil, PlanInvalid.Errorf("the rollout would end as %s: %+v", at.State, at.Failure)
		}
		moving := at.State == InBatch && at.CurrentBatch < len(all)
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

// finished adds what stands in the plan beside the walk: stops and warnings.
func finished(all []BatchPreview, p Plan, from, at Position, f Facts) []BatchPreview {
	plan := judge(p, at, f).p
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

// ideal is a workload in which everything succeeds at once.
type ideal struct {
	f     Facts
	now   time.Time
	moved []PodPreview
	uids  int
}

func (f Facts) clone() Facts {
	if f.Target != nil {
		t := *f.Target
		f.Target = &t
	}
	f.Sources, f.Pods, f.Members = slices.Clone(f.Sources), slices.Clone(f.Pods), slices.Clone(f.Members)
	f.Budgets, f.Answers = slices.Clone(f.Budgets), nil
	return f
}

// note adds one decision to the preview of its batch.
func (w *ideal) note(b *BatchPreview, d Decision, p Plan, at Position) {
	for _, ask := range d.Asks {
		if ask.Kind == AskHandover {
			b.Handovers = append(b.Handovers, ask.Pods...)
		}
	}
	if len(d.Acts) == 0 {
		return
	}
	after := &ideal{f: w.f.clone(), now: w.now}
	released := false
	for _, a := range d.Acts {
		released = after.write(a) || released
	}
	if !released {
		return
	}
	b.Releases++
	if t := after.f.Target; t.Kind != Deployment && at.Mode == Rollout {
		b.Partition = new(t.Partition)
	}
	b.Replicas = map[string]int{after.f.Target.Name: after.f.Target.Replicas}
	for _, s := range after.f.Sources {
		b.Replicas[s.Name] = s.Replicas
	}
	j := judge(p, at, after.f)
	down, missing := j.down()
	away := len(down) + missing
	b.WorstCase = max(b.WorstCase, away)
	one := away
	if t := after.f.Target; !t.Parallel && t.Kind == StatefulSet || t.Kind == AdvancedStatefulSet {
		one = min(away, 1) // ordered sets replace one after the other
	}
	b.Unavailable = max(b.Unavailable, one)
	if q := p.disruption().Quorum; q != nil {
		if left := j.quorum(*q, down).healthy; b.QuorumLeft == nil || left < *b.QuorumLeft {
			b.QuorumLeft = &left
		}
	}
}

// follow does what a decision asks for, and reports whether anything has changed.
func (w *ideal) follow(d Decision) bool {
	changed := false
	for _, a := range d.Acts {
		w.write(a)
		changed = true
	}
	w.settle()
	answers := maps.Clone(w.f.Answers) // a gate is read in every pass
	if answers == nil {
		answers = map[string]Answer{}
	}
	for _, ask := range d.Asks {
		if ask.Kind == AskProbe {
			changed = w.probe(ask) || changed
			continue
		}
		changed = true
		answers[ask.Key] = Answer{Attempt: ask.Attempt, Status: 200, Open: true, Samples: inside(ask.Metric), Run: "Succeeded"}
		if ask.Kind == AskHandover {
			w.handOver(ask.Pods)
		}
	}
	w.f.Answers = answers
	if after := d.Outcome.After(); after > 0 && !changed {
		w.now = w.now.Add(after)
		changed = true
	}
	return changed
}

func inside(m *Metric) []string {
	switch {
	case m == nil:
		return nil
	case m.MetricsRange.Min != nil:
		return []string{m.MetricsRange.Min.String()}
	case m.MetricsRange.Max != nil:
		return []string{m.MetricsRange.Max.String()}
	default:
		return []string{"0"}
	}
}

func (w *ideal) probe(ask Ask) (changed bool) {
	for i, p := range w.f.Pods {
		if known := p.Probes[ask.Name]; slices.Contains(ask.Pods, p.Name) && (!known.Passing || ask.Fresh && known.At.Before(w.now)) {
			w.f.Pods[i].Probes = maps.Clone(p.Probes)
			if w.f.Pods[i].Probes == nil {
				w.f.Pods[i].Probes = map[string]ProbeFacts{}
			}
			w.f.Pods[i].Probes[ask.Name] = ProbeFacts{Passing: true, Value: p.Role, At: w.now}
			changed = true
		}
	}
	return changed
}

// handOver moves the role of a pod to another pod.
func (w *ideal) handOver(pods []string) {
	for i, p := range w.f.Pods {
		if !slices.Contains(pods, p.Name) {
			continue
		}
		for k, other := range w.f.Pods {
			if k != i && other.Role != p.Role {
				w.f.Pods[i].Role, w.f.Pods[k].Role = other.Role, p.Role
				return
			}
		}
		w.f.Pods[i].Role = ""
	}
}

// write applies one act to the facts, and reports whether it releases pods.
func (w *ideal) write(a Act) (releases bool) {
	if ref := cmp.Or(a.Evict, a.Delete); ref != nil {
		for i, p := range w.f.Pods {
			if p.Name == ref.Name {
				w.f.Pods[i].Terminating, w.f.Pods[i].Ready = true, false
			}
		}
		return true
	}
	t := w.f.Target
	for i := range w.f.Sources {
		if w.f.Sources[i].UID == a.Workload {
			t = &w.f.Sources[i]
		}
	}
	switch a.Claim {
	case TakeClaim:
		t.Controller, t.Anchored = &Owner{Kind: "Rollout", Name: w.f.Rollout.Name, UID: w.f.Rollout.UID}, true
	case ReleaseClaim:
		t.Controller, t.Anchored = nil, false
	}
	if a.Held != nil {
		t.Held = *a.Held
	}
	if a.Template != "" {
		t.Template, t.UpdateRevision = a.Template, a.Template
	}
	if a.Partition != nil {
		releases = *a.Partition < t.Partition
		t.Partition = *a.Partition
	}
	if a.Replicas != nil {
		releases = *a.Replicas != t.Replicas
		t.Replicas = *a.Replicas
	}
	if a.Paused != nil {
		t.Paused = *a.Paused
	}
	if a.UpdateType != "" {
		t.UpdateType = a.UpdateType
	}
	if a.Reserve != nil {
		t.Reserved = a.Reserve
	}
	if a.First != nil || a.Strategy != "" {
		t.First = a.First
	}
	t.Generation++
	t.ObservedGeneration = t.Generation
	return releases
}

// settle lets the controllers finish at once.
func (w *ideal) settle() {
	w.settleOne(w.f.Target)
	for i := range w.f.Sources {
		w.settleOne(&w.f.Sources[i])
	}
}

func (w *ideal) settleOne(t *WorkloadFacts) {
	if t == nil {
		return
	}
	own := slices.Clone(w.f.podsOf(*t))
	w.f.Pods = slices.DeleteFunc(w.f.Pods, func(p Pod) bool {
		return len(w.f.Sources) == 0 || p.Workload == t.UID || p.Workload == "" && w.f.Target.UID == t.UID
	})
	own = w.resize(*t, own)
	old := 0
	for _, p := range own {
		if p.Revision != t.UpdateRevision {
			old++
		}
	}
	slices.SortStableFunc(own, func(a, b Pod) int {
		if first := slices.Contains(t.First, a.Name); t.counts() && first != slices.Contains(t.First, b.Name) {
			if first {
				return -1
			}
			return 1
		}
		return b.Ordinal - a.Ordinal
	})
	for i, p := range own {
		released := t.UpdateType != OnDelete && (t.counts() && old > t.kept() || !t.counts() && t.position(p.Ordinal) >= t.kept())
		if p.Terminating || released && p.Revision != t.UpdateRevision {
			if p.Revision != t.UpdateRevision {
				old--
			}
			w.moved = append(w.moved, PodPreview{Name: p.Name, Ordinal: p.Ordinal, Role: p.Role, Zone: p.Zone})
			own[i].Revision, own[i].Terminating, own[i].Ready = t.UpdateRevision, false, true
			own[i].ReadySince, own[i].Probes = w.now, nil
		}
	}
	if old == 0 {
		t.CurrentRevision = t.UpdateRevision
	}
	t.StatusReplicas = len(own)
	w.f.Pods = append(w.f.Pods, own...)
	for i, m := range w.f.Members {
		if k := slices.IndexFunc(own, func(p Pod) bool { return p.Name == m.Name }); k >= 0 {
			w.f.Members[i] = own[k]
		}
	}
}

// resize gives the workload the pods that it asks for.
func (w *ideal) resize(t WorkloadFacts, own []Pod) []Pod {
	reserved := (PodSet{Ordinals: t.Reserved}).ordinals()
	own = slices.DeleteFunc(own, func(p Pod) bool {
		if gone := p.Ordinal >= 0 && slices.Contains(reserved, p.Ordinal); gone {
			w.moved = append(w.moved, PodPreview{Name: p.Name, Ordinal: p.Ordinal, Role: p.Role, Zone: p.Zone})
			return true
		}
		return false
	})
	for len(own) > t.Replicas {
		last := slices.MaxFunc(own, func(a, b Pod) int { return a.Ordinal - b.Ordinal })
		own = slices.DeleteFunc(own, func(p Pod) bool { return p.Name == last.Name })
		w.moved = append(w.moved, PodPreview{Name: last.Name, Ordinal: last.Ordinal, Role: last.Role, Zone: last.Zone})
	}
	for o := t.FirstOrdinal; len(own) < t.Replicas; o++ {
		if t.Kind == StatefulSet || t.Kind == AdvancedStatefulSet {
			if slices.Contains(reserved, o) || slices.ContainsFunc(own, func(p Pod) bool { return p.Ordinal == o }) {
				continue
			}
			own = append(own, idealPod(t, o, o))
		} else {
			w.uids++
			own = append(own, idealPod(t, -1, 10_000+w.uids))
		}
		born := own[len(own)-1]
		w.moved = append(w.moved, PodPreview{Name: born.Name, Ordinal: born.Ordinal})
	}
	return own
}

func idealPod(t WorkloadFacts, ordinal, number int) Pod {
	return Pod{Name: t.Name + "-" + strconv.Itoa(number), Workload: t.UID, Ordinal: ordinal, Revision: t.UpdateRevision, Ready: true}
}

// IdealFacts are those of a workload whose pods are all ready, for previews without a cluster. A
// target size other than replicas previews a scale, otherwise another template is assumed.
func IdealFacts(kind Kind, name string, replicas int, p Plan) Facts {
	t := WorkloadFacts{
		Kind: kind, Name: name, UID: "target", Generation: 1, ObservedGeneration: 1, Replicas: replicas, StatusReplicas: replicas,
		UpdateType: RollingUpdate, Template: "new", CurrentRevision: "old", UpdateRevision: "new", Partition: HoldAll, Guarded: true,
	}
	f := Facts{Rollout: Identity{Name: name, UID: "rollout"}, Wanted: Wanted{Kind: kind, TargetRevision: "new", TargetSize: p.TargetSize}}
	revision := "old"
	if p.TargetSize != nil && *p.TargetSize != replicas && kind != Deployment {
		revision, t.CurrentRevision, t.Partition = "new", "new", 0
	}
	owner := t
	if kind == Deployment {
		t.Partition, t.CurrentRevision = 0, "new"
		owner = t
		if p.TargetSize == nil || *p.TargetSize == replicas {
			owner.Name, owner.UID, owner.UpdateRevision, owner.Template = name+"-old", "source", "old", "old"
			t.Replicas, t.StatusReplicas = 0, 0
			f.Sources, f.Wanted.HasSource = []WorkloadFacts{owner}, true
		} else {
			revision = "new"
		}
	}
	f.Target = &t
	for i := range replicas {
		pod := idealPod(owner, i, i)
		pod.Revision = revision
		if kind == Deployment || kind == CloneSet {
			pod.Ordinal = -1
		}
		if q := p.disruption().Quorum; q != nil {
			pod.Labels = q.Selector.MatchLabels
		}
		f.Pods = append(f.Pods, pod)
	}
	return f
}
