package application_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/test/rollouttest"
)

// TestDelete: what an Application owns goes with it, in the middle of a rollout too, unless it is orphaned.
func TestDelete(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
		for _, moving := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s moving %v", policy, moving), func(t *testing.T) {
				w := newWorld(t)
				w.Apply("shop", rollouttest.Plan(1), stateful("db", "r1", 3))
				w.Reaches("shop", "shop-v1")
				if moving {
					w.Apply("shop", held(1), stateful("db", "r2", 3))
					w.Holds("shop", "shop-v2", 0)
				}
				w.DeleteApplication("shop", "StatefulSet", "db", policy)
				if policy != metav1.DeletePropagationOrphan {
					return
				}
				want := "0=r1 1=r1 2=r1"
				if moving { // the Rollout goes on by itself
					w.Patch(&api.Rollout{}, "shop", `{"metadata":{"annotations":{"pawl.dev/approve":"all"}}}`)
					want = "0=r2 1=r2 2=r2"
				}
				w.Until("the Rollout has ended", func() bool { return w.Now("shop").Status.RollingState == "rolloutSucceed" })
				set := &appsv1.StatefulSet{}
				w.Read("db", set)
				if len(set.OwnerReferences) != 0 {
					t.Errorf("the set is owned by %+v", set.OwnerReferences)
				}
				w.ExpectPods("db", want)
			})
		}
	}
}
