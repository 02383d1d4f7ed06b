package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

const majority = "disruption: {quorum: {selector: {matchLabels: {app: db}}, minHealthy: majority}}\n"

// TestPodFallsWhileItSoaks: the soak of a batch begins anew when a pod falls.
func TestPodFallsWhileItSoaks(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 3, appsv1.ParallelPodManagement)
	w.plan("db", "numBatches: 3\nsoak: 5s\n")
	w.setImage("db", "r2")
	w.waitsFor("db", "Soaking")
	w.breakImage("db-2")
	w.waitsFor("db", "PodsNotReady")
	w.expectImages("db", "0=r1 1=r1 2=r2-")
	back := time.Now()
	w.mendImage("db-2")
	w.until("the next batch runs", func() bool { return w.now("db").Status.CurrentBatch == 1 })
	if d := time.Since(back); d < 5*time.Second {
		t.Errorf("the next batch ran %s after the pod was ready again", d)
	}
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
}

// TestQuorumIsShort: a member is away before anything was released: nothing is, until it is back. A pod
// that is away itself may be replaced.
func TestQuorumIsShort(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 3, appsv1.ParallelPodManagement)
	w.plan("db", majority)
	w.breakImage("db-0")
	w.until("a member is away", func() bool { return w.images("db") == "0=r1- 1=r1 2=r1" })
	before := w.uids("db")
	w.setImage("db", "r2")
	w.waitsFor("db", "Quorum")
	w.see("db")
	if after := w.uids("db"); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("the pods were %v and are %v", before, after)
	}
	w.mendImage("db-0")
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("db", "0=r2 1=r2 2=r2")
}

// TestPodsThatStay: a pod that does not go holds the rollout up, and no other is released under the
// budget meanwhile.
func TestPodsThatStay(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 3, appsv1.ParallelPodManagement)
	w.patch(&corev1.Pod{}, "db-2", `{"metadata":{"annotations":{"`+staysAnnotation+`":"1h"}}}`)
	w.plan("db", majority)
	w.patch(&appsv1.StatefulSet{}, "db", `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":3600}}}}`)
	w.is("db", rollout.Succeeded, metav1.ConditionTrue) // the old pods had a grace of a second
	w.patch(&corev1.Pod{}, "db-2", `{"metadata":{"annotations":{"`+staysAnnotation+`":"1h"}}}`)
	w.setImage("db", "r2")
	w.waitsFor("db", "Quorum")
	w.see("db")
	if got := w.images("db"); got != "0=r1 1=r1 2=r1-" {
		t.Errorf("the pods are %s", got)
	}
	none := int64(0)
	if err := w.client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "db-2"}}, &client.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
		t.Fatal(err)
	}
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("db", "0=r2 1=r2 2=r2")
}

// TestLostNode: a node is lost in the middle of a rollout; its pod counts as away, and nothing more is
// released until it is back.
func TestLostNode(t *testing.T) {
	t.Parallel()
	var nodes *kubelet.Kubelet
	w := newWorldIn(t, func(plane *controlplane.Plane) string {
		namespace, _, k := plane.Apart(t)
		nodes = k
		for _, name := range k.Names() {
			if err := k.TaintNode(t.Context(), name, corev1.Taint{Key: "apart", Effect: corev1.TaintEffectNoSchedule}); err != nil {
				t.Fatal(err)
			}
		}
		return namespace
	})
	nodes.Decide(w.namespace, func(*corev1.Pod) bool { return true })
	w.start(w.config)
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(3)), ServiceName: "db", PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, Template: template("db", "r1"),
		},
	}
	set.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "apart", Operator: corev1.TolerationOpExists}}
	if err := w.client.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	w.until("the pods are ready", func() bool { return w.images("db") == "0=r1 1=r1 2=r1" })
	w.plan("db", "rolloutBatches: [{replicas: 1}, {}]\nbatchPartition: 0\n"+majority)
	w.setImage("db", "r2")
	w.waitsFor("db", "HeldByPartition")
	pod := &corev1.Pod{}
	w.get("db-0", pod)
	lost := pod.Spec.NodeName
	if err := nodes.CutNode(lost); err != nil {
		t.Fatal(err)
	}
	w.until("the node is lost", func() bool { return strings.Contains(w.images("db"), "0=r1-") })
	before := w.uids("db")
	w.annotate("db", "approve", "all")
	w.until("the rollout waits", func() bool {
		waits := w.now("db").Status.Waiting
		return waits != nil && (waits.Reason == "Quorum" || waits.Reason == "BatchNotReady" || waits.Reason == "PodsNotReady")
	})
	w.see("db")
	after := w.uids("db")
	for _, image := range strings.Fields(w.images("db")) { // those that are away may be replaced
		pod, image, _ := strings.Cut(image, "=")
		if !strings.HasSuffix(image, "-") && before["db-"+pod] != after["db-"+pod] {
			t.Errorf("the pods were %v and are %v", before, after)
		}
	}
	if err := nodes.StartNode(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("db", "0=r2 1=r2 2=r2")
}
