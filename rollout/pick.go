package rollout

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/outcome"
)

func timeOf(d Duration) time.Duration { return time.Duration(d) }

// pickPods is RolloutOneBatchPods of a workload that updates what is deleted: one pod after the other
// is chosen from what is observed, handed over if it has the last role, and evicted.
func pickPods(j judgement) Verdict {
	w := *j.f.Target
	changed := j.f.count(w, j.revision()).updated // those that have the revision already
	for _, p := range j.f.podsOf(w) {
		if p.Terminating {
			changed++
		}
	}
	changed += max(0, w.Replicas-len(j.f.podsOf(w)))
	if j.at.Rollback == nil && changed >= j.moved() || j.at.Rollback != nil && j.toRevert(false) <= j.moved() {
		return passed()
	}
	if v, ok := j.rolesKnown(j.f.podsOf(w)...); !ok {
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

// nextInOrder is the next pod to replace: one that the batch names, or one that no batch names; those
// that are away first, then by role, then from the highest ordinal down.
func (j judgement) nextInOrder() *Pod {
	w := *j.f.Target
	var pods []Pod
	for _, p := range j.f.podsOf(w) {
		back := j.at.Rollback != nil && p.Revision == j.at.TargetHash
		if !p.Terminating && (back || j.at.Rollback == nil && p.Revision != j.revision() && j.mayMove(p)) {
			pods = append(pods, p)
		}
	}
	if len(pods) == 0 {
		return nil
	}
	slices.SortStableFunc(pods, func(a, b Pod) int {
		if d := j.p.roleRank(a) - j.p.roleRank(b); d != 0 {
			return d
		}
		if up := j.f.available(&a, &w); up != j.f.available(&b, &w) {
			if up {
				return 1
			}
			return -1
		}
		return b.Ordinal - a.Ordinal
	})
	return &pods[0]
}

// mayMove reports whether a batch up to the current one may move the pod.
func (j judgement) mayMove(p Pod) bool {
	open := false // a batch without names has begun
	for i, b := range j.p.RolloutBatches {
		named := b.PodList != nil || b.Pods != nil
		switch {
		case named && b.names(p):
			return i <= j.at.CurrentBatch
		case !named && i <= j.at.CurrentBatch:
			open = true
		}
	}
	return open
}

// tellsRole reports whether the value of a probe is the role of a pod: then all pods are asked.
func (p Plan) tellsRole(probe Probe) bool { return p.Order != nil && p.Order.RoleProbe == probe.Name }

// rolesKnown waits until the probe has told the roles of the pods that serve.
func (j judgement) rolesKnown(pods ...Pod) (Verdict, bool) {
	if j.p.Order == nil || j.p.Order.RoleProbe == "" || j.at.Answers[j.f.key(j.at, "probe", j.p.Order.RoleProbe)].Verdict != "" {
		return Verdict{}, true
	}
	i := slices.IndexFunc(j.p.Probes, j.p.tellsRole)
	if i < 0 {
		return Verdict{}, true
	}
	of := j.p.Probes[i].Selector
	for i := range pods {
		p := &pods[i]
		told, asked := p.Probes[j.p.Order.RoleProbe], of == nil || of.Matches(p.Labels)
		if asked && p.Role == "" && !told.Passing && !j.f.away(p, j.f.Target) {
			return waits(0, "RolePending", "probe %s has not told the role of pod %s yet", j.p.Order.RoleProbe, p.Name), false
		}
	}
	return Verdict{}, true
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
func (j judgement) handedOver(p Pod) (Verdict, bool) {
	if v, ok := j.rolesKnown(p); !ok && j.p.Order.Handover != nil {
		return v, false
	}
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
		so.Next = &next
		v.Position = v.Position.answered(key, so)
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
