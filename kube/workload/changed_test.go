package workload

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestPodChanged: a pod is looked at again when a rollout would read something else of it.
func TestPodChanged(t *testing.T) {
	old := func() *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "db-0", UID: "u", ResourceVersion: "1", Labels: map[string]string{"app": "db"}},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}},
		}
	}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"it got a node":     {func(p *corev1.Pod) { p.Spec.NodeName = "n" }, false},
		"a container waits": {func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main"}} }, false},
		"another condition": {func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled})
		}, false},
		"it is ready":            {func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionTrue }, true},
		"it is ready since then": {func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Unix(9, 0)) }, true},
		"it goes":                {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(9, 0)} }, true},
		"another label":          {func(p *corev1.Pod) { p.Labels["role"] = "leader" }, true},
		"an address":             {func(p *corev1.Pod) { p.Status.PodIP = "10.0.0.1" }, true},
		"a container restarted":  {func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}} }, true},
		"another pod":            {func(p *corev1.Pod) { p.UID = "v" }, true},
		"a resync":               {func(p *corev1.Pod) { p.ResourceVersion = "1" }, true},
	} {
		now := old()
		now.ResourceVersion = "2"
		c.change(now)
		if got := PodChanged(old(), now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestChanged: counters of a status that nobody believes wake nobody.
func TestChanged(t *testing.T) {
	old := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "db", "uid": "u", "resourceVersion": "1", "generation": int64(3)},
			"status":   map[string]any{"observedGeneration": int64(2), "replicas": int64(3), "readyReplicas": int64(3)},
		}}
	}
	for name, c := range map[string]struct {
		change func(status map[string]any, o *unstructured.Unstructured)
		want   bool
	}{
		"fewer are ready":  {func(s map[string]any, _ *unstructured.Unstructured) { s["readyReplicas"] = int64(2) }, false},
		"more are updated": {func(s map[string]any, _ *unstructured.Unstructured) { s["updatedReplicas"] = int64(2) }, false},
		"who wrote it": {func(_ map[string]any, o *unstructured.Unstructured) {
			o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
		}, false},
		"the spec":              {func(_ map[string]any, o *unstructured.Unstructured) { o.SetGeneration(4) }, true},
		"it was observed":       {func(s map[string]any, _ *unstructured.Unstructured) { s["observedGeneration"] = int64(3) }, true},
		"a revision":            {func(s map[string]any, _ *unstructured.Unstructured) { s["updateRevision"] = "db-1" }, true},
		"all have the revision": {func(s map[string]any, _ *unstructured.Unstructured) { s["currentRevision"] = "db-1" }, true},
		"pods":                  {func(s map[string]any, _ *unstructured.Unstructured) { s["replicas"] = int64(4) }, true},
		"a label": {func(_ map[string]any, o *unstructured.Unstructured) {
			o.SetLabels(map[string]string{RolloutLabel: "db"})
		}, true},
		"an annotation": {func(_ map[string]any, o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"a": "b"}) }, true},
		"an owner": {func(_ map[string]any, o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{UID: "o"}})
		}, true},
		"it goes": {func(_ map[string]any, o *unstructured.Unstructured) {
			o.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(9, 0)})
		}, true},
		"a resync": {func(_ map[string]any, o *unstructured.Unstructured) { o.SetResourceVersion("1") }, true},
	} {
		now := old()
		now.SetResourceVersion("2")
		c.change(now.Object["status"].(map[string]any), now)
		if got := Changed(old(), now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
