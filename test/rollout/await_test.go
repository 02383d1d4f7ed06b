package rollout_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
)

// TestWorkloadThatComesLater: a Rollout sees its workload when that is made, and a rollout of two
// Deployments its source. Nothing is polled for them.
func TestWorkloadThatComesLater(t *testing.T) {
	w := newWorld(t)
	w.rollout("db", api.RolloutSpec{})
	w.deployment("web-v2", "r2", 0)
	w.rollout("web", api.RolloutSpec{
		TargetRef: api.WorkloadRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web-v2"},
		SourceRef: &api.WorkloadRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web-v1"},
	})
	w.waitsFor("db", "TargetMissing")
	w.waitsFor("web", "TargetMissing")
	w.statefulSet("db", 2, appsv1.ParallelPodManagement)
	w.is("db", "Ready", metav1.ConditionTrue)
	w.deployment("web-v1", "r1", 2)
	w.is("web", rollout.Succeeded, metav1.ConditionTrue)
}

// TestWorkloadIsFreed: a Rollout that waits for the workload of an older one takes it when that goes, also
// when that was served by nobody, and leaves its label.
func TestWorkloadIsFreed(t *testing.T) {
	t.Parallel()
	w := newQuietWorld(t)
	w.Options.Name = "here"
	w.statefulSet("db", 1, appsv1.ParallelPodManagement)
	w.rollout("db", api.RolloutSpec{OperatorName: "nowhere"})
	w.patch(&appsv1.StatefulSet{}, "db", `{"metadata":{"labels":{"pawl.dev/rollout":"db"}}}`)
	w.start(w.config)
	later := api.RolloutSpec{OperatorName: "here", TargetRef: api.WorkloadRef{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db"}}
	w.rollout("next", later)
	w.waitsFor("next", "ClaimedByOther")
	if err := w.client.Delete(t.Context(), w.now("db")); err != nil {
		t.Fatal(err)
	}
	w.is("next", "Ready", metav1.ConditionTrue)
}
