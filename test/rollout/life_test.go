package rollout_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
)

func batches(sizes ...int) []api.RolloutBatch {
	var all []api.RolloutBatch
	for _, size := range sizes {
		all = append(all, api.RolloutBatch{Replicas: new(intstr.FromInt(size))})
	}
	return append(all, api.RolloutBatch{})
}

// TestCanary: a new template is held, the canary runs, an approval lets the rest run.
func TestCanary(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 4, appsv1.ParallelPodManagement)
	w.rollout("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{RolloutBatches: batches(1, 2), BatchPartition: new(int32(0))}})
	r := w.is("db", "Ready", metav1.ConditionTrue)
	if len(r.Status.Conditions) != len(rollout.ConditionTypes) {
		t.Errorf("the conditions are %+v", r.Status.Conditions)
	}
	w.until("the set is parked", func() bool {
		set := &appsv1.StatefulSet{}
		w.get("db", set)
		u := set.Spec.UpdateStrategy.RollingUpdate
		return u != nil && u.Partition != nil && *u.Partition == 1<<31-1 && set.Labels["pawl.dev/rollout"] == "db" && set.Labels["pawl.dev/held"] == "true"
	})

	w.setImage("db", "r2")
	r = w.is("db", rollout.Paused, metav1.ConditionTrue)
	w.expectImages("db", "0=r1 1=r1 2=r1 3=r2")
	if s := r.Status.Summary; s == nil || s.Batch != "1/3" || s.Updated != "1/4" {
		t.Errorf("the summary is %+v", s)
	}
	if r.Status.Waiting.Reason != "HeldByPartition" || r.Status.RollingState != "rollingInBatches" {
		t.Errorf("it is %s and waits for %+v", r.Status.RollingState, r.Status.Waiting)
	}

	w.annotate("db", "approve", "all; by=ann; reason=smoke tests passed")
	r = w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("db", "0=r2 1=r2 2=r2 3=r2")
	if a := r.Status.LastRequest; a == nil || a.Verb != "approve" || a.By != "ann" || a.Code != "" || r.Annotations["pawl.dev/approve"] != "" {
		t.Errorf("the request: %+v, %v", a, r.Annotations)
	}
	want := "AppLocated RollingSpecVerified RollingInitialized " +
		"InitializedOneBatch RolloutOneBatch OneBatchAvailable FinishedOneBatch RequestAnswered " +
		"BatchRolloutApproved InitializedOneBatch RolloutOneBatch OneBatchAvailable FinishedOneBatch " +
		"BatchRolloutApproved InitializedOneBatch RolloutOneBatch OneBatchAvailable AllBatchFinished RollingFinalized"
	if got := w.history("db"); got != want {
		t.Errorf("the history is\n%s\nexpected\n%s", got, want)
	}
	set := &appsv1.StatefulSet{}
	w.get("db", set)
	if len(set.OwnerReferences) != 0 || *set.Spec.UpdateStrategy.RollingUpdate.Partition != 1<<31-1 {
		t.Errorf("after the end: %+v, %+v", set.OwnerReferences, set.Spec.UpdateStrategy)
	}
}

// TestBrokenImageIsTakenBack: one pod breaks, the batch meets its deadline, and the pods go back.
func TestBrokenImageIsTakenBack(t *testing.T) {
	w := newWorld(t)
	for _, policy := range []appsv1.PodManagementPolicyType{appsv1.ParallelPodManagement, appsv1.OrderedReadyPodManagement} {
		name := strings.ToLower(string(policy))
		w.statefulSet(name, 3, policy)
		w.rollout(name, api.RolloutSpec{RolloutPlan: api.RolloutPlan{
			RolloutBatches: batches(1), BatchDeadline: new(api.RolloutDeadline("2s")), OnFailure: "rollback",
		}})
		w.is(name, "Ready", metav1.ConditionTrue)
		w.breakImage("broken")
		w.setImage(name, "broken")
		r := w.is(name, rollout.RolledBack, metav1.ConditionTrue)
		w.expectImages(name, "0=r1 1=r1 2=r1")
		if r.Status.RollingState != "rolloutFailed" || r.Status.Failure == nil || r.Status.Failure.Reason != "BatchDeadline" {
			t.Errorf("it is %s: %+v", r.Status.RollingState, r.Status.Failure)
		}
	}
}
