package kube

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// updates selects the updates of one kind that wake a pass. Creations and deletions all do, and so does a resync.
func updates[T client.Object](matters func(old, now T) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		old, was := e.ObjectOld.(T)
		now, is := e.ObjectNew.(T)
		return !was || !is || old.GetResourceVersion() == now.GetResourceVersion() || old.GetUID() != now.GetUID() || matters(old, now)
	}}
}

// podChanged: what a judgement about a pod reads. Times, messages and the annotations of others are noise.
func podChanged(old, now *corev1.Pod) bool {
	return metadataChanged(old, now) ||
		old.Spec.NodeName != now.Spec.NodeName || !slices.EqualFunc(old.Spec.Containers, now.Spec.Containers, sameImage) ||
		old.Status.Phase != now.Status.Phase || !slices.Equal(old.Status.PodIPs, now.Status.PodIPs) || old.Status.PodIP != now.Status.PodIP ||
		!maps.Equal(conditionsOf(old), conditionsOf(now)) ||
		!slices.EqualFunc(old.Status.ContainerStatuses, now.Status.ContainerStatuses, sameState)
}

func sameImage(a, b corev1.Container) bool { return a.Name == b.Name && a.Image == b.Image }

func sameState(a, b corev1.ContainerStatus) bool {
	return a.Name == b.Name && a.Ready == b.Ready && a.RestartCount == b.RestartCount && a.Image == b.Image
}

func conditionsOf(pod *corev1.Pod) map[corev1.PodConditionType]corev1.ConditionStatus {
	all := map[corev1.PodConditionType]corev1.ConditionStatus{}
	for _, c := range pod.Status.Conditions {
		switch c.Type {
		case corev1.PodReady, corev1.PodScheduled, corev1.DisruptionTarget:
			all[c.Type] = c.Status
		}
	}
	return all
}

// metadataChanged compares owners, labels, a deletion, and the annotations that this operator and the launcher write.
func metadataChanged(old, now client.Object) bool {
	ours := func(o client.Object) map[string]string {
		kept := maps.Clone(o.GetAnnotations())
		maps.DeleteFunc(kept, func(key, _ string) bool { return !strings.HasPrefix(key, domain) })
		return kept
	}
	return old.GetDeletionTimestamp().IsZero() != now.GetDeletionTimestamp().IsZero() || !maps.Equal(old.GetLabels(), now.GetLabels()) ||
		!maps.Equal(ours(old), ours(now)) || !reflect.DeepEqual(old.GetOwnerReferences(), now.GetOwnerReferences()) || isForeign(old) != isForeign(now)
}

// deploymentChanged: its desired state, and how many agents of it run.
func deploymentChanged(old, now *appsv1.Deployment) bool {
	counts := func(d *appsv1.Deployment) [5]int64 {
		s := d.Status
		return [5]int64{s.ObservedGeneration, int64(s.Replicas), int64(s.UpdatedReplicas), int64(s.ReadyReplicas), int64(s.AvailableReplicas)}
	}
	return metadataChanged(old, now) || old.Generation != now.Generation || counts(old) != counts(now)
}

// databaseChanged: what backups and restores read of their cluster.
func databaseChanged(old, now *v1beta2.FoundationDBCluster) bool {
	return old.Generation != now.Generation || old.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero() ||
		old.Status.ConnectionString != now.Status.ConnectionString || old.Status.RunningVersion != now.Status.RunningVersion ||
		old.Status.Configured != now.Status.Configured || old.Status.Health.Available != now.Status.Health.Available
}

// labelsChanged: a label selects the objects of an operator, and is copied to children.
func labelsChanged[T client.Object](old, now T) bool {
	return !maps.Equal(old.GetLabels(), now.GetLabels())
}

// ownerOf returns the name of an object's owner of one of our kinds. Empty: it has none.
func ownerOf(obj metav1.Object, kind string) string {
	for _, owner := range obj.GetOwnerReferences() {
		if group, _, _ := strings.Cut(owner.APIVersion, "/"); owner.Kind == kind && group == v1beta2.GroupVersion.Group {
			return owner.Name
		}
	}
	return ""
}
