// Package workload lets a rollout drive the workloads of Kubernetes: Deployment, StatefulSet, and
// OpenKruise's CloneSet and Advanced StatefulSet, without the Go types of OpenKruise.
//
//	w := &workload.Workload{
//		Client:  c,
//		Rollout: workload.Identity{Namespace: "default", Name: "etcd", UID: uid},
//		Target:  workload.Ref{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "etcd"},
//	}
//	facts, err := w.Observe(ctx)
//	d := rollout.Next(plan, position, facts, time.Now())
//	for _, act := range d.Acts {
//		err = w.Apply(ctx, act)
//	}
//
// Observe believes pods: their revision is their label, never a counter of the status. Apply is one
// patch that tests UID and generation, or UID and resourceVersion where it changes owners and labels.
// A workload that Observe reads from a cache may be older than the last Apply; the tests of the patch
// refuse what was decided on it.
package workload

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/rollout"
)

// FieldOwner is the manager of the fields that Apply writes.
const FieldOwner = "pawl"

// Labels on a workload that a Rollout refers to. They stand on the object, never in its template.
const (
	RolloutLabel = "pawl.dev/rollout" // the name of the Rollout
	HeldLabel    = "pawl.dev/held"    // "true" as long as Pawl holds the workload
)

// Labels on a workload that an Application has made.
const (
	ApplicationLabel = "pawl.dev/application" // its name
	ComponentLabel   = "pawl.dev/component"   // the name of the component
)

// AnchorName is the ConfigMap that keeps a claimed workload alive when the Rollout is deleted in the
// foreground. Nobody owns it; one is in each namespace with rollouts.
const AnchorName = "pawl-anchor"

// Ref names a workload in the namespace of the Rollout.
type Ref struct {
	APIVersion string
	Kind       string
	Name       string
}

// Identity is the Rollout that claims workloads. All fields are required.
type Identity struct {
	Namespace  string
	Name       string
	UID        types.UID
	APIVersion string // default pawl.dev/v1alpha1
	Kind       string // default Rollout
}

// Workload is the target of one Rollout, and the Deployments that it leaves. It implements
// rollout.Workload.
type Workload struct {
	// Client reads objects and pods, from a cache or not, and writes.
	Client client.Client
	// Live reads past the cache. Default: Client. It proves that an owner does not exist any more.
	Live client.Reader
	// Rollout is the owner.
	Rollout Identity
	Target  Ref
	// Sources are the old Deployments of a Deployment rollout, the oldest first.
	Sources []Ref
	// Templates are the pod templates of named revisions, those of an Application. Observe tells by
	// them which revision the template is, the first that fits; Act.Template may be one of their names.
	Templates *Templates
	// RevisionCache keeps between observations which revision the template of the target has. nil: each
	// observation compares it with all revisions.
	RevisionCache *RevisionCache
	// ZoneKey is the label with the zone of a pod. Default topology.kubernetes.io/zone.
	ZoneKey string
	// RoleLabel is the label with the role of a pod; empty: pods have no role.
	RoleLabel string
}

var _ rollout.Workload = (*Workload)(nil)

func (i Identity) apiVersion() string {
	if i.APIVersion == "" {
		return "pawl.dev/v1alpha1"
	}
	return i.APIVersion
}

func (i Identity) kind() string {
	if i.Kind == "" {
		return "Rollout"
	}
	return i.Kind
}

func (w *Workload) live() client.Reader {
	if w.Live != nil {
		return w.Live
	}
	return w.Client
}

// read returns a workload with its layout; nil without an error: it does not exist.
func (w *Workload) read(ctx context.Context, from client.Reader, ref Ref) (*unstructured.Unstructured, layout, error) {
	l, err := layoutOf(ref.APIVersion, ref.Kind)
	if err != nil {
		return nil, l, err
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(l.resource)
	err = from.Get(ctx, client.ObjectKey{Namespace: w.Rollout.Namespace, Name: ref.Name}, o)
	switch {
	case meta.IsNoMatchError(err), apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) && apierrors.IsNotFound(err): // its definition was removed
		return nil, l, rollout.KindNotServed.Errorf("%s of %s: %w", ref.Kind, ref.APIVersion, err)
	case apierrors.IsNotFound(err):
		return nil, l, nil
	case err != nil:
		return nil, l, controller.Fault(fmt.Errorf("%s %s: %w", ref.Kind, ref.Name, err))
	}
	return o, l, nil
}

// Refs are the target and its sources.
func (w *Workload) Refs() []Ref { return append([]Ref{w.Target}, w.Sources...) }

// Read returns the object of a workload; nil without an error: it does not exist. The fault is
// KIND_NOT_SERVED for a kind without its CRD.
func (w *Workload) Read(ctx context.Context, ref Ref) (*unstructured.Unstructured, error) {
	o, _, err := w.read(ctx, w.Client, ref)
	return o, err
}
