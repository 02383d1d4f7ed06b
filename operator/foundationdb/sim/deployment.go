package sim

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

const templateLabel = "pod-template-hash"

// deploymentChanged has a deployment looked at that was made or changed.
func (w *World) deploymentChanged(o port.Object) {
	if d, ok := o.(*appsv1.Deployment); ok {
		n := nameOf(d)
		w.after(w.options.Times.Collect, func() { w.reconcileDeployment(n) })
	}
}

// podOfDeploymentChanged has the deployment of a pod looked at.
func (w *World) podOfDeploymentChanged(p *corev1.Pod) {
	for _, r := range p.OwnerReferences {
		if r.Kind == "Deployment" {
			n := name{p.Namespace, r.Name}
			w.after(w.options.Times.Collect, func() { w.reconcileDeployment(n) })
		}
	}
}

// reconcileDeployment makes and deletes pods of a deployment: those of an older template go one by one, once those of
// the new one are ready.
func (w *World) reconcileDeployment(n name) {
	d := get[*appsv1.Deployment](w.store, n)
	if d == nil || d.DeletionTimestamp != nil {
		return
	}
	encoded, err := json.Marshal(d.Spec.Template)
	if err != nil {
		return
	}
	hash := fmt.Sprintf("%x", sha256.Sum256(encoded))[:10]
	wanted := 1
	if d.Spec.Replicas != nil {
		wanted = int(*d.Spec.Replicas)
	}
	var current, old []*corev1.Pod
	readyNow := 0
	for r := range w.store.children[d.UID] {
		p := get[*corev1.Pod](w.store, r.name)
		if r.kind != "Pod" || p == nil || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed {
			continue
		}
		if p.Labels[templateLabel] != hash {
			old = append(old, p)
			continue
		}
		current = append(current, p)
		if ready(p) {
			readyNow++
		}
	}
	byName := func(a, b *corev1.Pod) int { return nameOf(a).compare(nameOf(b)) }
	slices.SortFunc(current, byName)
	slices.SortFunc(old, byName)
	for range wanted - len(current) {
		w.makePod(d, hash)
	}
	for i := wanted; i < len(current); i++ {
		w.store.delete(current[i], "")
	}
	for i := range min(len(old), len(old)+readyNow-wanted) {
		w.store.delete(old[i], "")
	}
	update(w.store, d, func(d *appsv1.Deployment) {
		d.Status.ObservedGeneration = d.Generation
		d.Status.Replicas = int32(len(current) + len(old)) //nolint:gosec // small
		d.Status.UpdatedReplicas = int32(len(current))     //nolint:gosec // small
		d.Status.ReadyReplicas = int32(readyNow)           //nolint:gosec // small
		d.Status.AvailableReplicas = d.Status.ReadyReplicas
	})
	w.countAgents()
}

// makePod makes a pod of a deployment.
func (w *World) makePod(d *appsv1.Deployment, hash string) {
	t := d.Spec.Template.DeepCopy()
	p := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	p.Namespace, p.Name = d.Namespace, d.Name+"-"+hash+"-"+w.word(5)
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[templateLabel] = hash
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name, UID: d.UID, Controller: new(true)}}
	if w.admit(p) == nil {
		w.store.add(p)
	}
}

// countAgents tells the database how many backup agents run.
func (w *World) countAgents() {
	running := 0
	for _, p := range w.backing {
		if !p.ended && !p.lost() {
			running++
		}
	}
	if running != w.agents {
		w.agents = running
		w.database.SetAgents(running)
	}
}

// Agents returns how many backup agents run.
func (w *World) Agents() int { return w.agents }
