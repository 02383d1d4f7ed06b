package controller

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// Only a change of the desired state or a request triggers a controller.
func TestDesiredChanged(t *testing.T) {
	mark := metav1.NewTime(time.Unix(1, 0))
	base := metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "1", Generation: 1, Finalizers: []string{"pawl.dev/kept"}, Annotations: map[string]string{"pawl.dev/resume": "r1", "note": "x", "mpd.example.com/switch": "1"}}
	for name, c := range map[string]struct {
		change func(*metav1.ObjectMeta)
		want   bool
	}{
		"a status write of our own":           {func(*metav1.ObjectMeta) {}, false},
		"a label":                             {func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"a": "b"} }, false},
		"a finalizer of our own":              {func(m *metav1.ObjectMeta) { m.Finalizers = append(m.Finalizers, "pawl.dev/x") }, false},
		"a finalizer that is lost":            {func(m *metav1.ObjectMeta) { m.Finalizers = nil }, true},
		"an annotation that is no request":    {func(m *metav1.ObjectMeta) { m.Annotations["note"] = "y" }, false},
		"a name like a request":               {func(m *metav1.ObjectMeta) { m.Annotations["pawl.dev.evil/resume"] = "y" }, false},
		"the spec":                            {func(m *metav1.ObjectMeta) { m.Generation = 2 }, true},
		"the deletion mark":                   {func(m *metav1.ObjectMeta) { m.DeletionTimestamp = &mark }, true},
		"another object of the name":          {func(m *metav1.ObjectMeta) { m.UID = "v" }, true},
		"a resync":                            {func(m *metav1.ObjectMeta) { m.ResourceVersion = "1" }, true},
		"a request":                           {func(m *metav1.ObjectMeta) { m.Annotations["pawl.dev/pause"] = "p1" }, true},
		"another value of a request":          {func(m *metav1.ObjectMeta) { m.Annotations["pawl.dev/resume"] = "r2" }, true},
		"a request that was taken back":       {func(m *metav1.ObjectMeta) { delete(m.Annotations, "pawl.dev/resume") }, true},
		"a request with an empty value":       {func(m *metav1.ObjectMeta) { m.Annotations["pawl.dev/pause"] = "" }, true},
		"a named request":                     {func(m *metav1.ObjectMeta) { m.Annotations["restart"] = "1" }, true},
		"a request of a named prefix":         {func(m *metav1.ObjectMeta) { m.Annotations["mpd.example.com/switch"] = "2" }, true},
		"a name that begins like a named one": {func(m *metav1.ObjectMeta) { m.Annotations["restarted"] = "1" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			old, now := &demo{ObjectMeta: *base.DeepCopy()}, &demo{ObjectMeta: *base.DeepCopy()}
			now.ResourceVersion = "2"
			c.change(&now.ObjectMeta)
			if got := DesiredChanged("restart", "mpd.example.com/").Update(event.UpdateEvent{ObjectOld: old, ObjectNew: now}); got != c.want {
				t.Errorf("it wakes: %t, want %t", got, c.want)
			}
		})
	}
	p := DesiredChanged()
	if !p.Create(event.CreateEvent{}) || !p.Delete(event.DeleteEvent{}) || !p.Generic(event.GenericEvent{}) || !p.Update(event.UpdateEvent{}) {
		t.Error("creation, removal and what cannot be judged must wake")
	}
	also := extraUpdates(func(old, now *demo) bool { return old.Status.N != now.Status.N })
	one := &demo{}
	one.Status.N = 1
	if !also.Update(event.UpdateEvent{ObjectOld: &demo{}, ObjectNew: one}) || also.Update(event.UpdateEvent{ObjectOld: one, ObjectNew: one}) {
		t.Error("a chosen change, and only that, must wake")
	}
}
