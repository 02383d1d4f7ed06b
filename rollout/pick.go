package rollout

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/outcome"
)

func timeOf(d Duration) time.Duration { return time.Duration(d) }

// pickNext is RolloutOneBatchPods of a workload that updates what is deleted: one pod after the other
// is chosen from what is observed, handed over if it has the last role, and evicted.
func (j inPlace) pickNext() Verdict {
	w := *j.f.Target
	if j.picked() {
		return passed()
	}
	if v, ok := j.rolesRead(); !ok {
		return v
	}
	next := j.nextInOrder()
	if next == nil {
		return passed()
	}
	if v, ok := j.mayRelease(next); !ok {
		return v
	}
	if v, ok := j.handedOver(*next); !ok {
		return v
	}
	a := w.act("replace pod " + next.Name)
	ref := &PodRef{Name: next.Name, UID: next.UID, ResourceVersion: next.ResourceVersion}
	if j.f.available(next, &w) || next.Ready {
		a.Evict = ref
	} else {
		a.Delete = ref
	}
	return Verdict{Acts: []Act{a}, Position: j.at}
}

// picked reports whether as many pods as the batch needs were replaced, or go.
func (j inPlace) picked() bool {
	if j.at.Rollback != nil {
		return j.toRevert(false) <= j.moved()
	}
	old := 0
	for _, p := range j.f.podsOf(*j.f.Target) {
		if p.Revision != j.revision() && !p.Terminating && !j.surplus(p) {
			old++
		}
	}
	return j.f.Target.Replicas-old >= j.moved()
}

// surplus reports whether a pod goes because the set has become smaller.
func (j inPlace) surplus(p Pod) bool {
	w := j.f.Target
	return w.Kind != CloneSet && w.ordinals().Place(p.Ordinal) >= w.Replicas
}

// rolesRead asks for the roles that a probe has read before the last release: the leader may be
// another one since. A pod whose role cannot be read counts as away.
func (j *judgement) rolesRead() (Verdict, bool) {
	if j.p.Order == nil || j.p.Order.RoleProbe == "" {
		return Verdict{}, true
	}
	var pods []string
	for _, p := range j.f.podsOf(*j.f.Target) {
		if p.Revision != j.revision() && p.Ready && !p.Terminating && j.unread(p, j.at.Released) {
			pods = append(pods, p.Name)
		}
	}
	if pods == nil {
		return Verdict{}, true
	}
	v := waits(0, "RolePending", "the role of pod %s is read", pods[0])
	v.Position, v.Asks = j.at, []Ask{j.readRoles(pods)}
	return v, false
}

// unread reports whether the role of a pod is not known, or was read before a moment.
func (j *judgement) unread(p Pod, since *time.Time) bool {
	facts, asked := p.Probes[j.p.Order.RoleProbe]
	return asked && !facts.Failed && (!facts.Passing || since != nil && facts.At.Before(*since))
}

func (j *judgement) readRoles(pods []string) Ask {
	name := j.p.Order.RoleProbe
	probe := j.p.Probes[slices.IndexFunc(j.p.Probes, func(p Probe) bool { return p.Name == name })]
	return Ask{Key: j.f.key(j.at, "probe", name), Kind: AskProbe, Name: name, Batch: j.at.CurrentBatch, Probe: &probe, Pods: pods, Fresh: true}
}

// nextInOrder is the next pod to replace; nil: there is none.
func (j inPlace) nextInOrder() *Pod {
	var pods []Pod
	for _, p := range j.f.podsOf(*j.f.Target) {
		back := j.at.Rollback != nil && p.Revision == j.at.TargetHash
		if !p.Terminating && !j.surplus(p) && (back || j.at.Rollback == nil && p.Revision != j.revision()) {
			pods = append(pods, p)
		}
	}
	return j.firstOf(pods)
}

