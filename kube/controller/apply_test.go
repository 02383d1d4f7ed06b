package controller

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// An applied object has only desired fields: no nulls, no status, and no fields that the
// API server writes.
func TestAppliedObjects(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u", ResourceVersion: "5", Generation: 3, CreationTimestamp: now, DeletionTimestamp: &now,
			Labels: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	u, err := desired(pod, scheme)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(u.Object)
	if want := `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b"},"name":"p","namespace":"n"},"spec":{"containers":[{"image":"i","name":"c","resources":{}}]}}`; err != nil || string(raw) != want {
		t.Errorf("%v %s\nwant %s", err, raw, want)
	}
	if pod.ResourceVersion != "5" || pod.Status.Phase != corev1.PodRunning {
		t.Error("the object itself was changed")
	}
	if _, err := desired(&demo{}, scheme); err == nil {
		t.Error("a kind that the scheme does not know was taken")
	}
}

func TestNotesOfEventsDiffer(t *testing.T) {
	first, again, other := action("a"), action("a"), action("b")
	if first != again || first == other {
		t.Error("client-go would count different notes as one, or the same ones twice")
	}
	r := &recordedEvents{}
	e := Events{r}
	e.Normal(&demo{}, "not-a reason!", "%d", 1)
	e.Fault(&demo{}, nil)
	Events{}.Warn(&demo{}, "Nobody", "listens")
	if len(r.events) != 1 || r.events[0] != "notareason: 1" {
		t.Errorf("Events: %v", r.events)
	}
}
