package rollouttest

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// Versions are the apiVersion of each kind in tests. AdvancedStatefulSet is a StatefulSet there.
var Versions = map[string]string{
	"StatefulSet": "apps/v1", "Deployment": "apps/v1", "CloneSet": "apps.kruise.io/v1alpha1", "AdvancedStatefulSet": "apps.kruise.io/v1beta1",
}

// Object is an empty workload of a kind.
func Object(kind string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": Versions[kind], "kind": strings.TrimPrefix(kind, "Advanced")}}
	return o
}

// Workload makes a workload whose pods have image r1, and waits until they are ready. spec is merged
// over that of the kind.
func (w *World) Workload(kind, name string, replicas int, spec map[string]any) {
	w.Helper()
	w.Make(kind, name, replicas, spec)
	w.Until("the pods of "+name+" are ready", func() bool {
		o := w.Get(kind, name)
		n, _, _ := unstructured.NestedInt64(o.Object, "status", "readyReplicas")
		current, _, _ := unstructured.NestedString(o.Object, "status", "currentRevision")
		update, _, _ := unstructured.NestedString(o.Object, "status", "updateRevision")
		return n == int64(replicas) && current == update
	})
}

// Make makes a workload whose pods have image r1.
func (w *World) Make(kind, name string, replicas int, spec map[string]any) {
	w.Helper()
	var err error
	w.Until("the admission rules know a "+kind, func() bool { // they learn a new definition some seconds after it is served
		err = w.TryMake(kind, name, replicas, spec)
		return !apierrors.IsServiceUnavailable(err)
	})
	if err != nil {
		w.Fatal(err)
	}
}

// TryMake is Make that may fail.
func (w *World) TryMake(kind, name string, replicas int, spec map[string]any) error {
	labels := map[string]any{"app": name}
	o := Object(kind)
	o.SetNamespace(w.Namespace)
	o.SetName(name)
	all := map[string]any{
		"replicas": int64(replicas), "selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"terminationGracePeriodSeconds": int64(1), "containers": []any{map[string]any{"name": "main", "image": "r1"}}},
		},
	}
	if o.GetKind() == "StatefulSet" {
		all["serviceName"] = name
	}
	for key, value := range spec {
		all[key] = value
	}
	o.Object["spec"] = all
	return w.Client.Create(w.Context(), o)
}

// Get reads a workload.
func (w *World) Get(kind, name string) *unstructured.Unstructured {
	w.Helper()
	o := Object(kind)
	if err := w.Client.Get(w.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name}, o); err != nil {
		w.Fatalf("%v\n%s", err, w.Dump())
	}
	return o
}

// Rollout makes a Rollout of a workload.
func (w *World) Rollout(kind, name string, spec api.RolloutSpec) {
	w.Helper()
	spec.TargetRef = api.WorkloadRef{APIVersion: Versions[kind], Kind: Object(kind).GetKind(), Name: name}
	r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}, Spec: spec}
	if err := w.Client.Create(w.Context(), r); err != nil {
		w.Fatal(err)
	}
}

// SetImage writes another template.
func (w *World) SetImage(kind, name, image string) {
	w.Helper()
	w.Patch(Object(kind), name, fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":%q}]}}}}`, image))
}

// Batches are batches of these sizes, and one with the rest.
func Batches(sizes ...int) []api.RolloutBatch {
	var all []api.RolloutBatch
	for _, size := range sizes {
		all = append(all, api.RolloutBatch{Replicas: new(intstr.FromInt(size))})
	}
	return append(all, api.RolloutBatch{})
}

// Revision is a ControllerRevision of a workload, as its controller would make it.
func Revision(of *unstructured.Unstructured, name string, number int64, data string) *appsv1.ControllerRevision {
	labels, _, _ := unstructured.NestedStringMap(of.Object, "spec", "selector", "matchLabels")
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.GetNamespace(), Name: name, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: of.GetAPIVersion(), Kind: of.GetKind(), Name: of.GetName(), UID: of.GetUID(), Controller: new(true)}},
		},
		Data: runtime.RawExtension{Raw: []byte(data)}, Revision: number,
	}
}

// ObservedGeneration is that of the status.
func ObservedGeneration(o *unstructured.Unstructured) int64 {
	n, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return n
}

// Observed writes the status of a CloneSet without a manager: three pods, and these revisions.
func (w *World) Observed(name, current, update string) {
	w.Helper()
	set := w.Get("CloneSet", name)
	text := fmt.Sprintf(`{"status":{"observedGeneration":%d,"replicas":3,"readyReplicas":3,"currentRevision":%q,"updateRevision":%q}}`, set.GetGeneration(), current, update)
	if err := w.Client.Status().Patch(w.Context(), set, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		w.Fatal(err)
	}
}
