package sim

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// scheduler gives pods their nodes.
type scheduler struct {
	w       *World
	spread  map[spreadKey]map[string]int // pods of one anti-affinity by domain
	waiting map[types.UID]*pod           // pods without a node
}

// schedulable reports whether a pod may be put on a node.
func schedulable(p *corev1.Pod, n *corev1.Node) bool {
	if n.Spec.Unschedulable || !has(n.Labels, p.Spec.NodeSelector) {
		return false
	}
	for _, taint := range n.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool { return tolerates(t, taint) }) {
			return false
		}
	}
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil {
		return true
	}
	required := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	return required == nil || slices.ContainsFunc(required.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool { return selects(t, n) })
}

func tolerates(t corev1.Toleration, taint corev1.Taint) bool {
	switch {
	case t.Effect != "" && t.Effect != taint.Effect, t.Key != "" && t.Key != taint.Key:
		return false
	case t.Operator == corev1.TolerationOpExists:
		return true
	}
	return t.Key != "" && t.Value == taint.Value
}

// selects reports whether a term selects a node. A term without expressions selects none.
func selects(term corev1.NodeSelectorTerm, n *corev1.Node) bool {
	for _, e := range term.MatchExpressions {
		value, there := n.Labels[e.Key]
		if !satisfied(e, value, there) {
			return false
		}
	}
	for _, e := range term.MatchFields {
		if e.Key != "metadata.name" || !satisfied(e, n.Name, true) {
			return false
		}
	}
	return len(term.MatchExpressions)+len(term.MatchFields) > 0
}

func satisfied(e corev1.NodeSelectorRequirement, value string, there bool) bool {
	switch e.Operator {
	case corev1.NodeSelectorOpIn:
		return there && slices.Contains(e.Values, value)
	case corev1.NodeSelectorOpNotIn:
		return !there || !slices.Contains(e.Values, value)
	case corev1.NodeSelectorOpExists:
		return there
	case corev1.NodeSelectorOpDoesNotExist:
		return !there
	}
	number, err := strconv.Atoi(value)
	bound, bad := strconv.Atoi(e.Values[0])
	if !there || err != nil || bad != nil {
		return false
	}
	return e.Operator == corev1.NodeSelectorOpGt && number > bound || e.Operator == corev1.NodeSelectorOpLt && number < bound
}

// spreadKey is an anti-affinity of pods: the selector that each of them has, and the label of nodes by which they
// keep apart.
type spreadKey struct{ namespace, selector, topology string }

// apart returns the anti-affinity of a pod; required: it must be kept. Pods without one are spread over nodes with
// those of their owner.
func apart(p *corev1.Pod) (key spreadKey, required bool) {
	if p.Spec.Affinity != nil && p.Spec.Affinity.PodAntiAffinity != nil {
		a := p.Spec.Affinity.PodAntiAffinity
		for _, t := range a.RequiredDuringSchedulingIgnoredDuringExecution {
			return spreadKey{p.Namespace, metav1.FormatLabelSelector(t.LabelSelector), t.TopologyKey}, true
		}
		for _, t := range a.PreferredDuringSchedulingIgnoredDuringExecution {
			return spreadKey{p.Namespace, metav1.FormatLabelSelector(t.PodAffinityTerm.LabelSelector), t.PodAffinityTerm.TopologyKey}, false
		}
	}
	owner := ""
	for _, r := range p.OwnerReferences {
		owner = string(r.UID)
	}
	return spreadKey{p.Namespace, owner, hostLabel}, false
}

// choose returns the node for a pod: of those that may take it one whose domain has the fewest pods that the pod
// keeps apart from, then the one with the fewest pods. Empty: none.
func (sc *scheduler) choose(p *corev1.Pod) string {
	key, required := apart(p)
	best, bestAlike, bestPods := "", 0, 0
	for _, named := range sc.w.store.tables["Node"].names {
		n := get[*corev1.Node](sc.w.store, named)
		if !schedulable(p, n) {
			continue
		}
		alike, pods := sc.spread[key][n.Labels[key.topology]], len(sc.w.nodes.of[n.Name].pods)
		if required && alike > 0 {
			continue
		}
		if best == "" || cmp.Or(cmp.Compare(alike, bestAlike), cmp.Compare(pods, bestPods)) < 0 {
			best, bestAlike, bestPods = n.Name, alike, pods
		}
	}
	return best
}

// occupy counts a pod on its node, or no longer.
func (sc *scheduler) occupy(p *pod, by int) {
	n := sc.w.nodes.of[p.node]
	if n == nil {
		n = &node{} // it is deleted
	}
	if by > 0 {
		n.pods[p.uid] = p
		p.keeps, _ = apart(p.object())
		p.domain = get[*corev1.Node](sc.w.store, name{name: p.node}).Labels[p.keeps.topology]
	} else {
		delete(n.pods, p.uid)
	}
	if sc.spread[p.keeps] == nil {
		sc.spread[p.keeps] = map[string]int{}
	}
	sc.spread[p.keeps][p.domain] += by
}

// schedule gives a pod a node, if one may take it and its claims are there.
func (sc *scheduler) schedule(p *pod) {
	o := p.object()
	if o == nil || p.node != "" || o.DeletionTimestamp != nil {
		return
	}
	sc.waiting[p.uid] = p
	if why := sc.w.claims.missing(o); why != "" {
		sc.unschedulable(o, why)
		return
	}
	chosen := sc.choose(o)
	if chosen == "" {
		sc.unschedulable(o, "0/"+strconv.Itoa(len(sc.w.nodes.of))+" nodes are available")
		return
	}
	delete(sc.waiting, p.uid)
	p.node = chosen
	sc.occupy(p, 1)
	sc.w.database.Note("pod %s gets %s", p.name, chosen)
	update(sc.w.store, o, func(o *corev1.Pod) {
		o.Spec.NodeName = chosen
		condition(o, corev1.PodScheduled, true, "", sc.w.metaNow())
	})
	sc.w.after(sc.w.around(sc.w.options.Times.Boot), func() { sc.w.kubelet.boot(p) })
}

func (sc *scheduler) unschedulable(p *corev1.Pod, why string) {
	update(sc.w.store, p, func(o *corev1.Pod) { condition(o, corev1.PodScheduled, false, why, sc.w.metaNow()) })
}

// reschedule looks at all pods without a node again.
func (sc *scheduler) reschedule() {
	for _, p := range sorted(maps.Clone(sc.waiting)) {
		sc.schedule(p)
	}
}
