package rollout_test

import (
	"os/exec"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
)

// kubectl runs the real one.
func (w *world) kubectl(args ...string) {
	w.t.Helper()
	args = append([]string{"--kubeconfig", w.plane.Kubeconfig(), "--namespace", w.namespace}, args...)
	if out, err := exec.CommandContext(w.t.Context(), w.plane.Binaries.Kubectl, args...).CombinedOutput(); err != nil {
		w.t.Fatalf("kubectl %v: %v: %s", args, err, out)
	}
}

// canary brings a rollout of a set of three from r1 to r2 to its hold after the first pod.
func canary(t *testing.T, more string) *world {
	t.Helper()
	w := newWorld(t)
	w.holdAfterFirst(more)
	return w
}

func (w *world) holdAfterFirst(more string) {
	w.t.Helper()
	w.statefulSet("db", 3, appsv1.ParallelPodManagement)
	w.plan("db", "rolloutBatches: [{replicas: 1}, {}]\nbatchPartition: 0\n"+more)
	w.setImage("db", "r2")
	w.waitsFor("db", "HeldByPartition")
}

// TestKubectlUndo: `kubectl rollout undo` in the middle takes the pods back.
func TestKubectlUndo(t *testing.T) {
	w := canary(t, "")
	w.kubectl("rollout", "undo", "sts/db")
	w.is("db", rollout.RolledBack, metav1.ConditionTrue)
	w.expectImages("db", "0=r1 1=r1 2=r1")
}

// TestKubectlRestart: `kubectl rollout restart` in the middle is another template: a new rollout begins
// from what is there, and is held in turn.
func TestKubectlRestart(t *testing.T) {
	w := canary(t, "")
	before := w.uids("db")
	w.kubectl("rollout", "restart", "sts/db")
	w.until("the next rollout is held", func() bool {
		s := w.now("db").Status
		return s.Number == 2 && s.Waiting != nil && s.Waiting.Reason == "HeldByPartition"
	})
	after := w.uids("db")
	if before["db-0"] != after["db-0"] || before["db-1"] != after["db-1"] || before["db-2"] == after["db-2"] {
		t.Errorf("the pods were %v and are %v", before, after)
	}
	w.annotate("db", "approve", "all")
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("db", "0=r2 1=r2 2=r2")
}

// TestKubectlScale: `kubectl scale` of the set in the middle, up and down: it is planned anew, and what
// is held stays held.
func TestKubectlScale(t *testing.T) {
	w := canary(t, "")
	w.kubectl("scale", "sts/db", "--replicas=5")
	w.until("it is planned anew", func() bool { return w.now("db").Status.Replans == 1 })
	w.waitsFor("db", "HeldByPartition")
	w.kubectl("scale", "sts/db", "--replicas=2")
	w.until("it is planned anew", func() bool { return w.now("db").Status.Replans == 2 })
	w.annotate("db", "approve", "all")
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	w.until("the surplus is gone", func() bool { return w.images("db") == "0=r2 1=r2" })
}

// TestTemplatesWhileItRolls: a second and a third template while the first is rolling: the last one is
// reached, and no pod below the hold moved in between.
func TestTemplatesWhileItRolls(t *testing.T) {
	w := canary(t, "")
	before := w.uids("db")
	w.setImage("db", "r3")
	w.setImage("db", "r4")
	w.until("the last template is held", func() bool {
		s := w.now("db").Status
		return s.Waiting != nil && s.Waiting.Reason == "HeldByPartition" && w.images("db") == "0=r1 1=r1 2=r4"
	})
	if after := w.uids("db"); before["db-0"] != after["db-0"] || before["db-1"] != after["db-1"] {
		t.Errorf("the pods were %v and are %v", before, after)
	}
	w.annotate("db", "approve", "all")
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("db", "0=r4 1=r4 2=r4")
}

// TestWorkloadMadeAgain: the workload is deleted in the middle, which is a wait; made again it is
// another one: the rollout has failed, and the next template is held as before.
func TestWorkloadMadeAgain(t *testing.T) {
	for _, image := range []string{"r1", "r2"} {
		t.Run(image, func(t *testing.T) { madeAgain(t, image) })
	}
}

func madeAgain(t *testing.T, image string) {
	w := canary(t, "")
	if err := w.client.Delete(t.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "db"}}, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	w.waitsFor("db", "TargetMissing")
	w.until("the pods are gone", func() bool { return w.images("db") == "" })
	w.statefulSetOf("db", image, 3, appsv1.ParallelPodManagement)
	w.until("it has failed", func() bool { return strings.Contains(w.history("db"), " BatchRolloutFailed") })
	w.until("the next template is held", func() bool {
		set := &appsv1.StatefulSet{}
		w.get("db", set)
		return set.Labels["pawl.dev/held"] == "true" && *set.Spec.UpdateStrategy.RollingUpdate.Partition == 1<<31-1
	})
	if story := w.history("db"); strings.Contains(story, "RollbackRequested") {
		t.Errorf("the history is %s", story)
	}
	w.setImage("db", "r3")
	w.until("the next rollout is held", func() bool {
		s := w.now("db").Status
		return s.Waiting != nil && s.Waiting.Reason == "HeldByPartition" && w.images("db") == "0="+image+" 1="+image+" 2=r3"
	})
	w.annotate("db", "approve", "all")
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
}

// TestAutoscalers: a real HorizontalPodAutoscaler in front of the Rollout scales in batches, and one of
// the workload in the middle of a rollout is planned anew.
func TestAutoscalers(t *testing.T) {
	autoscaler := func(w *world, apiVersion, kind string, least int32) {
		hpa := &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "hpa"},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: apiVersion, Kind: kind, Name: "db"}, MinReplicas: &least, MaxReplicas: 9,
			},
		}
		if err := w.client.Create(t.Context(), hpa); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("in front", func(t *testing.T) {
		w := newWorld(t)
		w.statefulSet("db", 2, appsv1.ParallelPodManagement)
		w.rollout("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{TargetSize: new(int32(2)), NumBatches: new(int32(2))}})
		w.is("db", "Ready", metav1.ConditionTrue)
		autoscaler(w, "pawl.dev/v1alpha1", "Rollout", 4)
		w.until("it has scaled", func() bool {
			s := w.now("db").Status
			return s.Mode == "Scale" && s.RollingState == "rolloutSucceed" && len(s.Batches) == 2
		})
		w.expectImages("db", "0=r1 1=r1 2=r1 3=r1")
	})
	t.Run("of the workload", func(t *testing.T) {
		w := canary(t, "")
		autoscaler(w, "apps/v1", "StatefulSet", 5)
		w.until("it is planned anew", func() bool { return w.now("db").Status.Replans == 1 })
		w.annotate("db", "approve", "all")
		w.is("db", rollout.Succeeded, metav1.ConditionTrue)
		w.expectImages("db", "0=r2 1=r2 2=r2 3=r2 4=r2")
	})
}
