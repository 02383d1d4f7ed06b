package rolloutworld

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
