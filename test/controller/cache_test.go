package controller_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/outcome"
)

// Two operators of one manager have caches of their own: each holds what its selectors
// choose, lists by owner, and shares what it lists.
func TestCachesOfTwoOperators(t *testing.T) {
	w := newFixture(t)
	w.create("a", 1)
	w.create("b", 1)
	owners := map[string]*Demo{"a": w.get("a"), "b": w.get("b")}
	for i, owner := range []string{"a", "a", "b"} {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: fmt.Sprintf("m%d", i), Labels: map[string]string{"of": owner}}, Data: map[string]string{"k": "v"}}
		if err := (controller.Applier{Client: w.client, Owner: "test"}).Apply(t.Context(), config, owners[owner]); err != nil {
			t.Fatal(err)
		}
	}
	m := w.manager(nil)
	made := map[string]*controller.Cache{}
	for name := range owners {
		var err error
		made[name], err = m.NewCache(controller.CacheOptions{
			ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Label: labels.SelectorFromSet(labels.Set{"of": name})}},
			ByOwner:  []client.Object{&corev1.ConfigMap{}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	w.start(m)
	w.until("full caches", func() error {
		return errors.Join(made["a"].List(t.Context(), &corev1.ConfigMapList{}), made["b"].List(t.Context(), &corev1.ConfigMapList{}))
	})
	for name, want := range map[string]int{"a": 2, "b": 1} {
		c := made[name]
		var all, owned, again corev1.ConfigMapList
		if err := errors.Join(c.Client().List(t.Context(), &all), c.ListOwned(t.Context(), owners[name], &owned), c.ListShared(t.Context(), &again)); err != nil {
			t.Fatal(err)
		}
		if len(all.Items) != want || len(owned.Items) != want || len(again.Items) != want {
			t.Errorf("the cache of %s holds %d, lists %d by owner and %d shared, want %d", name, len(all.Items), len(owned.Items), len(again.Items), want)
		}
		shared := func(l *corev1.ConfigMapList) map[string]uintptr {
			at := map[string]uintptr{}
			for _, item := range l.Items {
				at[item.Name] = reflect.ValueOf(item.Data).Pointer()
			}
			return at
		}
		if !reflect.DeepEqual(shared(&owned), shared(&again)) || reflect.DeepEqual(shared(&owned), shared(&all)) {
			t.Errorf("%s: lists that are only read share their objects, others are copies", name)
		}
		other := map[string]string{"a": "b", "b": "a"}[name]
		var none corev1.ConfigMapList
		if err := c.ListOwned(t.Context(), owners[other], &none); err != nil || len(none.Items) != 0 {
			t.Errorf("the cache of %s lists %d objects of %s, %v", name, len(none.Items), other, err)
		}
	}
}

// A burst of child events makes few passes; without a quiet time each may make one.
func TestQuietTimeForChildEvents(t *testing.T) {
	w := newFixture(t)
	m := w.manager(nil)
	own, err := m.NewCache(controller.CacheOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var passes atomic.Int32
	w.setup(m, func(c *controller.Controller[*Demo]) {
		c.Reconcile = func(context.Context, control.Ref) outcome.Outcome { passes.Add(1); return outcome.Done() }
		c.Owns, c.Quiet, c.Cache = []client.Object{&corev1.ConfigMap{}}, 2*time.Second, own
	})
	w.create("a", 1)
	w.start(m)
	w.until("the first pass", func() error { return atLeast(&passes, 1) })
	owner := w.get("a")
	began := time.Now()
	for i := range 20 {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "m"}, Data: map[string]string{"n": fmt.Sprint(i)}}
		if err := (controller.Applier{Client: w.client, Owner: "test"}).Apply(t.Context(), config, owner); err != nil {
			t.Fatal(err)
		}
	}
	bursts := int32(time.Since(began)/(2*time.Second)) + 1 // a busy machine makes a long burst
	w.until("the pass after the burst", func() error { return atLeast(&passes, 2) })
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("the pass came after %s, before the quiet time was over", took)
	}
	if got := passes.Load(); got > 1+bursts {
		t.Errorf("%d passes for a burst of 20 events, want at most %d", got, 1+bursts)
	}
}

// lateCRD is a kind that is installed while a manager runs.
func lateCRD(group, kind, plural string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"kind": kind, "plural": plural},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
		},
	}}
}

// A watch of a kind that is installed later begins then, and a controller of such a kind too.
func TestKindsThatAreInstalledLater(t *testing.T) {
	w := newFixture(t)
	late := schema.GroupVersionKind{Group: "late.test.pawl.dev", Version: "v1", Kind: "Late"}
	object := func(name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(late)
		u.SetNamespace(w.namespace)
		u.SetName(name)
		return u
	}
	m := w.manager(nil)
	var passes, latePasses atomic.Int32
	w.setup(m, func(c *controller.Controller[*Demo]) {
		c.Reconcile = func(context.Context, control.Ref) outcome.Outcome { passes.Add(1); return outcome.Done() }
		c.Watches = []controller.Watch{{Object: object(""), Optional: true, Keys: func(_ context.Context, obj client.Object) []types.NamespacedName {
			return []types.NamespacedName{{Namespace: obj.GetNamespace(), Name: "a"}}
		}}}
	})
	err := m.WhenServed([]schema.GroupVersionKind{late}, func() error {
		return controller.Setup(m, controller.Controller[*unstructured.Unstructured]{For: object(""), Reconcile: func(context.Context, control.Ref) outcome.Outcome {
			latePasses.Add(1)
			return outcome.Done()
		}})
	})
	if err != nil {
		t.Fatal(err)
	}
	w.create("a", 1)
	w.start(m)
	w.until("the first pass", func() error { return atLeast(&passes, 1) })
	crd := lateCRD(late.Group, late.Kind, "lates")
	if err := w.client.Create(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.client.Delete(context.Background(), crd); err != nil {
			t.Error(err)
		}
	})
	w.until("the kind is served", func() error { return w.client.Create(t.Context(), object("x")) })
	w.until("passes for the late kind", func() error { return errors.Join(atLeast(&passes, 2), atLeast(&latePasses, 1)) })
}
