package rollouttest_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/rollouttest"
)

var suite = controlplane.NewSuite(controlplane.Options{CRDs: []string{"../../deploy/crds"}, Kubelet: kubelet.Options{Nodes: 1}})

func TestMain(m *testing.M) { suite.Main(m) }

// definition is that of CloneSets without a schema.
func definition() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "clonesets.apps.kruise.io", Annotations: map[string]string{"api-approved.kubernetes.io": "https://github.com/openkruise"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "apps.kruise.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "clonesets", Singular: "cloneset", Kind: "CloneSet", ListKind: "CloneSetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: new(true),
				}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}

// definitions is a client of CustomResourceDefinitions.
func definitions(t *testing.T, w *rollouttest.World) client.Client {
	t.Helper()
	s := w.Client.Scheme()
	if err := apiextensionsv1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(w.Plane.Config(), client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func install(t *testing.T, w *rollouttest.World, c client.Client) {
	t.Helper()
	if err := c.Create(t.Context(), definition()); err != nil {
		t.Fatal(err)
	}
	w.Until("CloneSets are served", func() bool {
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "clonesets.apps.kruise.io"}, d); err != nil {
			t.Fatal(err)
		}
		for _, condition := range d.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return true
			}
		}
		return false
	})
}

func remove(t *testing.T, w *rollouttest.World, c client.Client) {
	t.Helper()
	if err := c.Delete(t.Context(), definition()); err != nil {
		t.Fatal(err)
	}
	w.Until("CloneSets are not served any more", func() bool {
		return client.IgnoreNotFound(c.Get(t.Context(), client.ObjectKey{Name: "clonesets.apps.kruise.io"}, definition())) == nil &&
			c.Get(t.Context(), client.ObjectKey{Name: "clonesets.apps.kruise.io"}, definition()) != nil
	})
}

// manage does once what the manager of OpenKruise would do for a CloneSet: revisions r1 and r2, three
// pods at r1, and the status. updated is the revision of the template.
func manage(w *rollouttest.World, name, updated string) {
	w.Helper()
	set := w.Get("CloneSet", name)
	for i, image := range []string{"r1", "r2"} {
		text := fmt.Sprintf(`{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":%q}},"spec":{"terminationGracePeriodSeconds":1,"containers":[{"name":"main","image":%q}]}}}}`, name, image)
		revision := rollouttest.Revision(set, name+"-"+image, int64(i+1), text)
		if err := client.IgnoreAlreadyExists(w.Client.Create(w.Context(), revision)); err != nil {
			w.Fatal(err)
		}
	}
	for i := range 3 {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: w.Namespace, Name: fmt.Sprintf("%s-%d", name, i), Labels: map[string]string{"app": name, "controller-revision-hash": name + "-r1"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: set.GetAPIVersion(), Kind: set.GetKind(), Name: name, UID: set.GetUID(), Controller: new(true)}},
			},
			Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(1)), Containers: []corev1.Container{{Name: "main", Image: "r1"}}},
		}
		if err := client.IgnoreAlreadyExists(w.Client.Create(w.Context(), pod)); err != nil {
			w.Fatal(err)
		}
	}
	w.Until("the pods are ready", func() bool { return w.Images(name) == "r1=3" })
	w.Observed(name, name+"-r1", name+"-"+updated)
}

// park waits until a CloneSet with three pods at r1 is held.
func park(w *rollouttest.World, name string) {
	w.Helper()
	manage(w, name, "r1")
	w.Until(name+" is parked", func() bool {
		set := w.Get("CloneSet", name)
		if set.GetGeneration() != rollouttest.ObservedGeneration(set) {
			w.Observed(name, name+"-r1", name+"-r1")
		}
		return set.GetLabels()["pawl.dev/held"] != ""
	})
}

// TestUnserved: without the definitions of OpenKruise a Rollout waits and others go on; once they are
// installed it finds its CloneSet; removed in the middle it waits, a deletion ends, and a CloneSet that
// is made anew is rolled out again.
func TestUnserved(t *testing.T) {
	w := rollouttest.New(t, suite.Plane(t))
	c := definitions(t, w)
	w.Start(w.Config)
	plan := api.RolloutPlan{RolloutBatches: rollouttest.Batches(1), BatchPartition: new(int32(0))}
	for _, name := range []string{"db", "other", "third"} {
		w.Rollout("CloneSet", name, api.RolloutSpec{RolloutPlan: plan, DeletionPolicy: map[string]string{"third": "Rollback"}[name]})
	}
	w.WaitsFor("db", "KindNotServed")
	w.Workload("StatefulSet", "etcd", 2, nil)
	w.Rollout("StatefulSet", "etcd", api.RolloutSpec{})
	w.Is("etcd", "Ready", metav1.ConditionTrue)
	w.SetImage("StatefulSet", "etcd", "r2")
	w.Is("etcd", rollout.Succeeded, metav1.ConditionTrue)

	install(t, w, c)
	for _, name := range []string{"db", "other", "third"} {
		w.Until("a CloneSet can be made", func() bool { return w.TryMake("CloneSet", name, 3, nil) == nil })
		park(w, name)
		w.SetImage("CloneSet", name, "r2")
		w.Until(name+" rolls", func() bool {
			set := w.Get("CloneSet", name)
			if set.GetGeneration() != rollouttest.ObservedGeneration(set) {
				w.Observed(name, name+"-r1", name+"-r2")
			}
			r := w.Now(name)
			return r.Status.RollingState == "rollingInBatches" && r.Status.Waiting != nil && r.Status.Waiting.Reason == "PodsNotReady"
		})
	}

	remove(t, w, c)
	for _, name := range []string{"db", "other", "third"} {
		w.WaitsFor(name, "KindNotServed")
	}
	for _, name := range []string{"other", "third"} {
		if err := w.Client.Delete(t.Context(), w.Now(name)); err != nil {
			t.Fatal(err)
		}
		w.Until("the Rollout "+name+" is gone", func() bool { return w.Gone(name) })
	}
	w.SetImage("StatefulSet", "etcd", "r3")
	w.Until("the StatefulSet has ended", func() bool {
		s := w.Now("etcd").Status
		return s.Number == 2 && s.RollingState == "rolloutSucceed"
	})

	install(t, w, c)
	w.Until("a CloneSet can be made", func() bool { return w.TryMake("CloneSet", "db", 3, nil) == nil })
	r := w.Is("db", "Stalled", metav1.ConditionTrue)
	if r.Status.RollingState != "rolloutFailed" || r.Status.Failure == nil || r.Status.Failure.Reason != "TargetReplaced" {
		t.Errorf("it is %s: %+v", r.Status.RollingState, r.Status.Failure)
	}
	w.Until("the old pods are gone", func() bool { return len(w.Pods("db")) == 0 })
	park(w, "db")
	w.SetImage("CloneSet", "db", "r2")
	w.Until("the new CloneSet rolls", func() bool {
		set := w.Get("CloneSet", "db")
		if set.GetGeneration() != rollouttest.ObservedGeneration(set) {
			w.Observed("db", "db-r1", "db-r2")
		}
		s := w.Now("db").Status
		return s.Number == 2 && s.RollingState == "rollingInBatches"
	})
}
