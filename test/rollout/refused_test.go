package rollout_test

import (
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "k8s.io/api/apps/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
)

// hasEvent waits for an Event about a Rollout.
func (w *world) hasEvent(name, reason string) {
	w.t.Helper()
	w.until("an Event "+reason+" of "+name, func() bool {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: eventsv1.GroupName, Version: "v1", Kind: "EventList"})
		if err := w.client.List(w.t.Context(), list, client.InNamespace(w.namespace)); err != nil {
			w.t.Fatal(err)
		}
		for _, e := range list.Items {
			about, _, _ := unstructured.NestedString(e.Object, "regarding", "name")
			if why, _, _ := unstructured.NestedString(e.Object, "reason"); about == name && why == reason {
				return true
			}
		}
		return false
	})
}

// TestRefused: what cannot be is told by a condition and an Event, and a request that nobody knows is
// answered.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	w.rollout("kind", api.RolloutSpec{TargetRef: api.WorkloadRef{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent"}})
	r := w.is("kind", rollout.Stalled, metav1.ConditionTrue)
	if r.Status.RollingState != "rolloutFailed" || r.Status.Failure == nil || r.Status.Failure.Reason != "UnsupportedWorkload" {
		t.Errorf("another kind: %s, %+v", r.Status.RollingState, r.Status.Failure)
	}
	w.hasEvent("kind", "UnsupportedWorkload")

	w.statefulSet("plan", 1, appsv1.ParallelPodManagement)
	w.rollout("plan", api.RolloutSpec{RolloutPlan: api.RolloutPlan{Probes: []api.RolloutProbe{{Name: "up", Exec: &api.RolloutExec{Command: []string{"true"}}}}}})
	if r = w.is("plan", rollout.Stalled, metav1.ConditionTrue); r.Status.Summary == nil || r.Status.Summary.Remedy == "" {
		t.Errorf("a probe that the operator may not run: %+v", r.Status)
	}
	w.hasEvent("plan", "FieldNotHonoured")

	w.statefulSet("verb", 1, appsv1.ParallelPodManagement)
	w.rollout("verb", api.RolloutSpec{})
	w.is("verb", "Ready", metav1.ConditionTrue)
	w.annotate("verb", "promote", "2")
	w.until("the request is answered", func() bool {
		r = w.now("verb")
		return r.Status.LastRequest != nil && r.Annotations["pawl.dev/promote"] == ""
	})
	if a := r.Status.LastRequest; a.Verb != "promote" || a.Code != "ROLLOUT_REQUEST_INVALID" {
		t.Errorf("the answer is %+v", a)
	}
	w.hasEvent("verb", "RolloutRequestInvalid")
}

// TestHoldIsEdited: an edit of spec.hold parks a workload at rest, or lets it go, and no pod moves.
func TestHoldIsEdited(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 2, appsv1.ParallelPodManagement)
	w.rollout("db", api.RolloutSpec{})
	w.is("db", "Ready", metav1.ConditionTrue)
	for hold, held := range map[string]bool{"DuringRollout": false, "Always": true} {
		w.patch(&api.Rollout{}, "db", `{"spec":{"hold":"`+hold+`"}}`)
		w.until(hold+" counts", func() bool {
			set := &appsv1.StatefulSet{}
			w.get("db", set)
			u := set.Spec.UpdateStrategy.RollingUpdate
			return (set.Labels["pawl.dev/held"] == "true") == held && u != nil && u.Partition != nil && (*u.Partition == 1<<31-1) == held
		})
	}
	w.expectImages("db", "0=r1 1=r1")
}
