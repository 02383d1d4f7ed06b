package rollout

import (
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/pawl-dev/pawl/rollout"
)

// TestGuardOfAKind: a kind is guarded when all the rules for it are there; no rule holds a Deployment.
func TestGuardOfAKind(t *testing.T) {
	kinds := []rollout.Kind{rollout.Deployment, rollout.StatefulSet, rollout.CloneSet, rollout.AdvancedStatefulSet}
	for _, c := range []struct {
		installed []string
		guarded   []bool // of the kinds
	}{
		{nil, []bool{false, false, false, false}},
		{[]string{"g"}, []bool{false, true, false, false}},
		{[]string{"g-clonesets"}, []bool{false, false, false, false}},
		{[]string{"g", "g-advancedstatefulsets"}, []bool{false, true, false, true}},
		{[]string{"g-clonesets", "g-clonesets-v1beta1"}, []bool{false, false, true, false}},
		{[]string{"g", "g-clonesets", "g-clonesets-v1beta1", "g-advancedstatefulsets"}, []bool{false, true, true, true}},
	} {
		s := runtime.NewScheme()
		if err := admissionv1.AddToScheme(s); err != nil {
			t.Fatal(err)
		}
		cluster := fake.NewClientBuilder().WithScheme(s)
		for _, name := range c.installed {
			cluster.WithObjects(&admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		g := &guard{live: cluster.Build(), name: "g", now: time.Now}
		for i, kind := range kinds {
			if got, err := g.stands(t.Context(), kind); err != nil || got != c.guarded[i] {
				t.Errorf("%v: %s is guarded: %t, %v", c.installed, kind, got, err)
			}
		}
	}
	held := reading{at: rollout.Position{State: rollout.InBatch}, observed: true, held: true, kind: rollout.Deployment}
	if c := held.unguarded(); c.Status != metav1.ConditionTrue || c.Reason != "NoRuleForKind" {
		t.Errorf("a Deployment: %+v", c)
	}
}
