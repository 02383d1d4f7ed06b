package kube

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
)

// A manager whose save took effect although its answer was lost continues to save, and ignores
// changes that others make to the object. A manager that is not the newest any more saves nothing.
func TestMemoryOfTheNewestManager(t *testing.T) {
	lost := false
	c := fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: blue.Namespace, Name: managerName(blue)}}).
		WithInterceptorFuncs(interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, obj client.Object, o ...client.UpdateOption) error {
			err := c.Update(ctx, obj.DeepCopyObject().(client.Object), o...)
			if err == nil && lost {
				lost = false
				return errors.New("unexpected EOF")
			}
			if err == nil {
				return c.Get(ctx, client.ObjectKeyFromObject(obj), obj)
			}
			return err
		}}).Build()
	manager := func() *WatchStateStore {
		m := &WatchStateStore{Client: c, Cluster: blue}
		if _, err := m.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		return m
	}
	save := func(m *WatchStateStore, off bool) error {
		return m.Save(t.Context(), postgres.WatchState{Created: true, Off: off})
	}
	saved := func(off bool) {
		t.Helper()
		if s, err := manager().Load(t.Context()); err != nil || !s.Created || s.Off != off {
			t.Errorf("saved is %+v, %v", s, err)
		}
	}

	old := manager()
	lost = true
	if err := save(old, true); err == nil {
		t.Fatal("the answer was not lost")
	}
	saved(true)
	if err := save(old, false); err != nil {
		t.Errorf("after a lost answer: %v", err)
	}
	saved(false)

	var obj corev1.ConfigMap
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: blue.Namespace, Name: managerName(blue)}, &obj); err != nil {
		t.Fatal(err)
	}
	metav1.SetMetaDataLabel(&obj.ObjectMeta, "team", "green")
	if err := c.Update(t.Context(), &obj); err != nil {
		t.Fatal(err)
	}
	if err := save(old, true); err != nil {
		t.Errorf("after a person's label: %v", err)
	}
	saved(true)

	next := manager()
	if err := save(next, true); err != nil { // the same state, saved by another manager
		t.Fatal(err)
	}
	for range 2 {
		if err := save(old, false); !apierrors.IsConflict(err) {
			t.Errorf("the one before saves: %v", err)
		}
	}
	saved(true)
	if err := save(next, false); err != nil {
		t.Errorf("the newest: %v", err)
	}
	saved(false)
}
