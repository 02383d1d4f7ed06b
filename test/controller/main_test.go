// Package controller tests kube/controller on a real control plane.
package controller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/test/await"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

var suite = controlplane.NewSuite(controlplane.Options{CRDs: []string{"testdata/crd.yaml", "../../deploy/crds"}, Kubelet: kubelet.Options{Nodes: -1}})

func TestMain(m *testing.M) { suite.Main(m) }

// Demo is the kind that these tests use.
type Demo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              DemoSpec   `json:"spec,omitempty"`
	Status            DemoStatus `json:"status,omitempty"`
}

// DemoSpec is a number.
type DemoSpec struct {
	N int `json:"n"`
}

// DemoStatus is the status of a Demo.
type DemoStatus struct {
	N           int                  `json:"n,omitempty"`
	Position    json.RawMessage      `json:"position,omitempty"`
	Conditions  []metav1.Condition   `json:"conditions,omitempty"`
	LastRequest *v1alpha1.RunRequest `json:"lastRequest,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (d *Demo) DeepCopyObject() runtime.Object {
	c := *d
	d.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Status.Position = append(json.RawMessage(nil), d.Status.Position...)
	c.Status.Conditions = append([]metav1.Condition(nil), d.Status.Conditions...)
	c.Status.LastRequest = d.Status.LastRequest.DeepCopy()
	return &c
}

// DemoList is a list of Demos.
type DemoList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Demo `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *DemoList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*Demo))
	}
	return &c
}

func kinds(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := scheme.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	group := schema.GroupVersion{Group: "exam.pawl.dev", Version: "v1"}
	s.AddKnownTypes(group, &Demo{}, &DemoList{})
	metav1.AddToGroupVersion(s, group)
	return s
}

func conditions(d *Demo) *[]metav1.Condition { return &d.Status.Conditions }

func named(namespace, name string) *Demo {
	return &Demo{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// fixture is a namespace of the plane, an uncached client, and the managers of a test.
type fixture struct {
	t         *testing.T
	plane     *controlplane.Plane
	namespace string
	scheme    *runtime.Scheme
	client    client.Client // its errors are as the API server's are
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{t: t, plane: suite.Plane(t), scheme: kinds(t)}
	w.namespace = w.plane.Namespace(t)
	var err error
	if w.client, err = client.New(w.plane.Config(), client.Options{Scheme: w.scheme}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *fixture) manager(change func(*controller.Options)) *controller.Manager {
	w.t.Helper()
	o := controller.Options{Scheme: w.scheme, Namespaces: []string{w.namespace}, LeaseNamespace: w.namespace, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	m, err := controller.NewManager(w.plane.Config(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// start runs a manager; stop ends it, and may be called again.
func (w *fixture) start(m *controller.Manager) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := m.Start(ctx); err != nil {
			w.t.Errorf("the manager: %v", err)
		}
	})
	stop = func() { cancel(); wg.Wait() }
	w.t.Cleanup(stop)
	return stop
}

func (w *fixture) create(name string, n int) {
	w.t.Helper()
	d := named(w.namespace, name)
	d.Spec.N = n
	err := w.client.Patch(w.t.Context(), named(w.namespace, name), client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"n":%d}}`, n)))
	if client.IgnoreNotFound(err) == nil && err != nil {
		err = w.client.Create(w.t.Context(), d)
	}
	if err != nil {
		w.t.Errorf("put %s: %v", name, err)
	}
}

func (w *fixture) patch(name, change string) {
	w.t.Helper()
	if err := w.client.Patch(w.t.Context(), named(w.namespace, name), client.RawPatch("application/merge-patch+json", []byte(change))); err != nil {
		w.t.Errorf("patch %s: %v", name, err)
	}
}

func (w *fixture) get(name string) *Demo {
	w.t.Helper()
	d := &Demo{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, d); err != nil {
		w.t.Fatal(err)
	}
	return d
}

// until polls until look returns no error.
func (w *fixture) until(what string, look func() error) {
	w.t.Helper()
	await.Until(w.t, 2*time.Minute, what, func(context.Context) error { return look() }) // a busy machine
}

// events returns the notes of the Events about an object, by reason.
func (w *fixture) events(name string) map[string]string {
	w.t.Helper()
	var list corev1.EventList
	if err := w.client.List(w.t.Context(), &list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	found := map[string]string{}
	for _, e := range list.Items {
		if e.InvolvedObject.Kind == "Demo" && e.InvolvedObject.Name == name {
			found[e.Reason] = e.Type + ": " + e.Message
		}
	}
	return found
}
