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

// TestATemplateInTheMiddleBeginsAnew: a new template comes while the pods of an approved batch move. It
// is released by its own canary, and waits for its own approval.
func TestATemplateInTheMiddleBeginsAnew(t *testing.T) {
	w := newWorld(t)
	budget := &api.RolloutDisruption{MaxUnavailable: new(intstr.FromInt(1))}
	for name, test := range map[string]struct {
		policy     appsv1.PodManagementPolicyType
		disruption *api.RolloutDisruption
	}{"parallel": {appsv1.ParallelPodManagement, nil}, "ordered": {appsv1.OrderedReadyPodManagement, nil}, "budget": {appsv1.OrderedReadyPodManagement, budget}} {
		w.statefulSet(name, 5, test.policy)
		w.patch(&appsv1.StatefulSet{}, name, `{"spec":{"minReadySeconds":2}}`)
		w.rollout(name, api.RolloutSpec{RolloutPlan: api.RolloutPlan{RolloutBatches: batches(1), BatchPartition: new(int32(0)), Disruption: test.disruption}})
		w.is(name, "Ready", metav1.ConditionTrue)
		w.setImage(name, "r2")
		w.is(name, rollout.Paused, metav1.ConditionTrue)
		w.annotate(name, "approve", "all")
		w.until("a pod of the second batch moves", func() bool { return strings.Count(w.images(name), "r2") > 1 })
		w.setImage(name, "r3")
		w.until("the canary of the third template", func() bool {
			images := w.images(name)
			if strings.Count(images, "r3") > 1 {
				t.Fatalf("%s: more than the canary moved: %s\n%s", name, images, w.dump())
			}
			r := w.now(name)
			return r.Status.Number == 2 && r.Status.Waiting != nil && r.Status.Waiting.Reason == "HeldByPartition"
		})
		if images := w.images(name); strings.Count(images, "r3") != 1 || !strings.Contains(images, "4=r3") {
			t.Errorf("%s: the pods have %s", name, images)
		}
	}
}
