package rollout_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
)

// TestGitOps: a tool that applies its manifest with partition 0 all the time releases nothing, and the
// rollout ends as if it was not there.
func TestGitOps(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 3, appsv1.ParallelPodManagement)
	w.rollout("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{RolloutBatches: batches(1), BatchPartition: new(int32(0))}})
	w.is("db", "Ready", metav1.ConditionTrue)
	w.is("db", rollout.HoldUnguarded, metav1.ConditionFalse)
	manifest := func(image string) {
		w.patch(&appsv1.StatefulSet{}, "db", fmt.Sprintf(`{"metadata":{"labels":{"pawl.dev/held":null,"pawl.dev/rollout":null}},
			"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0}},"template":{"spec":{"containers":[{"name":"main","image":%q}]}}}}`, image))
	}
	manifest("r1")
	manifest("r2")
	w.is("db", rollout.Paused, metav1.ConditionTrue)
	for range 20 {
		manifest("r2")
		time.Sleep(50 * time.Millisecond)
	}
	w.expectImages("db", "0=r1 1=r1 2=r2")
	set := &appsv1.StatefulSet{}
	w.get("db", set)
	if *set.Spec.UpdateStrategy.RollingUpdate.Partition != 2 || set.Labels["pawl.dev/held"] != "true" {
		t.Errorf("the tool has changed %+v, %v", set.Spec.UpdateStrategy.RollingUpdate, set.Labels)
	}
	w.annotate("db", "approve", "all")
	for range 20 {
		manifest("r2")
		time.Sleep(50 * time.Millisecond)
	}
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("db", "0=r2 1=r2 2=r2")
	manifest("r3")
	r := w.is("db", rollout.Paused, metav1.ConditionTrue)
	w.expectImages("db", "0=r2 1=r2 2=r3")
	if r.Status.Number != 2 {
		t.Errorf("it is rollout %d", r.Status.Number)
	}
}

// TestUnguarded: the annotation switches the rule off, and the condition says so.
func TestUnguarded(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 2, appsv1.ParallelPodManagement)
	w.patch(&appsv1.StatefulSet{}, "db", `{"metadata":{"annotations":{"pawl.dev/unguarded":"a test"}}}`)
	w.rollout("db", api.RolloutSpec{})
	w.is("db", rollout.HoldUnguarded, metav1.ConditionTrue)
	w.patch(&appsv1.StatefulSet{}, "db", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
	w.until("the operator holds it again", func() bool {
		set := &appsv1.StatefulSet{}
		w.get("db", set)
		return *set.Spec.UpdateStrategy.RollingUpdate.Partition == 1<<31-1
	})
}
