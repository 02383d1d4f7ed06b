package rollout_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/test/rollouttest"
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
	policies := map[string]metav1.DeletionPropagation{"f": metav1.DeletePropagationForeground, "b": metav1.DeletePropagationBackground, "o": metav1.DeletePropagationOrphan}
	for _, state := range rollouttest.Sample(stages, "deletion", 6) {
		s := stages[state]
		t.Run(state, func(t *testing.T) {
			w := newWorld(t)
			prefix := map[bool]string{true: "ordered-", false: "db-"}[state == "verifying"]
			before := map[string]map[string]string{}
			for name := range policies {
				s.prepare(w, prefix+name, "")
			}
			for name, policy := range policies {
				before[name] = w.uids(prefix + name)
				if err := w.client.Delete(t.Context(), w.now(prefix+name), client.PropagationPolicy(policy)); err != nil {
					t.Fatal(err)
				}
			}
			if s.hook != "" {
				w.refused.Store(false)
			}
			for name := range policies {
				w.until("the Rollout is gone", func() bool { return w.gone(prefix + name) })
			}
			w.collected()
			for name := range policies {
				w.survived(prefix+name, before[name])
			}
		})
	}
}

// collected waits until the garbage collector has done what it had to do: it deletes an object whose
// owner is gone.
func (w *world) collected() {
	w.t.Helper()
	bait := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, GenerateName: "bait-", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "pawl.dev/v1alpha1", Kind: "Rollout", Name: "gone", UID: "00000000-0000-0000-0000-000000000000"},
	}}}
	if err := w.client.Create(w.t.Context(), bait); err != nil {
		w.t.Fatal(err)
	}
	w.until("the garbage collector has passed", func() bool {
		return apierrors.IsNotFound(w.client.Get(w.t.Context(), client.ObjectKeyFromObject(bait), bait))
	})
}

// survived judges what a deleted Rollout has left: the set with the pods that it had, no claim, and
// either one revision without a hold or two with what remains to be done.
func (w *world) survived(name string, before map[string]string) {
	w.t.Helper()
	set := &appsv1.StatefulSet{}
	w.get(name, set)
	if set.DeletionTimestamp != nil || set.Labels["pawl.dev/rollout"] != "" {
		w.t.Errorf("%s: the set has labels %v, deleted %v", name, set.Labels, set.DeletionTimestamp)
	}
	for _, ref := range set.OwnerReferences {
		if ref.Controller != nil && *ref.Controller {
			w.t.Errorf("%s: the claim is left: %+v", name, ref)
		}
	}
	after, whole := w.uids(name), true
	for pod, uid := range before {
		if after[pod] != uid {
			w.t.Errorf("%s: the pods were %v and are %v", name, before, after)
		}
	}
	for _, image := range strings.Fields(w.images(name)) {
		_, image, _ = strings.Cut(image, "=")
		whole = whole && strings.TrimSuffix(image, "-") == set.Spec.Template.Spec.Containers[0].Image
	}
	partition, left := *set.Spec.UpdateStrategy.RollingUpdate.Partition, set.Annotations["pawl.dev/left"] != ""
	if whole && (partition != 0 || left || set.Labels["pawl.dev/held"] != "") || !whole && (partition == 0 || !left) {
		w.t.Errorf("%s: whole %t: the partition is %d, what was left is named: %t, labels %v", name, whole, partition, left, set.Labels)
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

// TestKeepNamesWhatIsLeft: a deletion in the middle of a scale, or of a rollout of two Deployments, moves
// no pod and names the sizes; the next Rollout takes the annotation away.
func TestKeepNamesWhatIsLeft(t *testing.T) {
	w := newWorld(t)
	half := api.RolloutPlan{RolloutBatches: batches(1), BatchPartition: new(int32(0))}
	w.statefulSet("db", 2, appsv1.ParallelPodManagement)
	scaled := half
	scaled.TargetSize = new(int32(5))
	w.rollout("db", api.RolloutSpec{RolloutPlan: scaled})
	w.deployment("web-v1", "r1", 4)
	w.deployment("web-v2", "r2", 0)
	pair := api.RolloutSpec{
		TargetRef:   api.WorkloadRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web-v2"},
		SourceRef:   &api.WorkloadRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web-v1"},
		RolloutPlan: half,
	}
	w.rollout("web", pair)
	for _, name := range []string{"db", "web"} {
		w.waitsFor(name, "HeldByPartition")
		if err := w.client.Delete(t.Context(), w.now(name)); err != nil {
			t.Fatal(err)
		}
		w.until(name+" is gone", func() bool { return w.gone(name) })
	}
	for name, left := range map[string]struct {
		object client.Object
		want   string
	}{
		"db":     {&appsv1.StatefulSet{}, "from 2 to 5 pods stands at 3"},
		"web-v1": {&appsv1.Deployment{}, "web-v2 has 1 pods of the new template, and web-v1 3 of the old one"},
		"web-v2": {&appsv1.Deployment{}, "web-v2 has 1 pods of the new template, and web-v1 3 of the old one"},
	} {
		w.get(name, left.object)
		if said := left.object.GetAnnotations()["pawl.dev/left"]; !strings.Contains(said, left.want) {
			t.Errorf("%s: the annotation is %q", name, said)
		}
		w.until("an Event names what is left on "+name, func() bool {
			var events corev1.EventList
			if err := w.client.List(t.Context(), &events, client.InNamespace(w.namespace)); err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
				return e.Reason == "LeftInTheMiddle" && e.InvolvedObject.Name == name && strings.Contains(e.Message, left.want)
			})
		})
	}
	pair.RolloutPlan = api.RolloutPlan{}
	w.rollout("web", pair)
	w.is("web", rollout.Succeeded, metav1.ConditionTrue)
	d := &appsv1.Deployment{}
	w.get("web-v2", d)
	if said := d.Annotations["pawl.dev/left"]; said != "" {
		t.Errorf("after the next rollout the annotation says %q", said)
	}
}
