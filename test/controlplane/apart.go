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

// ApartLabel is the label of the nodes that belong to one test.
const ApartLabel = "node.pawl.dev/apart"

// NodeSelector is the admission plugin that Apart and NamespaceOn need, in
// Options.Admission.
const NodeSelector = "PodNodeSelector"

// selectorAnnotation restricts the pods of a namespace to certain nodes.
const selectorAnnotation = "scheduler.alpha.kubernetes.io/node-selector"

var apart atomic.Int64

// NamespaceOn is Namespace with pods only on nodes with this ApartLabel.
func (p *Plane) NamespaceOn(t testing.TB, label string) string {
	t.Helper()
	return p.namespace(t, map[string]string{selectorAnnotation: ApartLabel + "=" + label})
}

// Apart creates nodes for one test, named by the label and a number, and a namespace whose
// pods run only there. Changes of these nodes do not affect other namespaces of
// NamespaceOn or Apart. The options of the kubelet are those of the plane. The nodes are
// removed when the test ends.
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
	t.Cleanup(func() { // a stopped node would keep its pods
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
