package backups

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// TestEndedAgents: an agent that has ended for 30 s is removed, with the evidence; a younger one, one that runs and
// one that is not ours are not.
func TestEndedAgents(t *testing.T) {
	w := newWorld(t)
	w.put(sample("orders"))
	w.settle("orders")
	d := &appsv1.Deployment{}
	d.Namespace, d.Name = "default", "orders-backup-agents"
	w.get(d)
	d.Status.ReadyReplicas = 1
	w.put(d)
	now := w.db.Now()
	add := func(name string, phase corev1.PodPhase, ended time.Duration, controller string) {
		p := &corev1.Pod{}
		p.Name, p.Namespace, p.Labels = name, "default", map[string]string{PodLabel: d.Name}
		w.put(p)
		p.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
		if controller != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: controller, UID: "set", Controller: new(true)}}
		}
		p.Status.Phase = phase
		if ended > 0 {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(now.Add(-ended))}}}}
		}
		w.put(p)
	}
	add("evicted", corev1.PodFailed, 0, "set")
	add("failed", corev1.PodFailed, 30*time.Second, "set")
	add("young", corev1.PodSucceeded, 29*time.Second, "set")
	add("runs", corev1.PodRunning, 0, "set")
	before := len(w.effects)
	out := w.pass("orders")
	if got := strings.Join(w.effects[before:], ", "); got != "Delete Pod/default/evicted, Delete Pod/default/failed, SaveStatus FoundationDBBackup/default/orders" {
		t.Errorf("%s", got)
	}
	if out.After() <= 0 || out.After() > time.Second || len(w.pods(d.Name)) != 2 {
		t.Errorf("%s, %d pods", out, len(w.pods(d.Name)))
	}
	if !strings.Contains(strings.Join(w.events, "\n"), "AgentDeleted: delete pod failed: its phase is Failed since") {
		t.Errorf("%v", w.events)
	}
}

// TestDrift: a deployment that was scaled by hand, has lost a label, or has another template is brought back, and what
// others have added to it stays; one of something else is left alone.
func TestDrift(t *testing.T) {
	w := newWorld(t)
	w.put(sample("orders"))
	w.settle("orders")
	d := &appsv1.Deployment{}
	d.Namespace, d.Name = "default", "orders-backup-agents"
	for name, change := range map[string]func(){
		"scaled":    func() { d.Spec.Replicas = new(int32(9)) },
		"a label":   func() { delete(d.Labels, BackupLabel) },
		"the hash":  func() { d.Annotations[SpecAnnotation] = "0" },
		"its owner": func() { d.OwnerReferences[0].UID = "an earlier object of the name" },
	} {
		w.get(d)
		d.Labels["theirs"] = "kept"
		change()
		w.put(d)
		w.settle("orders")
		w.get(d)
		if *d.Spec.Replicas != 2 || d.Labels["theirs"] != "kept" || d.Labels[BackupLabel] == "" || d.Annotations[SpecAnnotation] == "0" || d.OwnerReferences[0].UID != w.backup("orders").UID {
			t.Errorf("%s: %+v", name, d.ObjectMeta)
		}
	}
	w.get(d)
	d.Spec.Selector.MatchLabels = map[string]string{"another": "selector"}
	w.put(d)
	w.settle("orders")
	w.get(d)
	if d.Spec.Selector.MatchLabels[PodLabel] == "" {
		t.Errorf("%+v", d.Spec.Selector)
	}
	d.OwnerReferences[0].Kind = "HelmRelease"
	w.put(d)
	w.edit("orders", func(b *v1beta2.FoundationDBBackup) { b.Spec.AgentCount = new(0) })
	w.pass("orders")
	w.expect("orders", ReadyCondition, "False FdbAgentsForeign")
	if !w.get(d) {
		t.Error("the deployment of something else was deleted")
	}
}
