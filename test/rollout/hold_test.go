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

// quorumOf is a quorum that lets one member of a set be away.
func quorumOf(app string, healthy int) *api.RolloutDisruption {
	return &api.RolloutDisruption{MaxUnavailable: new(intstr.FromInt(1)), Quorum: &api.RolloutQuorum{
		Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, MinHealthy: intstr.FromInt(healthy),
	}}
}

// TestABrokenPodUnderATightBudget: the pod that breaks uses up what the budgets allow. It is taken back by
// itself, and without a rollback the next template replaces it.
func TestABrokenPodUnderATightBudget(t *testing.T) {
	w := newWorld(t)
	w.breakImage("broken")
	for _, name := range []string{"back", "forward"} {
		w.statefulSet(name, 5, appsv1.OrderedReadyPodManagement)
		plan := api.RolloutPlan{RolloutBatches: batches(2), Disruption: quorumOf(name, 4)}
		if name == "back" {
			plan.BatchDeadline, plan.OnFailure = new(api.RolloutDeadline("3s")), "rollback"
		}
		w.rollout(name, api.RolloutSpec{RolloutPlan: plan})
		w.is(name, "Ready", metav1.ConditionTrue)
		w.setImage(name, "broken")
	}
	w.until("a broken pod", func() bool { return strings.Contains(w.images("forward"), "4=broken") })
	w.waitsFor("forward", "MaxUnavailable")
	w.setImage("forward", "r3")
	w.is("forward", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("forward", "0=r3 1=r3 2=r3 3=r3 4=r3")
	w.is("back", rollout.RolledBack, metav1.ConditionTrue)
	w.expectImages("back", "0=r1 1=r1 2=r1 3=r1 4=r1")
}

// TestARefusedPlanHolds: Rollout and template come together, and the plan is refused. The pods stay, the
// remedy is followed, and they move in batches.
func TestARefusedPlanHolds(t *testing.T) {
	w := newWorld(t)
	w.breakImage("r2") // so that the update under way does not get past its first pod before it is held
	w.statefulSet("db", 4, appsv1.OrderedReadyPodManagement)
	w.setImage("db", "r2")
	w.rollout("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{RolloutBatches: batches(1), BatchPartition: new(int32(0)), Disruption: quorumOf("db", 4)}})
	r := w.is("db", rollout.Stalled, metav1.ConditionTrue)
	if s := r.Status.Summary; s == nil || !strings.Contains(s.Remedy, "A changed plan begins again") {
		t.Errorf("the summary is %+v", s)
	}
	if r = w.is("db", rollout.HoldUnguarded, metav1.ConditionFalse); !strings.Contains(w.dump(), "Guarded") {
		t.Errorf("the conditions are %+v", r.Status.Conditions)
	}
	if images := w.images("db"); strings.Count(images, "r2") > 1 { // the one that was under way
		t.Fatalf("the pods have %s", images)
	}
	w.mendImage("r2")
	w.patch(&api.Rollout{}, "db", `{"spec":{"rolloutPlan":{"disruption":null}}}`)
	w.is("db", rollout.Paused, metav1.ConditionTrue)
	w.expectImages("db", "0=r1 1=r1 2=r1 3=r2")
	w.annotate("db", "approve", "all")
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("db", "0=r2 1=r2 2=r2 3=r2")
}

// TestAnUpdateUnderWayIsTakenOver: a Rollout meets an update that never ends, and the next template mends it.
func TestAnUpdateUnderWayIsTakenOver(t *testing.T) {
	w := newWorld(t)
	w.breakImage("broken")
	w.statefulSet("db", 3, appsv1.OrderedReadyPodManagement)
	w.setImage("db", "broken")
	w.until("a broken pod", func() bool { return strings.Contains(w.images("db"), "2=broken") })
	w.rollout("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{RolloutBatches: batches(1), Disruption: quorumOf("db", 2)}})
	w.waitsFor("db", "PodsNotReady")
	w.setImage("db", "r3")
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("db", "0=r3 1=r3 2=r3")
}
