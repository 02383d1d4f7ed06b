package foundationdb_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/foundationdb/kube"
	"github.com/pawl-dev/pawl/operator/foundationdb/port/porttest"
)

// The suite of the port, with all rights: it also lists and deletes ConfigMaps, which the operator does not.
func TestPortObjects(t *testing.T) {
	porttest.Objects(t, porttest.ObjectsHarness{Collects: true, Open: func(t testing.TB) porttest.ObjectsFixture {
		plane := suite.Plane(t)
		namespaces := [2]string{plane.Namespace(t), plane.Namespace(t)}
		scheme := runtime.NewScheme()
		if err := kube.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		m, err := controller.NewManager(plane.Config(), controller.Options{Scheme: scheme, Namespaces: namespaces[:], NoLeaderElection: true, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		objects, err := kube.NewObjects(m, kube.ObjectsOptions{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() {
			if err := m.Start(ctx); err != nil {
				t.Errorf("the manager: %v", err)
			}
		})
		t.Cleanup(func() { cancel(); running.Wait() })
		started := errors.New("not yet")
		for started != nil && t.Context().Err() == nil {
			started = objects.List(t.Context(), &v1beta2.FoundationDBClusterList{}, namespaces[0], nil)
			select {
			case <-t.Context().Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
		return porttest.ObjectsFixture{Objects: objects, Namespaces: namespaces}
	}})
}
