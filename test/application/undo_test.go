package application_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
)

// TestUndoWithoutApplication: a Rollout of two revisions that no Application drives is taken back in the
// middle; after its end undo swaps its pair, and does so again.
func TestUndoWithoutApplication(t *testing.T) {
	w := newWorld(t)
	for name, image := range map[string]string{"web-v1": "r1", "web-v2": "r2"} {
		replicas := map[string]int{"web-v1": 3}[name]
		component := deployment(image, replicas)
		revision := &api.ApplicationRevision{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "shop" + name[len("web"):]},
			Spec:       api.ApplicationRevisionSpec{Hash: image, Components: []api.ApplicationRevisionComponent{{ApplicationComponent: component, WorkloadName: name}}},
		}
		if err := w.Client.Create(t.Context(), revision); err != nil {
			t.Fatal(err)
		}
		fields := object(w, "X", "x", string(component.Workload.Spec.Raw)).Object["spec"].(map[string]any)
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &d.Spec); err != nil {
			t.Fatal(err)
		}
		if err := w.Client.Create(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	w.Until("the pods are ready", func() bool {
		d := &appsv1.Deployment{}
		w.Read("web-v1", d)
		return d.Status.ReadyReplicas == 3
	})
	r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "own"}, Spec: api.RolloutSpec{
		Application: &api.RolloutApplication{Name: "shop", TargetRevision: "shop-v2", SourceRevision: "shop-v1"},
		RolloutPlan: *held(1),
	}}
	if err := w.Client.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	w.Holds("own", "shop-v2", 0)
	w.Expect("web", "r1=2 r2=1")
	w.ExpectPawl(1, "RolledBack", "rollout", "undo", "own", "--wait", "1m")
	w.Expect("web", "r1=3")

	// A pair that was taken back is not rolled out again by itself; another Rollout of it is.
	w.ExpectPawl(2, "ROLLOUT_REQUEST_INVALID", "rollout", "undo", "own")
	if err := w.Client.Delete(t.Context(), w.Now("own")); err != nil {
		t.Fatal(err)
	}
	w.Until("the Rollout is gone", func() bool { return w.Gone("own") })
	r = &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "own"}, Spec: r.Spec}
	if err := w.Client.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	w.Holds("own", "shop-v2", 0)
	approved := func(images string) {
		t.Helper()
		w.ExpectPawl(0, "rolloutSucceed", "rollout", "approve", "own", "--batch", "all", "--wait", "1m")
		w.Is("own", rollout.Succeeded, metav1.ConditionTrue)
		w.Expect("web", images)
	}
	approved("r2=3")
	w.ExpectPawl(0, "goes back: target and source are swapped", "rollout", "undo", "own")
	w.Holds("own", "shop-v1", 0)
	w.Expect("web", "r1=1 r2=2")
	approved("r1=3")
	if got := deployments(w); got != "web-v1=3 web-v2=0" {
		t.Errorf("the Deployments are %s", got)
	}
}
