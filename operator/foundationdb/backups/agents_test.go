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

// TestEvictedAgent: an agent that its node has evicted is removed, with the evidence, and another one comes.
func TestEvictedAgent(t *testing.T) {
	w := newWorld(t)
	w.make(sample("orders"))
	w.settle("orders")
	gone := w.agents()[0]
	w.FailPod("default", gone)
	w.settle("orders")
	if w.did("Delete Pod/default/"+gone) != 1 || len(w.agents()) != 2 || strings.Contains(strings.Join(w.agents(), " "), gone) {
		t.Errorf("%v %v", w.effects, w.agents())
	}
	if !strings.Contains(w.events(), "AgentDeleted: delete pod "+gone+": its phase is Failed since") {
		t.Errorf("%v", w.events())
	}
}

// TestEndedAgents: an agent that has ended is removed after 30 s; a younger one, one that runs, one that goes already
// and one of something else are not.
func TestEndedAgents(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{UID: "agents"}}
	pod := func(name string, phase corev1.PodPhase, made, ended time.Duration) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-made))}}
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", UID: "set", Controller: new(true)}}
		p.Status.Phase = phase
		if ended > 0 {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(now.Add(-ended))}}}}
		}
		return p
	}
	goes, other := pod("goes", corev1.PodFailed, time.Hour, time.Minute), pod("other", corev1.PodFailed, time.Hour, time.Minute)
	goes.DeletionTimestamp, other.OwnerReferences = &metav1.Time{Time: now}, nil
	p := &pass{Operator: New(nil, nil, Options{}), facts: facts{now: now, agents: d, pods: []corev1.Pod{
		pod("evicted", corev1.PodFailed, 30*time.Second, 0), pod("failed", corev1.PodFailed, time.Hour, 30*time.Second), goes, other,
		pod("young", corev1.PodSucceeded, time.Hour, 29*time.Second), pod("younger", corev1.PodFailed, 10*time.Second, 0), pod("runs", corev1.PodRunning, time.Hour, 0),
	}}}
	got := p.removeEnded()
	var names []string
	for _, a := range got.Acts {
		names = append(names, a.String())
	}
	if strings.Join(names, "; ") != "delete pod evicted; delete pod failed" || got.Outcome.Reason() != "AgentsEnded" || got.Outcome.After() != time.Second {
		t.Errorf("%v %s", names, got.Outcome)
	}
}

// TestDrift: a deployment that was scaled by hand, has lost a label, or has another template is brought back, and what
// others have added to it stays; one of something else is left alone.
func TestDrift(t *testing.T) {
	w := newWorld(t)
	w.make(sample("orders"))
	w.settle("orders")
	d := &appsv1.Deployment{}
	d.Namespace, d.Name = "default", "orders-backup-agents"
	for name, change := range map[string]func(){
		"scaled":    func() { d.Spec.Replicas = new(int32(9)) },
		"a label":   func() { delete(d.Labels, BackupLabel) },
		"the hash":  func() { d.Annotations[SpecAnnotation] = "0" },
		"its owner": func() { d.OwnerReferences[0].UID = "an earlier object of the name" },
	} {
		w.change(d, func() { d.Labels["theirs"] = "kept"; change() })
		w.pass("orders")
		w.get(d)
		if *d.Spec.Replicas != 2 || d.Labels["theirs"] != "kept" || d.Labels[BackupLabel] == "" || d.Annotations[SpecAnnotation] == "0" || d.OwnerReferences[0].UID != w.backup("orders").UID {
			t.Errorf("%s: %+v", name, d.ObjectMeta)
		}
	}
	w.settle("orders")
	w.change(d, func() { d.OwnerReferences[0].Kind = "HelmRelease" })
	w.edit("orders", func(b *v1beta2.FoundationDBBackup) { b.Spec.AgentCount = new(0) })
	w.pass("orders")
	w.expect("orders", ReadyCondition, "False FdbAgentsForeign")
	if !w.get(d) {
		t.Error("the deployment of something else was deleted")
	}
}

// TestSelector: a selector cannot be changed, so a deployment with another one is made anew.
func TestSelector(t *testing.T) {
	w := newWorld(t)
	w.make(sample("orders"))
	other, err := Agents(w.backup("orders"), nil)
	if err != nil {
		t.Fatal(err)
	}
	other.Spec.Selector.MatchLabels = map[string]string{"another": "selector"}
	other.Spec.Template.Labels["another"] = "selector"
	w.make(other)
	w.settle("orders")
	if w.deployment().Spec.Selector.MatchLabels[PodLabel] == "" || w.did("Delete Deployment/default/orders-backup-agents") != 1 {
		t.Errorf("%+v", w.deployment().Spec.Selector)
	}
}
