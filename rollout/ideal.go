package rollout

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/rollout/internal/ordinal"
)

// ideal is a workload in which everything succeeds at once.
type ideal struct {
	f     Facts
	now   time.Time
	moved []PodPreview
	uids  int
	lost  bool // no released pod becomes ready
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
	j := judgementOf(p, at, after.f)
	away := j.pods().Away()
	one := away
	if t := after.f.Target; !t.Parallel && t.Kind == StatefulSet || t.Kind == AdvancedStatefulSet {
		one = min(away, 1) // ordered sets replace one after the other
	}
	b.Unavailable = max(b.Unavailable, one)
	b.worse(j)
}

// worse counts what is away at the worst moment, and what is left of the quorum.
func (b *BatchPreview) worse(j *judgement) {
	pods := j.pods()
	b.WorstCase = max(b.WorstCase, pods.Away())
	if q := j.budgets().Quorum; q != nil {
		if left := q.Left(pods); b.QuorumLeft == nil || left < *b.QuorumLeft {
			b.QuorumLeft = &left
		}
	}
}

// inSteps reports whether the current batch may have several releases, or end with pods that are away: only
// then is there more to the worst case than its one write.
func (j *judgement) inSteps() bool {
	return j.counting() || j.paced() || j.p.picks() || j.batch().MaxUnavailable != nil || j.f.Target.Kind == Deployment
}

// worst walks one batch in which no released pod comes back, from where it begins: as far as budgets, and
// the batch itself, let it. It reports where that ends, if it ends behind the batch: its slack is then away
// in the next one too.
func (w *ideal) worst(b *BatchPreview, p Plan, at Position) (*ideal, Position) {
	w = &ideal{f: w.f.clone(), now: w.now, uids: w.uids, lost: true}
	p.OnFailure = OnFailurePause
	for range maxPreview {
		d := Next(p, at, w.f, w.now)
		if d.Position.State != InBatch || d.Position.Pause != nil {
			return nil, Position{}
		}
		if at = d.Position; at.CurrentBatch != b.Index {
			return w, at
		}
		released := false
		for _, a := range d.Acts {
			released = a.Replicas != nil || a.Partition != nil || a.Evict != nil || a.Delete != nil || released
		}
		if !w.follow(d) {
			return nil, Position{}
		}
		if released {
			b.worse(judgementOf(p, at, w.f))
		}
	}
	return nil, Position{}
}

// follow does what a decision asks for, and reports whether anything has changed.
func (w *ideal) follow(d Decision) bool {
	changed := false
	for _, a := range d.Acts {
		w.write(a)
		changed = true
	}
	changed = w.settle() || changed
	answers := maps.Clone(w.f.Answers) // a gate is read in every pass
	if answers == nil {
		answers = map[string]Answer{}
	}
	for _, ask := range d.Asks {
		if ask.Kind == AskProbe {
			changed = w.probe(ask, d.Position.Released) || changed
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

// observe lets the controllers follow the newest specs whose template they know.
func (w *ideal) observe() {
	if t := w.f.Target; t != nil && t.Template == t.UpdateRevision {
		t.ObservedGeneration = max(t.ObservedGeneration, t.Generation)
	}
	for i := range w.f.Sources {
		s := &w.f.Sources[i]
		s.ObservedGeneration = max(s.ObservedGeneration, s.Generation)
	}
}

// probe answers with the pods' roles, no earlier than the last release.
func (w *ideal) probe(ask Ask, released *time.Time) (changed bool) {
	at := w.now
	if released != nil && released.After(at) {
		at = *released
	}
	for i, p := range w.f.Pods {
		if known := p.Probes[ask.Name]; slices.Contains(ask.Pods, p.Name) && (!known.Passing || ask.Fresh && known.At.Before(at)) {
			w.f.Pods[i].Probes = maps.Clone(p.Probes)
			if w.f.Pods[i].Probes == nil {
				w.f.Pods[i].Probes = map[string]ProbeFacts{}
			}
			w.f.Pods[i].Probes[ask.Name] = ProbeFacts{Passing: true, Value: p.Role, At: at}
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
				w.counted(p, false)
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

// settle lets the controllers finish at once, and reports whether that changed anything.
func (w *ideal) settle() (changed bool) {
	changed = w.settleOne(w.f.Target)
	for i := range w.f.Sources {
		changed = w.settleOne(&w.f.Sources[i]) || changed
	}
	return changed
}

func (w *ideal) settleOne(t *WorkloadFacts) (changed bool) {
	if t == nil {
		return false
	}
	was, moved := *t, len(w.moved)
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
		released := t.UpdateType != OnDelete && (t.counts() && old > t.kept() || !t.counts() && t.ordinals().Place(p.Ordinal) >= t.kept())
		if p.Terminating || released && p.Revision != t.UpdateRevision {
			if p.Revision != t.UpdateRevision {
				old--
			}
			w.moved = append(w.moved, PodPreview{Name: p.Name, Ordinal: p.Ordinal, Role: p.Role, Zone: p.Zone})
			own[i].Revision, own[i].Terminating, own[i].Ready = t.UpdateRevision, false, !w.lost
			own[i].ReadySince, own[i].Probes = w.now, nil
			w.counted(p, own[i].Ready)
		} else if p.Revision == t.UpdateRevision && !p.Ready && !w.lost { // it was starting
			own[i].Ready, own[i].ReadySince = true, w.now
			w.counted(p, true)
			changed = true
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
	return changed || len(w.moved) > moved || was.CurrentRevision != t.CurrentRevision || was.StatusReplicas != t.StatusReplicas
}

// counted lets the PodDisruptionBudgets see that a pod is ready, or is not any more: each of those that are
// away takes one disruption.
func (w *ideal) counted(was Pod, ready bool) {
	for i, b := range w.f.Budgets {
		switch {
		case was.Ready == ready || !b.Selector.Matches(was.Labels):
		case ready:
			w.f.Budgets[i].Allowed++
		default:
			w.f.Budgets[i].Allowed--
		}
	}
}

// resize gives the workload the pods that it asks for.
func (w *ideal) resize(t WorkloadFacts, own []Pod) []Pod {
	reserved := ordinal.List(t.Reserved)
	own = slices.DeleteFunc(own, func(p Pod) bool {
		if gone := p.Ordinal >= 0 && slices.Contains(reserved, p.Ordinal); gone {
			w.moved = append(w.moved, PodPreview{Name: p.Name, Ordinal: p.Ordinal, Role: p.Role, Zone: p.Zone})
			return true
		}
		return false
	})
	for len(own) > t.Replicas {
		last := slices.MaxFunc(own, func(a, b Pod) int {
			if a.Terminating != b.Terminating && t.counts() { // its successor is there already
				if a.Terminating {
					return 1
				}
				return -1
			}
			return a.Ordinal - b.Ordinal
		})
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
		own[len(own)-1].Ready = !w.lost
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
			pod.Labels = q.Selector.example()
		}
		f.Pods = append(f.Pods, pod)
	}
	return f
}
