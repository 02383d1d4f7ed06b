package sim

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

const templateLabel = "pod-template-hash"

// deployments makes the pods of deployments: the backup agents.
type deployments struct {
	w       *World
	backing map[types.UID]*pod // pods of backup agents
	agents  int
}

// changed has a deployment looked at that was made or changed.
func (ds *deployments) changed(o port.Object) {
	if d, ok := o.(*appsv1.Deployment); ok {
		n := nameOf(d)
		ds.w.after(ds.w.options.Times.Collect, func() { ds.reconcile(n) })
	}
}

// podChanged has the deployment of a pod looked at.
func (ds *deployments) podChanged(p *corev1.Pod) {
	for _, r := range p.OwnerReferences {
		if r.Kind == "Deployment" {
			n := name{p.Namespace, r.Name}
			ds.w.after(ds.w.options.Times.Collect, func() { ds.reconcile(n) })
		}
	}
}

// reconcile makes and deletes pods of a deployment: those of an older template go one by one, once those of
// the new one are ready.
func (ds *deployments) reconcile(n name) {
	d := get[*appsv1.Deployment](ds.w.store, n)
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
	for r := range ds.w.store.children[d.UID] {
		p := get[*corev1.Pod](ds.w.store, r.name)
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
		ds.makePod(d, hash)
	}
	for i := wanted; i < len(current); i++ {
		ds.w.store.delete(current[i], "")
	}
	for i := range min(len(old), len(old)+readyNow-wanted) {
		ds.w.store.delete(old[i], "")
	}
	update(ds.w.store, d, func(d *appsv1.Deployment) {
		d.Status.ObservedGeneration = d.Generation
		d.Status.Replicas = int32(len(current) + len(old)) //nolint:gosec // small
		d.Status.UpdatedReplicas = int32(len(current))     //nolint:gosec // small
		d.Status.ReadyReplicas = int32(readyNow)           //nolint:gosec // small
		d.Status.AvailableReplicas = d.Status.ReadyReplicas
	})
	ds.count()
}

// makePod makes a pod of a deployment.
func (ds *deployments) makePod(d *appsv1.Deployment, hash string) {
	t := d.Spec.Template.DeepCopy()
	p := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	p.Namespace, p.Name = d.Namespace, d.Name+"-"+hash+"-"+ds.w.word(5)
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[templateLabel] = hash
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name, UID: d.UID, Controller: new(true)}}
	if ds.w.admit(p) == nil {
		ds.w.store.add(p)
	}
}

// count tells the database how many backup agents run.
func (ds *deployments) count() {
	running := 0
	for _, p := range ds.backing {
		if !p.ended && !p.lost() {
			running++
		}
	}
	if running != ds.agents {
		ds.agents = running
		ds.w.database.SetAgents(running)
	}
}

// Agents returns how many backup agents run.
func (ds *deployments) Agents() int { return ds.agents }
