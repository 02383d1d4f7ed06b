package kube

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	mpd "github.com/pawl-dev/pawl/kube/api/mpd/v1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// Only the operator of a cluster creates a missing pod again, because another one has other
// images.
func TestPodsOfAnotherOperatorsClustersAreLeftAlone(t *testing.T) {
	for _, q := range []struct {
		wants, name string // operator names of the object and of the operator
		revived     bool
	}{
		{"", "", true}, {"", MPDOperator, true}, {MPDOperator, "", true}, {"green", "green", true},
		{"green", "", false}, {"green", MPDOperator, false}, {"", "green", false}, {MPDOperator, "green", false},
	} {
		obj := &mpd.MPDCluster{ObjectMeta: metav1.ObjectMeta{Namespace: blue.Namespace, Name: blue.Name, UID: "1"}, Spec: mpd.MPDClusterSpec{OperatorName: q.wants}}
		g := newFixture(t, obj)
		g.ensure(port.Volume{Size: gi})
		g.instance("blue-1-a", port.Writer)
		g.must(g.o.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(blue.Namespace)))
		store := NewMPDClusterStore(g.o.Client, g.o.Client, q.name)
		passes := 0
		pass := restoring(g.o.Client, g.Placement, controller.Events{}, func() *mpd.MPDCluster { return &mpd.MPDCluster{} }, store.mine, func(context.Context, control.Ref) outcome.Outcome {
			passes++
			return outcome.Done()
		})
		pass(t.Context(), control.Ref{Kind: MPDKind, Namespace: blue.Namespace, Name: blue.Name})
		err := g.o.Client.Get(t.Context(), client.ObjectKey{Namespace: blue.Namespace, Name: "blue-1-a"}, &corev1.Pod{})
		if client.IgnoreNotFound(err) != nil || apierrors.IsNotFound(err) == q.revived || passes != 1 {
			t.Errorf("a cluster of operator %q, looked at by %q: the pod: %v, want it created again: %t; passes: %d", q.wants, q.name, err, q.revived, passes)
		}
	}
}

// The error of an API server that cannot create a run is recognized through all wrapping.
func TestFinding29WhyThereIsNoRun(t *testing.T) {
	runs := schema.GroupResource{Group: "pawl.dev", Resource: "runs"}
	ending := apierrors.NewForbidden(runs, "r", errors.New("unable to create new content in namespace default because it is being terminated"))
	ending.ErrStatus.Details.Causes = append(ending.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	for name, q := range map[string]struct {
		err  error
		want sharedstorage.RunStoreState
	}{
		"a namespace that is being deleted": {ending, sharedstorage.RunStoreTerminating},
		"no right, or no quota":             {apierrors.NewForbidden(runs, "r", errors.New("exceeded quota")), sharedstorage.RunStoreMissing},
		"no such kind":                      {apierrors.NewGenericServerResponse(404, "post", runs, "", "404 page not found", 0, true), sharedstorage.RunStoreMissing},
		"an API server that is away":        {apierrors.NewServiceUnavailable("away"), sharedstorage.RunStoreAvailable},
		"another one was first":             {apierrors.NewConflict(runs, "r", errors.New("modified")), sharedstorage.RunStoreAvailable},
	} {
		wrapped := runstore.StoreUnavailable.Errorf("creating run r: %w", q.err)
		if got := ClassifyRunError(fmt.Errorf("starting: %w", wrapped)); got != q.want {
			t.Errorf("%s: %d, want %d", name, got, q.want)
		}
	}
}
