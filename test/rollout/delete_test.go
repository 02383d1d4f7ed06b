package rollout_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
)

// uids are those of the pods of an app, by their names.
func (w *world) uids(app string) map[string]string {
	w.t.Helper()
	list := &corev1.PodList{}
	if err := w.list(list, map[string]string{"app": app}); err != nil {
		w.t.Fatal(err)
	}
	all := map[string]string{}
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			all[p.Name] = string(p.UID)
		}
	}
	return all
}

func (w *world) list(into client.ObjectList, labels map[string]string) error {
	return w.client.List(context.Background(), into, client.InNamespace(w.namespace), client.MatchingLabels(labels))
}

// TestDelete: whatever state a Rollout is in and whatever way it is deleted, the workload and its pods
// survive.
func TestDelete(t *testing.T) {
	states := map[string]func(w *world, name string){
		"parked": func(*world, string) {},
		"held": func(w *world, name string) {
			w.setImage(name, "r2")
			w.is(name, rollout.Paused, metav1.ConditionTrue)
		},
		"broken": func(w *world, name string) {
			w.breakImage("broken")
			w.setImage(name, "broken")
			w.waitsFor(name, "PodsNotReady")
		},
		"ended": func(w *world, name string) {
			w.setImage(name, "r2")
			w.is(name, rollout.Paused, metav1.ConditionTrue)
			w.annotate(name, "approve", "all")
			w.is(name, rollout.Succeeded, metav1.ConditionTrue)
		},
		"abandoned": func(w *world, name string) {
			w.setImage(name, "r2")
			w.is(name, rollout.Paused, metav1.ConditionTrue)
			w.annotate(name, "abandon", "by=ann")
			w.is(name, rollout.Stalled, metav1.ConditionTrue)
		},
	}
	for state, reach := range states {
		t.Run(state, func(t *testing.T) {
			w := newWorld(t)
			for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan} {
				name := "db-" + string(policy[0]+'a'-'A')
				w.statefulSet(name, 3, appsv1.ParallelPodManagement)
				w.rollout(name, api.RolloutSpec{RolloutPlan: api.RolloutPlan{RolloutBatches: batches(1), BatchPartition: new(int32(0))}})
				w.is(name, "Ready", metav1.ConditionTrue)
				reach(w, name)
				before := w.uids(name)
				if err := w.client.Delete(t.Context(), w.now(name), client.PropagationPolicy(policy)); err != nil {
					t.Fatal(err)
				}
				w.until("the Rollout is gone", func() bool { return w.gone(name) })
				time.Sleep(300 * time.Millisecond)
				set := &appsv1.StatefulSet{}
				w.get(name, set)
				if set.DeletionTimestamp != nil || set.Labels["pawl.dev/rollout"] != "" {
					t.Errorf("%s: the set has labels %v, deleted %v", policy, set.Labels, set.DeletionTimestamp)
				}
				for _, ref := range set.OwnerReferences {
					if ref.Controller != nil && *ref.Controller {
						t.Errorf("%s: the claim is left: %+v", policy, ref)
					}
				}
				if after := w.uids(name); len(after) != 3 || fmt.Sprint(after) != fmt.Sprint(before) {
					t.Errorf("%s: the pods were %v and are %v", policy, before, after)
				}
				partition, left := *set.Spec.UpdateStrategy.RollingUpdate.Partition, set.Annotations["pawl.dev/left"] != ""
				whole := state == "parked" || state == "ended"
				if whole && (partition != 0 || left || set.Labels["pawl.dev/held"] != "") || !whole && (partition != 2 || !left) {
					t.Errorf("%s: the partition is %d, what was left is named: %t, labels %v", policy, partition, left, set.Labels)
				}
			}
		})
	}
}

// TestDeletionPolicies: Rollback takes the pods back first, Complete runs the remaining batches first.
func TestDeletionPolicies(t *testing.T) {
	w := newWorld(t)
	for policy, want := range map[string]string{"Rollback": "0=r1 1=r1 2=r1", "Complete": "0=r2 1=r2 2=r2"} {
		name := map[string]string{"Rollback": "back", "Complete": "on"}[policy]
		w.statefulSet(name, 3, appsv1.ParallelPodManagement)
		w.rollout(name, api.RolloutSpec{DeletionPolicy: policy, RolloutPlan: api.RolloutPlan{RolloutBatches: batches(1), BatchPartition: new(int32(0))}})
		w.is(name, "Ready", metav1.ConditionTrue)
		w.setImage(name, "r2")
		w.is(name, rollout.Paused, metav1.ConditionTrue)
		if err := w.client.Delete(t.Context(), w.now(name)); err != nil {
			t.Fatal(err)
		}
		w.until("the Rollout is gone", func() bool { return w.gone(name) })
		w.until("the pods are ready", func() bool { return w.images(name) == want })
		set := &appsv1.StatefulSet{}
		w.get(name, set)
		if *set.Spec.UpdateStrategy.RollingUpdate.Partition != 0 || len(set.OwnerReferences) != 0 {
			t.Errorf("%s: %+v, %v", policy, set.Spec.UpdateStrategy.RollingUpdate, set.OwnerReferences)
		}
	}
}
