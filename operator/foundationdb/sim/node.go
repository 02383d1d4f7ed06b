package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Labels and taints of nodes that Kubernetes gives.
const (
	hostLabel        = "kubernetes.io/hostname"
	zoneLabel        = "topology.kubernetes.io/zone"
	unreachableTaint = "node.kubernetes.io/unreachable"
)

// node is what the world knows of a node beside its object.
type node struct {
	name string
	ip   string
	lost bool // its kubelet does not answer, and its network is cut
	loss int  // counts its losses
	pods map[types.UID]*pod
}

// NodeName returns the name of the nth node, the first being 0.
func NodeName(n int) string { return "node-" + strconv.Itoa(n+1) }

// addNode makes the nth node.
func (w *World) addNode(n int) {
	w.store.add(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: NodeName(n), Labels: map[string]string{
			hostLabel: NodeName(n), zoneLabel: "zone-" + strconv.Itoa(n%w.options.Zones+1),
		}},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeIP(n + 1)}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	})
}

func nodeIP(n int) string { return fmt.Sprintf("192.168.%d.%d", n/250, n%250+1) }

// nodeMade gives a new node a kubelet.
func (w *World) nodeMade(o *corev1.Node) {
	w.machines++
	w.nodes[o.Name] = &node{name: o.Name, ip: nodeIP(w.machines), pods: map[types.UID]*pod{}}
	w.after(0, w.reschedule)
}

// Cordon keeps pods from a node, or lets them on it again.
func (w *World) Cordon(node string, on bool) {
	w.editNode(node, func(n *corev1.Node) { n.Spec.Unschedulable = on })
}

// Taint adds a taint to a node; without an effect it is NoSchedule, and it is added now.
func (w *World) Taint(node string, t corev1.Taint) {
	t.Effect = cmp.Or(t.Effect, corev1.TaintEffectNoSchedule)
	t.TimeAdded = new(w.metaNow())
	w.editNode(node, func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, t) })
}

// Untaint removes the taints with a key from a node.
func (w *World) Untaint(node, key string) {
	w.editNode(node, func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
	})
}

func (w *World) editNode(node string, edit func(*corev1.Node)) {
	if n := get[*corev1.Node](w.store, name{name: node}); n != nil {
		update(w.store, n, edit)
	}
}

// LoseNode takes a node away: nobody reaches it, its kubelet is silent, and its pods are evicted after some time,
// though they go only when it is back, or is deleted.
func (w *World) LoseNode(node string) {
	n := w.nodes[node]
	if n == nil || n.lost {
		return
	}
	n.lost = true
	n.loss++
	loss := n.loss
	w.database.Note("%s is lost", node)
	for _, p := range sorted(n.pods) {
		p.cut(true)
	}
	w.after(w.options.Times.NodeLost, func() {
		if n.lost && n.loss == loss {
			w.unreachable(n, loss)
		}
	})
}

// unreachable marks a lost node and its pods, and evicts them later.
func (w *World) unreachable(n *node, loss int) {
	w.Taint(n.name, corev1.Taint{Key: unreachableTaint, Effect: corev1.TaintEffectNoExecute})
	w.editNode(n.name, func(o *corev1.Node) { heard(o, corev1.ConditionUnknown) })
	for _, p := range sorted(n.pods) {
		p.report()
	}
	w.after(w.options.Times.Evict, func() {
		if n.lost && n.loss == loss {
			for _, p := range sorted(n.pods) {
				w.Evict(p.name.namespace, p.name.name)
			}
		}
	})
}

// heard sets whether a node is ready.
func heard(o *corev1.Node, ready corev1.ConditionStatus) {
	o.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
}

// ReturnNode brings a lost node back, with its pods.
func (w *World) ReturnNode(node string) {
	n := w.nodes[node]
	if n == nil || !n.lost {
		return
	}
	n.lost = false
	w.database.Note("%s is back", node)
	w.Untaint(node, unreachableTaint)
	w.editNode(node, func(o *corev1.Node) { heard(o, corev1.ConditionTrue) })
	for _, p := range sorted(n.pods) {
		p.cut(false)
		if p.object().DeletionTimestamp != nil {
			p.terminate()
			continue
		}
		w.boot(p)
		p.report()
	}
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
func (w *World) choose(p *corev1.Pod) string {
	key, required := apart(p)
	best, bestAlike, bestPods := "", 0, 0
	for _, named := range w.store.tables["Node"].names {
		n := get[*corev1.Node](w.store, named)
		if !schedulable(p, n) {
			continue
		}
		alike, pods := w.spread[key][n.Labels[key.topology]], len(w.nodes[n.Name].pods)
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
func (w *World) occupy(p *pod, by int) {
	n := w.nodes[p.node]
	if n == nil {
		n = &node{} // it is deleted
	}
	if by > 0 {
		n.pods[p.uid] = p
		p.keeps, _ = apart(p.object())
		p.domain = get[*corev1.Node](w.store, name{name: p.node}).Labels[p.keeps.topology]
	} else {
		delete(n.pods, p.uid)
	}
	if w.spread[p.keeps] == nil {
		w.spread[p.keeps] = map[string]int{}
	}
	w.spread[p.keeps][p.domain] += by
}

// schedule gives a pod a node, if one may take it and its claims are there.
func (w *World) schedule(p *pod) {
	o := p.object()
	if o == nil || p.node != "" || o.DeletionTimestamp != nil {
		return
	}
	w.waiting[p.uid] = p
	if why := w.missingClaim(o); why != "" {
		w.unschedulable(o, why)
		return
	}
	chosen := w.choose(o)
	if chosen == "" {
		w.unschedulable(o, "0/"+strconv.Itoa(len(w.nodes))+" nodes are available")
		return
	}
	delete(w.waiting, p.uid)
	p.node = chosen
	w.occupy(p, 1)
	w.database.Note("pod %s gets %s", p.name, chosen)
	update(w.store, o, func(o *corev1.Pod) {
		o.Spec.NodeName = chosen
		condition(o, corev1.PodScheduled, true, "", w.metaNow())
	})
	w.after(w.around(w.options.Times.Boot), func() { w.boot(p) })
}

func (w *World) unschedulable(p *corev1.Pod, why string) {
	update(w.store, p, func(o *corev1.Pod) { condition(o, corev1.PodScheduled, false, why, w.metaNow()) })
}

// reschedule looks at all pods without a node again.
func (w *World) reschedule() {
	for _, p := range sorted(maps.Clone(w.waiting)) {
		w.schedule(p)
	}
}

// metaNow is the time as objects have it: whole seconds.
func (w *World) metaNow() metav1.Time { return metav1.Time{Time: w.Now().Truncate(time.Second)} }

// condition sets a condition of a pod.
func condition(p *corev1.Pod, kind corev1.PodConditionType, holds bool, message string, now metav1.Time) {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Message: message, LastTransitionTime: now}
	if holds {
		c.Status = corev1.ConditionTrue
	}
	if kind == corev1.PodScheduled && !holds {
		c.Reason = corev1.PodReasonUnschedulable
	}
	for i, old := range p.Status.Conditions {
		if old.Type == kind {
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			p.Status.Conditions[i] = c
			return
		}
	}
	p.Status.Conditions = append(p.Status.Conditions, c)
}
