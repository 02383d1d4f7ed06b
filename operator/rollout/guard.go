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
	"github.com/pawl-dev/pawl/rollout"
)

// DefaultGuard is the name of the MutatingAdmissionPolicy of install.yaml for StatefulSets, and of its
// binding; those for other kinds begin with it.
const DefaultGuard = "pawl-rollout-guard"

// guardRules are how the admission rules of a kind are named after that for StatefulSets. All of them
// must stand: a CloneSet may be written in either version. No rule holds a Deployment, as it has no
// partition.
var guardRules = map[rollout.Kind][]string{
	rollout.StatefulSet:         {""},
	rollout.AdvancedStatefulSet: {"-advancedstatefulsets"},
	rollout.CloneSet:            {"-clonesets", "-clonesets-v1beta1"},
}

// UnguardedAnnotation on a workload switches the admission rule off for it. Its value is the reason.
const UnguardedAnnotation = "pawl.dev/unguarded"

// workloadOwner is the field owner of what the operator writes beside status.
const workloadOwner = workload.FieldOwner

// guardFor is how long it is believed whether the admission rule is installed.
const guardFor = time.Minute

// guard knows whether the admission rules that protect held workloads are installed.
type guard struct {
	live client.Reader
	name string
	now  func() time.Time

	mu    sync.Mutex
	known map[string]standingRule // by name
}

// standingRule is what the API server has said of one rule.
type standingRule struct {
	installed bool
	asked     time.Time
}

var guardKind = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicyBinding"}

// stands reports whether the rules for a kind are there; it asks the API server once a minute.
func (g *guard) stands(ctx context.Context, kind rollout.Kind) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, suffix := range guardRules[kind] {
		if there, err := g.bound(ctx, g.name+suffix); err != nil || !there {
			return false, err
		}
	}
	return len(guardRules[kind]) > 0, nil
}

// bound reports whether a rule is in force. The caller holds the lock.
func (g *guard) bound(ctx context.Context, name string) (bool, error) {
	if is, ok := g.known[name]; ok && g.now().Sub(is.asked) < guardFor {
		return is.installed, nil
	}
	there, err := bindingStands(ctx, g.live, name)
	if err != nil && !apierrors.IsForbidden(err) {
		return false, controller.Fault(err)
	}
	if g.known == nil {
		g.known = map[string]standingRule{}
	}
	g.known[name] = standingRule{installed: there, asked: g.now()}
	return there, nil
}

// bindingStands reports whether a binding of an admission rule exists.
func bindingStands(ctx context.Context, c client.Reader, name string) (bool, error) {
	binding := &metav1.PartialObjectMetadata{}
	binding.SetGroupVersionKind(guardKind)
	err := c.Get(ctx, client.ObjectKey{Name: name}, binding)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}
