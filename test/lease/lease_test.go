// Package lease_test examines locks in Leases on a real API server.
package lease_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/lease"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/lock/locktest"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

// No nodes: there are no pods.
var suite = controlplane.NewSuite(controlplane.Options{Kubelet: kubelet.Options{Nodes: -1}})

func TestMain(m *testing.M) { suite.Main(m) }

var serial atomic.Int64

func open(t *testing.T) (*lease.Backend, kubernetes.Interface, string) {
	t.Helper()
	config := suite.Plane(t).Config()
	config.QPS = -1 // the limits are the server's
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespace := fmt.Sprintf("lease-%d", serial.Add(1))
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b, err := lease.New(config, namespace)
	if err != nil {
		t.Fatal(err)
	}
	return b, client, namespace
}

func TestLocks(t *testing.T) {
	locktest.Run(t, func(t *testing.T) lock.Backend {
		b, _, _ := open(t)
		return b
	})
}

// A Lease shows people who holds the lock, and names that differ have Leases of their own.
func TestLeaseShowsItsHolder(t *testing.T) {
	b, client, namespace := open(t)
	a := lock.Locker{Backend: b, Owner: "a", Duration: time.Hour}
	for _, name := range []string{"topology/orders", "topology.orders", strings.Repeat("x", 300), "Ä/…"} {
		if v, err := a.Take(t.Context(), name); err != nil || !v.Granted {
			t.Fatalf("%s: %s, %v", name, v, err)
		}
	}
	all, err := client.CoordinationV1().Leases(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 4 {
		t.Fatalf("%d leases, %v; want 4", len(all.Items), err)
	}
	for _, l := range all.Items {
		if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity != "a" || *l.Spec.LeaseDurationSeconds != 3600 || l.Spec.AcquireTime.IsZero() {
			t.Errorf("%s shows %+v", l.Name, l.Spec)
		}
	}
	if _, err := a.Release(t.Context(), "topology/orders"); err != nil {
		t.Fatal(err)
	}
	if all, err = client.CoordinationV1().Leases(namespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(all.Items) != 3 {
		t.Errorf("%d leases after a release, %v; want 3", len(all.Items), err)
	}
}

// A Lease that somebody emptied is LOCK_UNREADABLE, and stays as it is.
func TestForeignLease(t *testing.T) {
	b, client, namespace := open(t)
	a := lock.Locker{Backend: b, Owner: "a"}
	if _, err := a.Take(t.Context(), "l"); err != nil {
		t.Fatal(err)
	}
	leases := client.CoordinationV1().Leases(namespace)
	all, err := leases.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 1 {
		t.Fatal(all, err)
	}
	emptied := &all.Items[0]
	emptied.Annotations = nil
	if emptied, err = leases.Update(t.Context(), emptied, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Take(t.Context(), "l"); fault.Of(err) != lock.Unreadable {
		t.Errorf("take: %v, want LOCK_UNREADABLE", err)
	}
	if now, err := leases.Get(t.Context(), emptied.Name, metav1.GetOptions{}); err != nil || now.ResourceVersion != emptied.ResourceVersion {
		t.Errorf("it was written: %v", err)
	}
}
