package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// topologyCalls counts the Topology calls: the operator makes one per pass.
var topologyCalls atomic.Int64

// original is the name of the cluster that the operator created; the others are copies of
// it.
const original = "c-000000"

// copied returns ports that answer for every cluster with the state of the original. They
// do not change for writes: an idle cluster makes none.
func copied(p port.Ports) port.Ports {
	return port.Ports{Storage: copiedStorage{p.Storage}, Instances: copiedInstances{p.Instances}, Engine: copiedEngine{p.Engine}, Manager: copiedManager{p.Manager}}
}

func originalRef(r port.Ref) port.Ref {
	r.Name = original
	return r
}

type (
	copiedStorage   struct{ port.Storage }
	copiedInstances struct{ port.Instances }
	copiedEngine    struct{ port.Engine }
	copiedManager   struct{ port.Manager }
)

// Observe implements port.Storage.
func (s copiedStorage) Observe(ctx context.Context, c port.Ref) (port.Volume, error) {
	return s.Storage.Observe(ctx, originalRef(c))
}

// List implements port.Instances.
func (s copiedInstances) List(ctx context.Context, c port.Ref) ([]port.Instance, error) {
	return s.Instances.List(ctx, originalRef(c))
}

// Status implements port.Engine.
func (s copiedEngine) Status(ctx context.Context, id port.Ref) (port.Status, error) {
	return s.Engine.Status(ctx, originalRef(id))
}

// Topology implements port.Manager.
func (s copiedManager) Topology(ctx context.Context, c port.Ref) (port.Topology, error) {
	topologyCalls.Add(1)
	return s.Manager.Topology(ctx, originalRef(c))
}

// copyCluster creates n-1 copies of the original: its metadata except the name, its spec
// and its status, in two writes each.
func copyCluster(ctx context.Context, p *plane, space string, n int) error {
	all, err := dynamic.NewForConfig(p.config)
	if err != nil {
		return err
	}
	client := all.Resource(clustersResource).Namespace(space)
	first, err := client.Get(ctx, original, metav1.GetOptions{})
	if err != nil {
		return err
	}
	numbers := make(chan int, n)
	for i := 1; i < n; i++ {
		numbers <- i
	}
	close(numbers)
	errs := make(chan error, n)
	var work sync.WaitGroup
	for range 16 {
		work.Go(func() {
			for i := range numbers {
				if err := copyOne(ctx, client, first, i); err != nil {
					errs <- err
				}
			}
		})
	}
	work.Wait()
	close(errs)
	return <-errs
}

func copyOne(ctx context.Context, client dynamic.ResourceInterface, first *unstructured.Unstructured, i int) error {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": first.Object["spec"]}}
	obj.SetGroupVersionKind(first.GroupVersionKind())
	obj.SetName(fmt.Sprintf("c-%06d", i))
	obj.SetFinalizers(first.GetFinalizers())
	created, err := client.Create(ctx, obj, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Object["status"] = first.Object["status"]
	_, err = client.UpdateStatus(ctx, created, metav1.UpdateOptions{})
	return err
}
