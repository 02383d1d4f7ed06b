package controlplane

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

// ApartLabel is on the nodes of a test that has its own.
const ApartLabel = "node.pawl.dev/apart"

// NodeSelector is the admission plugin that Apart and NamespaceOn need, in
// Options.Admission.
const NodeSelector = "PodNodeSelector"

// selectorAnnotation lets all pods of a namespace stand on certain nodes only.
const selectorAnnotation = "scheduler.alpha.kubernetes.io/node-selector"

var apart atomic.Int64

// NamespaceOn is Namespace whose pods stand on nodes with this ApartLabel only.
func (p *Plane) NamespaceOn(t testing.TB, label string) string {
	t.Helper()
	return p.namespace(t, map[string]string{selectorAnnotation: ApartLabel + "=" + label})
}

// Apart makes nodes for one test, named by the label and a number, and a
// namespace whose pods stand there and nowhere else. Whatever the test does to
// its nodes, nobody beside it notices whose namespace is of NamespaceOn or Apart
// too. Options of the kubelet are those of the plane. The nodes go when the test
// ends.
func (p *Plane) Apart(t testing.TB) (namespace, label string, k *kubelet.Kubelet) {
	t.Helper()
	o := p.o.Kubelet
	o.Name = fmt.Sprintf("apart%d", apart.Add(1))
	o.Labels = map[string]string{ApartLabel: o.Name}
	k, err := p.StartKubelet(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		k.Stop()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if err := p.client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: ApartLabel + "=" + o.Name}); err != nil {
			t.Errorf("removing the test's nodes: %v", err)
		}
	})
	namespace = p.NamespaceOn(t, o.Name)
	t.Cleanup(func() { // a node without power would keep its pods
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		err := p.terminateNamespace(ctx, namespace)
		for _, name := range k.Names() {
			err = errors.Join(err, k.StartNode(ctx, name))
		}
		if err != nil {
			t.Errorf("mending the test's nodes: %v", err)
		}
	})
	return namespace, o.Name, k
}