// firstOf is the pod that goes before the others: one that the batch may move, or, as pods that were
// named can be gone, one that no batch names.
func (j inPlace) firstOf(pods []Pod) *Pod {
	var mine, free []Pod
	for _, p := range pods {
		switch {
		case j.at.Rollback != nil || j.mayMove(p):
			mine = append(mine, p)
		case !slices.ContainsFunc(j.p.RolloutBatches, func(b Batch) bool { return b.chooses() && b.names(p) }):
			free = append(free, p)
		}
	}
	if len(mine) == 0 {
		mine = free
	}
	if len(mine) == 0 {
		return nil
	}
	j.byRole(mine)
	return &mine[0]
}

// chooses reports whether the batch says which pods it moves.
func (b Batch) chooses() bool { return b.PodList != nil || b.Pods != nil }

// mayMove reports whether a batch up to the current one may move the pod.
func (j inPlace) mayMove(p Pod) bool {
	open := false // a batch without names has begun
	for i, b := range j.p.RolloutBatches {
		switch named := b.chooses(); {
		case named && b.names(p):
			return i <= j.at.CurrentBatch
		case !named && i <= j.at.CurrentBatch:
			open = true
		}
	}
	return open
}

// roleRank is the place of a pod's role: roles that are not named come first, the last named one last.
func (p Plan) roleRank(pod Pod) int {
	if p.Order == nil {
		return 0
	}
	return slices.Index(p.Order.Roles, pod.Role)
}

// lastRole reports whether a pod has the role that is handed over.
func (p Plan) lastRole(pod Pod) bool {
	return p.Order != nil && len(p.Order.Roles) > 0 && pod.Role == p.Order.Roles[len(p.Order.Roles)-1]
}

// handedOver asks the database to move the last role away from the pod. That the pod is seen with
// another role is what counts.
func (j *judgement) handedOver(p Pod) (Verdict, bool) {
	if j.p.Order == nil || j.p.Order.Handover == nil || !j.p.lastRole(p) || !j.f.available(&p, j.f.Target) || j.f.Target.Replicas == 1 {
		return Verdict{}, true
	}
	h := j.p.Order.Handover.defaulted()
	key := j.f.key(j.at, "handover", p.Name)
	so := j.at.Answers[key]
	v := waits(0, "HandoverPending", "pod %s is asked to give up its role %s", p.Name, p.Role)
	v.Position = j.at
	if so.Verdict == "Skipped" {
		return Verdict{}, true
	}
	if a, ok := j.f.Answers[key]; ok && a.Attempt == so.Attempts+1 {
		so.Attempts++
		so.Value = a.Message
		out := h.judge(p.Name, so.Attempts, a)
		if out.IsFail() {
			return Verdict{Outcome: out, Position: v.Position.answered(key, so)}, false
		}
		next := j.f.Now.Add(max(out.After(), retryDelay(p.Name, so.Attempts)))
		so.Next, so.Since = &next, &j.f.Now
		v.Position = v.Position.answered(key, so)
	}
	if j.p.Order.RoleProbe != "" && j.unread(p, so.Since) { // it may have moved
		v.Asks = []Ask{j.readRoles([]string{p.Name})}
		return v, false
	}
	if so.Attempts > *h.Retries {
		v.Outcome = outcome.Fail(HandoverFailed.Errorf("pod %s still has the role %s after %d attempts", p.Name, p.Role, so.Attempts).With("pod", p.Name))
		return v, false
	}
	if so.Next != nil && j.f.Now.Before(*so.Next) {
		v.Outcome = waits(so.Next.Sub(j.f.Now), "HandoverPending", "pod %s keeps its role %s: it is asked again", p.Name, p.Role).Outcome
		return v, false
	}
	v.Asks = []Ask{{Key: key, Kind: AskHandover, Name: p.Name, Attempt: so.Attempts + 1, Batch: j.at.CurrentBatch, Handover: &h, Pods: []string{p.Name}}}
	return v, false
}
