package controller_test

import (
	"context"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/control/controltest"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/outcome"
)

// The conformance suite of control also holds on Kubernetes.
func TestControllerRuntimeIsAMechanism(t *testing.T) {
	suite.Plane(t)
	controltest.Controller(t, func(t *testing.T, s controltest.Setup) controltest.ControllerFixture {
		w := newFixture(t)
		m := w.manager(nil)
		err := controller.Setup(m, controller.Controller[*Demo]{
			For: &Demo{}, Conditions: conditions, Workers: s.Workers, MaxRetries: s.MaxRetries,
			Reconcile: func(ctx context.Context, ref control.Ref) outcome.Outcome { return s.Reconcile(ctx, ref.Name) },
			GivenUp:   func(ref control.Ref, err error) { s.GivenUp(ref.Name, err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		remove := func(name string) {
			if err := w.client.Delete(t.Context(), named(w.namespace, name)); err != nil {
				t.Errorf("delete %s: %v", name, err)
			}
		}
		stop := func() {}
		return controltest.ControllerFixture{
			Put: w.create,
			Status: func(name string, n int) {
				patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"status":{"n":%d}}`, n))
				if err := w.client.Status().Patch(t.Context(), named(w.namespace, name), patch); err != nil {
					t.Errorf("status of %s: %v", name, err)
				}
			},
			Request: func(name, value string) {
				w.patch(name, fmt.Sprintf(`{"metadata":{"annotations":{"pawl.dev/resume":%q}}}`, value))
			},
			Hold:   func(name string) { w.patch(name, `{"metadata":{"finalizers":["pawl.dev/exam"]}}`) },
			Free:   func(name string) { w.patch(name, `{"metadata":{"finalizers":null}}`) },
			Mark:   remove,
			Delete: remove,
			Start:  func() { stop = w.start(m) },
			Stop:   func() { stop() },
		}
	})
}
