package application_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/test/rollouttest"
)

// object is an object of Pawl with a spec in JSON, as a user would apply it.
func object(w *rollouttest.World, kind, name, spec string) *unstructured.Unstructured {
	w.Helper()
	o := &unstructured.Unstructured{}
	text := fmt.Sprintf(`{"apiVersion":"pawl.dev/v1alpha1","kind":%q,"metadata":{"name":%q,"namespace":%q},"spec":%s}`, kind, name, w.Namespace, spec)
	if err := o.UnmarshalJSON([]byte(text)); err != nil {
		w.Fatal(err)
	}
	return o
}

// TestRefused: what cannot be is refused by the API server, with field and reason.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	const set = `{"apiVersion":"apps/v1","kind":"StatefulSet","spec":{}}`
	many := strings.TrimSuffix(strings.Repeat(`{"name":"X","workload":`+set+`},`, 33), ",")
	for i := range 33 {
		many = strings.Replace(many, "X", fmt.Sprintf("c%d", i), 1)
	}
	for _, test := range []struct{ kind, name, spec, want string }{
		{"Application", "a", `{"components":[]}`, "spec.components"},
		{"Application", "a", `{"components":[` + many + `]}`, "spec.components"},
		{"Application", "a", `{"components":[{"name":"db","workload":` + set + `},{"name":"db","workload":` + set + `}]}`, "spec.components[1]"},
		{"Application", "a", `{"components":[{"name":"DB","workload":` + set + `}]}`, "spec.components[0].name"},
		{"Application", "a", `{"components":[{"name":"db","workload":{"apiVersion":"apps/v1","kind":"DaemonSet","spec":{}}}]}`, "a component is a Deployment or StatefulSet"},
		{"Application", "a", `{"components":[{"name":"db","workload":{"apiVersion":"apps.kruise.io/v1alpha1","kind":"StatefulSet","spec":{}}}]}`, "a component is a Deployment or StatefulSet"},
		{"Application", "a", `{"components":[{"name":"db","workload":{"apiVersion":"apps/v1","kind":"StatefulSet"}}]}`, "workload.spec"},
		{"Application", "a", `{"components":[{"name":"db","workload":{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"x"},"spec":{}}}]}`, "workload.metadata.name"},
		{"Application", "a", `{"components":[{"name":"db","workload":{"apiVersion":"apps/v1","kind":"StatefulSet","spec":{},"status":{}}}]}`, "workload.status"},
		{"Application", "a", `{"rolloutComponent":"web","components":[{"name":"db","workload":` + set + `}]}`, "there is no such component"},
		{"Application", "a", `{"revisionHistoryLimit":0,"components":[{"name":"db","workload":` + set + `}]}`, "spec.revisionHistoryLimit"},
		{"Application", "a", `{"rolloutPlan":{"rolloutBatches":[]},"components":[{"name":"db","workload":` + set + `}]}`, "spec.rolloutPlan.rolloutBatches"},
		{"Application", strings.Repeat("a", 53), `{"components":[{"name":"db","workload":` + set + `}]}`, "52 characters"},
		{"Rollout", "a", `{"rolloutPlan":{}}`, "exactly one of targetRef and application"},
		{"Rollout", "a", `{"targetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"a"},"application":{"name":"a","targetRevision":"a-v1"},"rolloutPlan":{}}`, "exactly one of targetRef and application"},
		{"Rollout", "a", `{"application":{"name":"a"},"rolloutPlan":{}}`, "spec.application.targetRevision"},
		{"Rollout", "a", `{"application":{"name":"a","targetRevision":"a-v1","sourceRevision":"a-v1"},"rolloutPlan":{}}`, "the source must be another revision"},
		{"Rollout", "a", `{"application":{"name":"a","targetRevision":"a-v1"},"sourceRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"b"},"rolloutPlan":{}}`, "only a rollout of Deployments"},
	} {
		strict := client.NewNamespacedClient(client.WithFieldValidation(w.Client, metav1.FieldValidationStrict), w.Namespace)
		err := strict.Create(t.Context(), object(w, test.kind, test.name, test.spec), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s:\n%v, expected %q", test.kind, test.spec, err, test.want)
		}
	}
}

