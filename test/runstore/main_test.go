// Package runstore_test tests the Kubernetes store on a real API server.
package runstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/kube/runstore/kubetest"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

// No nodes: there are no pods.
var suite = controlplane.NewSuite(controlplane.Options{CRDs: []string{"../../deploy/crds"}, Kubelet: kubelet.Options{Nodes: -1}})

func TestMain(m *testing.M) { suite.Main(m) }

var serial atomic.Int64

// namespace creates a namespace, which is deleted with the plane.
func namespace(t testing.TB, client kubernetes.Interface) string {
	t.Helper()
	name := fmt.Sprintf("store-%d", serial.Add(1))
	_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// open opens a store on a namespace with its own transport.
func open(t testing.TB, config *rest.Config, kind kuberuns.Kind, space string) (*kuberuns.Store, *kubetest.FaultyTransport) {
	t.Helper()
	return openOwned(t, config, kind, space, nil)
}

// openOwned opens a store whose runs belong to an object; nil: to none.
func openOwned(t testing.TB, config *rest.Config, kind kuberuns.Kind, space string, owner *metav1.OwnerReference) (*kuberuns.Store, *kubetest.FaultyTransport) {
	t.Helper()
	wire := kubetest.NewFaultyTransport(1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := kuberuns.Open(ctx, kuberuns.Options{Config: wire.Config(config), Kind: kind, Namespace: space, SingleNamespace: true, Owner: func(string) *metav1.OwnerReference { return owner }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, wire
}
