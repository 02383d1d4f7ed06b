package kube

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Each kind has a cache of its own, so a pod may appear before its claim. That does not mean that
// the instance was removed.
func TestAPodThatIsSeenBeforeItsClaim(t *testing.T) {
	g := newFixture(t)
	g.ensure(port.Volume{Size: gi})
	g.instance("a", port.Writer)
	whole := g.o.Client
	g.o.Live = whole
	g.o.Client = interceptor.NewClient(whole.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if _, claims := list.(*corev1.PersistentVolumeClaimList); claims {
				return nil
			}
			return c.List(ctx, list, o...)
		},
	})
	all, err := g.Instances().List(t.Context(), blue)
	g.must(err)
	if len(all) != 1 || all[0].State == port.Leaving {
		t.Errorf("the instances are %+v", all)
	}
	var pods corev1.PodList
	if g.must(whole.List(t.Context(), &pods)); len(pods.Items) != 1 || pods.Items[0].DeletionTimestamp != nil {
		t.Errorf("the pods are %+v", pods.Items)
	}

	g.must(whole.DeleteAllOf(t.Context(), &corev1.PersistentVolumeClaim{}, client.InNamespace(blue.Namespace)))
	all, err = g.Instances().List(t.Context(), blue)
	g.must(err)
	if len(all) != 1 || all[0].State != port.Leaving {
		t.Errorf("without a claim the instances are %+v", all)
	}
	if g.must(whole.List(t.Context(), &pods)); len(pods.Items) != 0 {
		t.Errorf("without a claim the pods are %+v", pods.Items)
	}
}
