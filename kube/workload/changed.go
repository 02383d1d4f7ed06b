package workload

import (
	"maps"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pawl-dev/pawl/rollout"
)

// PodChanged reports whether a rollout has to look at a pod again: that it got a node or that a
// container was created tells it nothing.
func PodChanged(old, now *corev1.Pod) bool {
	was, is := observedPod(old), observedPod(now)
	return old.UID != now.UID || old.ResourceVersion == now.ResourceVersion || // a resync
		old.Status.PodIP != now.Status.PodIP || !maps.Equal(old.Labels, now.Labels) || !reflect.DeepEqual(was, is)
}

// observedPod is what is read of a pod, without its version, node and labels.
func observedPod(p *corev1.Pod) rollout.Pod {
	pod := (&Workload{}).pod(p, "", p.Labels[appsv1.ControllerRevisionHashLabelKey])
	pod.ResourceVersion, pod.Node, pod.Labels = "", "", nil
	return pod
}

// Changed reports whether a rollout has to look at a workload again: counters of its status that
// nobody believes, and who wrote it, tell it nothing.
func Changed(old, now *unstructured.Unstructured) bool {
	return old.GetResourceVersion() == now.GetResourceVersion() || // a resync
		!reflect.DeepEqual(observedWorkload(old), observedWorkload(now))
}

// observedWorkload is what is read of a workload. A change of the spec is one of the generation.
func observedWorkload(o *unstructured.Unstructured) []any {
	status, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status")
	of, _ := status.(map[string]any)
	return []any{
		o.GetUID(), o.GetGeneration(), o.GetDeletionTimestamp(), o.GetLabels(), o.GetAnnotations(), o.GetOwnerReferences(), o.GetFinalizers(),
		of["observedGeneration"], of["replicas"], of["currentRevision"], of["updateRevision"],
	}
}
