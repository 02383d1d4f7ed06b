package kube

import (
	"context"
	"fmt"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// countingReader records the reads of the API server that bypass the cache.
type countingReader struct {
	client.Reader
	asked []string
}

func (r *countingReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
	r.asked = append(r.asked, fmt.Sprintf("%T %s", obj, key.Name))
	return r.Reader.Get(ctx, key, obj, o...)
}

func (r *countingReader) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	r.asked = append(r.asked, fmt.Sprintf("%T", list))
	return r.Reader.List(ctx, list, o...)
}

// Observing volume and instances of a cluster at rest reads one object past the cache each time:
// the Lease with the grant. Whoever acts on the grant acts on its present state.
func TestObserveReadsTheGrantOnly(t *testing.T) {
	g := newFixture(t, &v1alpha1.SharedStorageCluster{ObjectMeta: metav1.ObjectMeta{Namespace: blue.Namespace, Name: blue.Name, UID: types.UID(blue.UID)}})
	g.ensure(port.Volume{Size: gi})
	for _, name := range []string{"blue-1-a", "blue-2-b"} {
		g.instance(name, port.Reader)
		g.bind(name, "1Gi")
		g.start(blue, name, corev1.PodRunning)
	}
	g.must(g.Storage().Grant(t.Context(), blue, "blue-1-a", 1))
	g.must(g.Revive(t.Context(), blue, nil)) // this creates its budget
	live := &countingReader{Reader: g.o.Client}
	g.o.Live = live
	for epoch := int64(2); epoch < 4; epoch++ {
		g.must((&Grants{Client: g.o.Client, Cluster: blue}).Grant(t.Context(), "blue-1-a", epoch))
		live.asked = nil
		v, err := g.Storage().Observe(t.Context(), blue)
		g.must(err)
		all, err := g.Instances().List(t.Context(), blue)
		g.must(err)
		if len(all) != 2 || v.Epoch != epoch {
			t.Errorf("it has %d instances and %+v", len(all), v)
		}
		g.must(g.Revive(t.Context(), blue, nil))
		if want := []string{fmt.Sprintf("%T %s", &coordinationv1.Lease{}, grantName(blue))}; !slices.Equal(live.asked, want) {
			t.Errorf("the API server was asked for %v, want %v", live.asked, want)
		}
	}
}
