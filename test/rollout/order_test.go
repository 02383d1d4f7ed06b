package rollout_test

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
)

// TestLeaderLast: pods are evicted one by one, the one with the leader's label last, and the type of
// the strategy comes back.
func TestLeaderLast(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 3, appsv1.ParallelPodManagement)
	for ordinal, role := range []string{"replica", "leader", "replica"} {
		w.patch(&corev1.Pod{}, fmt.Sprintf("db-%d", ordinal), fmt.Sprintf(`{"metadata":{"labels":{"role":%q}}}`, role))
	}
	w.rollout("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{
		NumBatches: new(int32(3)), BatchPartition: new(int32(0)),
		Order: &api.RolloutOrder{RoleLabel: "role", Roles: []string{"replica", "leader"}},
		Disruption: &api.RolloutDisruption{Quorum: &api.RolloutQuorum{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, MinHealthy: intstr.FromString("majority"),
		}},
	}})
	w.is("db", "Ready", metav1.ConditionTrue)
	w.setImage("db", "r2")
	for batch := range 3 {
		r := w.is("db", map[bool]string{true: rollout.Succeeded, false: rollout.Paused}[batch == 2], metav1.ConditionTrue)
		leader := map[bool]string{true: "1=r2", false: "1=r1"}[batch == 2]
		if images := w.images("db"); !slices.Contains([]string{
			"0=r1 " + leader + " 2=r2", "0=r2 " + leader + " 2=r1", "0=r2 " + leader + " 2=r2",
		}, images) {
			t.Errorf("after batch %d the pods are %s", batch, images)
		}
		if batch < 2 {
			w.annotate("db", "approve", fmt.Sprint(batch+1))
			w.until("the approval is answered", func() bool {
				next := w.now("db").Status.LastRequest
				return next != nil && (r.Status.LastRequest == nil || next.ID != r.Status.LastRequest.ID)
			})
		}
	}
	set := &appsv1.StatefulSet{}
	w.get("db", set)
	if u := set.Spec.UpdateStrategy; u.Type != appsv1.RollingUpdateStatefulSetStrategyType || *u.RollingUpdate.Partition != 1<<31-1 {
		t.Errorf("after the end the strategy is %+v", u)
	}
}

// TestSharedQuorum: two StatefulSets under one quorum take turns: never more than one pod of both is
// away.
func TestSharedQuorum(t *testing.T) {
	w := newWorld(t)
	var most int
	for _, name := range []string{"a", "b"} {
		w.statefulSet(name, 2, appsv1.ParallelPodManagement)
		w.patch(&appsv1.StatefulSet{}, name, `{"spec":{"template":{"metadata":{"labels":{"group":"g"}}}}}`)
	}
	w.until("all pods have the label", func() bool {
		list := &corev1.PodList{}
		if err := w.list(list, map[string]string{"group": "g"}); err != nil {
			t.Fatal(err)
		}
		return len(list.Items) == 4 && healthy(list) == 4
	})
	for _, name := range []string{"a", "b"} {
		w.rollout(name, api.RolloutSpec{RolloutPlan: api.RolloutPlan{Disruption: &api.RolloutDisruption{Quorum: &api.RolloutQuorum{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"group": "g"}}, Members: new(int32(4)), MinHealthy: intstr.FromInt(3),
		}}}})
		w.is(name, "Ready", metav1.ConditionTrue)
	}
	for _, name := range []string{"a", "b"} {
		w.setImage(name, "r2")
	}
	w.until("both have ended", func() bool {
		list := &corev1.PodList{}
		if err := w.list(list, map[string]string{"group": "g"}); err != nil {
			t.Fatal(err)
		}
		most = max(most, 4-healthy(list))
		return w.now("a").Status.RollingState == "rolloutSucceed" && w.now("b").Status.RollingState == "rolloutSucceed"
	})
	if most > 1 {
		t.Errorf("%d members were away at once", most)
	}
	w.expectImages("a", "0=r2 1=r2")
	w.expectImages("b", "0=r2 1=r2")
}

// TestTurnAfterARestart: an operator that begins while pods are away takes up the turn that its
// predecessor had, and extends it.
func TestTurnAfterARestart(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 2, appsv1.ParallelPodManagement)
	w.rollout("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{Disruption: &api.RolloutDisruption{Quorum: &api.RolloutQuorum{
		Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, MinHealthy: intstr.FromInt(1),
	}}}})
	w.is("db", "Ready", metav1.ConditionTrue)
	w.breakImage("r2")
	w.setImage("db", "r2")
	w.until("a pod is new", func() bool { return w.images("db") == "0=r1 1=r2-" })
	turn := func() string {
		leases := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "LeaseList"}}
		if err := w.list(leases, nil); err != nil || len(leases.Items) != 1 {
			t.Fatalf("%d Leases: %v", len(leases.Items), err)
		}
		return leases.Items[0].ResourceVersion
	}
	w.waitsFor("db", "Quorum")
	w.stop()
	before := turn()
	w.start(w.config)
	w.until("the turn is extended", func() bool { return turn() != before })
	w.mendImage("r2")
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
}

func healthy(list *corev1.PodList) int {
	n := 0
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			n++
		}
	}
	return n
}
