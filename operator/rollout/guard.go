package rollout

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/kube/workload"
)

// DefaultGuard is the name of the MutatingAdmissionPolicy of install.yaml, and of its binding.
const DefaultGuard = "pawl-rollout-guard"

// UnguardedAnnotation on a workload switches the admission rule off for it. Its value is the reason.
const UnguardedAnnotation = "pawl.dev/unguarded"

// workloadOwner is the field owner of what the operator writes beside status.
const workloadOwner = workload.FieldOwner

// guardFor is how long it is believed whether the admission rule is installed.
const guardFor = time.Minute

// guard knows whether the admission rule that protects held workloads is installed.
type guard struct {
	live client.Reader
	name string
	now  func() time.Time

	mu        sync.Mutex
	installed bool
	asked     time.Time
}

var guardKind = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicyBinding"}

// stands reports whether the rule and its binding are there; it asks the API server once a minute.
func (g *guard) stands(ctx context.Context) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.asked.IsZero() && g.now().Sub(g.asked) < guardFor {
		return g.installed, nil
	}
	binding := &metav1.PartialObjectMetadata{}
	binding.SetGroupVersionKind(guardKind)
	err := g.live.Get(ctx, client.ObjectKey{Name: g.name}, binding)
	switch {
	case err == nil:
		g.installed = true
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err), apierrors.IsForbidden(err):
		g.installed = false
	default:
		return false, controller.Fault(err)
	}
	g.asked = g.now()
	return g.installed, nil
}
