package rollout_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
)

// guidePlan is the first plan of the guide, which soaks for a moment only.
func guidePlan(t *testing.T) api.RolloutSpec {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide", "rollouts.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
		for _, document := range strings.Split(block[1], "\n---\n") {
			var r api.Rollout
			if err := yaml.Unmarshal([]byte(document), &r); err != nil || r.Kind != "Rollout" || r.Name != "etcd" || r.Spec.RolloutPlan.Disruption == nil {
				continue
			}
			r.Spec.RolloutPlan.RolloutBatches[0].Soak = new(api.RolloutDuration("0s"))
			return r.Spec
		}
	}
	t.Fatal("the guide has no plan for etcd")
	return api.RolloutSpec{}
}

// TestEditsOfThePlanOfTheGuide: in the middle of the guide's own plan an edit of batches to come is taken
// over; one of a batch that has begun, and one to a gate that cannot be evaluated, are refused, and nothing
// is approved that the plan shows otherwise.
func TestEditsOfThePlanOfTheGuide(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("etcd", 5, appsv1.ParallelPodManagement)
	w.rollout("etcd", guidePlan(t))
	w.is("etcd", "Ready", metav1.ConditionTrue)
	w.setImage("etcd", "r2")
	w.waitsFor("etcd", "HeldByPartition")
	edit := func(plan, refused string, batches int) {
		t.Helper()
		w.patch(&api.Rollout{}, "etcd", `{"spec":{"rolloutPlan":`+plan+`}}`)
		w.until("the edit is judged: "+plan, func() bool {
			r := w.now("etcd")
			why := r.Status.PlanRefused
			return r.Status.ObservedGeneration == r.Generation && (why == "") == (refused == "") && strings.Contains(why, refused) && len(r.Status.Batches) == batches
		})
	}
	edit(`{"rolloutBatches":[{"replicas":1},{"replicas":1},{}]}`, "", 3)
	edit(`{"rolloutBatches":[{"replicas":2},{}]}`, "rolloutBatches[0]: the batch has begun", 3)
	w.annotate("etcd", "approve", "next")
	w.until("the approval is refused", func() bool {
		a := w.now("etcd").Status.LastRequest
		return a != nil && a.Code == "PLAN_CHANGE_REFUSED"
	})
	w.expectImages("etcd", "0=r1 1=r1 2=r1 3=r1 4=r2")
	edit(`{"rolloutBatches":[{"replicas":1},{"replicas":1},{}],"gates":[{"name":"g","when":"BeforeBatch","expression":"pods.foo() > 1"}]}`, "gates[0].expression", 3)
	w.annotate("etcd", "approve", "1")
	w.waitsFor("etcd", "GateInvalid")
	w.is("etcd", rollout.Stalled, metav1.ConditionTrue)
	edit(`{"gates":[{"name":"g","when":"BeforeBatch","expression":"pods.size() > 1"}]}`, "", 3)
	w.until("batch 1 has moved", func() bool { return w.images("etcd") == "0=r1 1=r1 2=r1 3=r2 4=r2" })
	w.annotate("etcd", "approve", "all")
	w.is("etcd", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("etcd", "0=r2 1=r2 2=r2 3=r2 4=r2")
}
