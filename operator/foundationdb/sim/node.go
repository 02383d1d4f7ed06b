package sim

import (
	"cmp"
	"fmt"
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

// nodes are the nodes of the world.
type nodes struct {
	w        *World
	of       map[string]*node // by name
	machines int              // nodes that were made
}

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

// add makes the nth node.
func (ns *nodes) add(n int) {
	ns.w.store.add(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: NodeName(n), Labels: map[string]string{
			hostLabel: NodeName(n), zoneLabel: "zone-" + strconv.Itoa(n%ns.w.options.Zones+1),
		}},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeIP(n + 1)}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	})
}

func nodeIP(n int) string { return fmt.Sprintf("192.168.%d.%d", n/250, n%250+1) }

// made gives a new node a kubelet.
func (ns *nodes) made(o *corev1.Node) {
	ns.machines++
	ns.of[o.Name] = &node{name: o.Name, ip: nodeIP(ns.machines), pods: map[types.UID]*pod{}}
	ns.w.after(0, ns.w.scheduler.reschedule)
}

// Cordon keeps pods from a node, or lets them on it again.
func (ns *nodes) Cordon(node string, on bool) {
	ns.edit(node, func(n *corev1.Node) { n.Spec.Unschedulable = on })
}

// Taint adds a taint to a node; without an effect it is NoSchedule, and it is added now.
func (ns *nodes) Taint(node string, t corev1.Taint) {
	t.Effect = cmp.Or(t.Effect, corev1.TaintEffectNoSchedule)
	t.TimeAdded = new(ns.w.metaNow())
	ns.edit(node, func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, t) })
}

// Untaint removes the taints with a key from a node.
func (ns *nodes) Untaint(node, key string) {
	ns.edit(node, func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
	})
}

func (ns *nodes) edit(node string, edit func(*corev1.Node)) {
	if n := get[*corev1.Node](ns.w.store, name{name: node}); n != nil {
		update(ns.w.store, n, edit)
	}
}

// LoseNode takes a node away: nobody reaches it, its kubelet is silent, and its pods are evicted after some time,
// though they go only when it is back, or is deleted.
func (ns *nodes) LoseNode(node string) {
	n := ns.of[node]
	if n == nil || n.lost {
		return
	}
	n.lost = true
	n.loss++
	loss := n.loss
	ns.w.database.Note("%s is lost", node)
	for _, p := range sorted(n.pods) {
		p.cut(true)
	}
	ns.w.after(ns.w.options.Times.NodeLost, func() {
		if n.lost && n.loss == loss {
			ns.unreachable(n, loss)
		}
	})
}

// unreachable marks a lost node and its pods, and evicts them later.
func (ns *nodes) unreachable(n *node, loss int) {
	ns.Taint(n.name, corev1.Taint{Key: unreachableTaint, Effect: corev1.TaintEffectNoExecute})
	ns.edit(n.name, func(o *corev1.Node) { heard(o, corev1.ConditionUnknown) })
	for _, p := range sorted(n.pods) {
		p.report()
	}
	ns.w.after(ns.w.options.Times.Evict, func() {
		if n.lost && n.loss == loss {
			for _, p := range sorted(n.pods) {
				ns.w.kubelet.Evict(p.name.namespace, p.name.name)
			}
		}
	})
}

// heard sets whether a node is ready.
func heard(o *corev1.Node, ready corev1.ConditionStatus) {
	o.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
}

// ReturnNode brings a lost node back, with its pods.
func (ns *nodes) ReturnNode(node string) {
	n := ns.of[node]
	if n == nil || !n.lost {
		return
	}
	n.lost = false
	ns.w.database.Note("%s is back", node)
	ns.Untaint(node, unreachableTaint)
	ns.edit(node, func(o *corev1.Node) { heard(o, corev1.ConditionTrue) })
	for _, p := range sorted(n.pods) {
		p.cut(false)
		if p.object().DeletionTimestamp != nil {
			p.terminate()
			continue
		}
		ns.w.kubelet.boot(p)
		p.report()
		p.catchUp()
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
