package rollout

import (
	"context"
	"math"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fault"
)

func addApps(s *runtime.Scheme) error { return appsv1.AddToScheme(s) }

// reader is the client of one pass. It reads workloads from the cache unless that is behind a write of
// this process, and pods and revisions from the watch of what moves, or from the API server at rest.
type reader struct {
	client.Client               // of the cache
	cached        client.Reader // reads unstructured objects too
	live          client.Reader
	dependents    map[string]client.Reader // of what moves, by selector
	memory        *memory
	now           func() time.Time
	fresh         bool // nothing is read from caches
}

// Get implements client.Reader.
func (r *reader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return r.Client.Get(ctx, key, obj, options...)
	}
	if r.fresh {
		return r.live.Get(ctx, key, o, options...)
	}
	err := r.cached.Get(ctx, key, o, options...)
	switch {
	case apierrors.IsNotFound(err): // it has no label yet, or somebody took it away
	case err != nil:
		return err
	case version(o) >= r.memory.written[o.GetUID()]:
		delete(r.memory.written, o.GetUID())
		return nil
	case r.now().Sub(r.memory.acted) < maxBehind: // its event comes
		return fault.WriteConflict.Errorf("the cache does not have the last write to %s %s yet", o.GetKind(), o.GetName())
	}
	return r.live.Get(ctx, key, o, options...)
}

// List implements client.Reader.
func (r *reader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch list.(type) {
	case *corev1.PodList, *appsv1.ControllerRevisionList, *appsv1.ReplicaSetList:
		var of client.ListOptions
		if of.ApplyOptions(options); of.LabelSelector != nil && !r.fresh {
			if watched := r.dependents[of.LabelSelector.String()]; watched != nil {
				return watched.List(ctx, list, options...)
			}
		}
		return r.live.List(ctx, list, options...)
	}
	return r.Client.List(ctx, list, options...)
}

// Patch implements client.Writer. It remembers the version of the workload.
func (r *reader) Patch(ctx context.Context, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
	err := r.Client.Patch(ctx, obj, patch, options...)
	var of client.PatchOptions
	of.ApplyOptions(options)
	if o, ok := obj.(*unstructured.Unstructured); ok && err == nil && of.DryRun == nil {
		r.memory.written[o.GetUID()], r.memory.acted = version(o), r.now()
	}
	return err
}

// version reads a resourceVersion, which counts up.
func version(obj client.Object) uint64 {
	n, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return math.MaxUint64
	}
	return n
}