// TestUnchangeable: what may not be edited is refused, what may be is not.
func TestUnchangeable(t *testing.T) {
	w := newWorld(t)
	revision := &api.ApplicationRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "a-v1"},
		Spec:       api.ApplicationRevisionSpec{Hash: "h", Components: []api.ApplicationRevisionComponent{{ApplicationComponent: stateful("db", "r1", 1), WorkloadName: "db"}}},
	}
	if err := w.Client.Create(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
	for _, object := range []*unstructured.Unstructured{
		object(w, "Rollout", "a", `{"application":{"name":"a","targetRevision":"a-v9"},"rolloutPlan":{}}`),
		object(w, "Rollout", "b", `{"targetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"none"},"rolloutPlan":{}}`),
		object(w, "Application", "c", `{"components":[{"name":"db","workload":{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","spec":{}}}]}`),
	} {
		if err := w.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ kind, name, patch, want string }{
		{"ApplicationRevision", "a-v1", `[{"op":"replace","path":"/spec/hash","value":"other"}]`, "a revision cannot be changed"},
		{"ApplicationRevision", "a-v1", `[{"op":"replace","path":"/spec/components/0/workload/spec/replicas","value":7}]`, "a revision cannot be changed"},
		{"ApplicationRevision", "a-v1", `[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`, ""},
		{"Rollout", "a", `[{"op":"replace","path":"/spec/application/name","value":"b"}]`, "the Application cannot be changed"},
		{"Rollout", "a", `[{"op":"replace","path":"/spec/application/targetRevision","value":"a-v2"}]`, ""},
		{"Rollout", "a", `[{"op":"remove","path":"/spec/application"},{"op":"add","path":"/spec/targetRef","value":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"a"}}]`, "targetRef cannot be changed"},
		{"Rollout", "b", `[{"op":"remove","path":"/spec/targetRef"},{"op":"add","path":"/spec/application","value":{"name":"a","targetRevision":"a-v1"}}]`, "targetRef cannot be changed"},
		{"Application", "c", `[{"op":"replace","path":"/spec/components/0/workload/kind","value":"StatefulSet"}]`, "a component keeps its kind"},
		{"Application", "c", `[{"op":"replace","path":"/spec/components/0/workload/apiVersion","value":"apps.kruise.io/v1alpha1"}]`, ""},
	} {
		o := object(w, test.kind, test.name, `{}`)
		err := w.Client.Patch(t.Context(), o, client.RawPatch("application/json-patch+json", []byte(test.patch)))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s: %v, expected %q", test.kind, test.patch, err, test.want)
		}
	}
}

// TestMissing: a Rollout waits for a revision, and says which component it does not know.
func TestMissing(t *testing.T) {
	w := newWorld(t)
	plan := api.RolloutPlan{TargetSize: new(int32(2))}
	r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "own"}, Spec: api.RolloutSpec{Application: &api.RolloutApplication{Name: "own", TargetRevision: "own-v1"}, RolloutPlan: plan}}
	if err := w.Client.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	waits := func(reason string) {
		t.Helper()
		w.Until("it waits for "+reason, func() bool {
			s := w.Now("own").Status
			return s.Waiting != nil && s.Waiting.Reason == reason
		})
	}
	waits("TargetRevisionMissing")
	revision := &api.ApplicationRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "own-v1"},
		Spec: api.ApplicationRevisionSpec{Hash: "h", Components: []api.ApplicationRevisionComponent{
			{ApplicationComponent: stateful("db", "r1", 1), WorkloadName: "db"}, {ApplicationComponent: stateful("cache", "r1", 1), WorkloadName: "cache"},
		}},
	}
	if err := w.Client.Create(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
	waits("ComponentAmbiguous")
	w.Patch(&api.Rollout{}, "own", `{"spec":{"application":{"component":"db"}}}`)
	waits("TargetMissing")
	var spec appsv1.StatefulSetSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object(w, "X", "x", string(revision.Spec.Components[0].Workload.Spec.Raw)).Object["spec"].(map[string]any), &spec); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Create(t.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "db"}, Spec: spec}); err != nil {
		t.Fatal(err)
	}
	w.Until("it has scaled", func() bool { return w.Now("own").Status.RollingState == "rolloutSucceed" })
	w.ExpectPods("db", "0=r1 1=r1")
	if err := w.Client.Delete(t.Context(), revision); err != nil { // a deletion does not need it
		t.Fatal(err)
	}
	if err := w.Client.Delete(t.Context(), w.Now("own")); err != nil {
		t.Fatal(err)
	}
	w.Until("the Rollout is gone", func() bool { return w.Missing("own", &api.Rollout{}) })
	left := &appsv1.StatefulSet{}
	w.Read("db", left)
	if left.Labels["pawl.dev/rollout"] != "" || len(left.OwnerReferences) != 0 {
		t.Errorf("it has left %v, %+v", left.Labels, left.OwnerReferences)
	}
}
