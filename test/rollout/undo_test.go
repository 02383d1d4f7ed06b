package rollout_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
)

// TestUndoOfTwoDeployments: in the middle undo grows the source again. After the end it says which Rollout
// goes back, as a Rollout keeps its pair, and that one does.
func TestUndoOfTwoDeployments(t *testing.T) {
	w := newWorld(t)
	w.deployment("web-v1", "r1", 3)
	w.deployment("web-v2", "r2", 0)
	pair := func(target, source string, plan api.RolloutPlan) api.RolloutSpec {
		ref := func(name string) api.WorkloadRef {
			return api.WorkloadRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
		}
		return api.RolloutSpec{TargetRef: ref(target), SourceRef: new(ref(source)), RolloutPlan: plan}
	}
	sizes := func(first, second int32) {
		t.Helper()
		d := &appsv1.Deployment{}
		for name, want := range map[string]int32{"web-v1": first, "web-v2": second} {
			if w.get(name, d); *d.Spec.Replicas != want || len(d.OwnerReferences) != 0 {
				t.Errorf("%s has %d replicas, expected %d, and the owners %v", name, *d.Spec.Replicas, want, d.OwnerReferences)
			}
		}
	}
	gone := func(name string) {
		t.Helper()
		if err := w.client.Delete(t.Context(), w.now(name)); err != nil {
			t.Fatal(err)
		}
		w.until(name+" is gone", func() bool { return w.gone(name) })
	}

	w.rollout("web", pair("web-v2", "web-v1", api.RolloutPlan{RolloutBatches: batches(2), BatchPartition: new(int32(0))}))
	w.waitsFor("web", "HeldByPartition")
	w.ExpectPawl(1, "RolledBack", "rollout", "undo", "web", "--reason", "p99 doubled", "--wait", "1m")
	sizes(3, 0)
	gone("web")

	w.rollout("on", pair("web-v2", "web-v1", api.RolloutPlan{}))
	w.is("on", rollout.Succeeded, metav1.ConditionTrue)
	sizes(0, 3)
	w.ExpectPawl(2, "delete Rollout/"+w.namespace+"/on, and make one from web-v2 to web-v1", "rollout", "undo", "on")
	sizes(0, 3)
	gone("on")
	w.rollout("back", pair("web-v1", "web-v2", api.RolloutPlan{NumBatches: new(int32(2))}))
	w.is("back", rollout.Succeeded, metav1.ConditionTrue)
	sizes(3, 0)
}
