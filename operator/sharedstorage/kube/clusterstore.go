package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// ClusterKind is the kind of the objects of this operator.
var ClusterKind = v1alpha1.GroupVersion.WithKind(sharedstorage.Kind)

// unserved reports the error of a kind without a CRD.
func unserved(err error) bool {
	return apimeta.IsNoMatchError(err) || fault.Of(err) == controller.KindMissing || apierrors.IsNotFound(err)
}

// ClusterStore stores clusters as SharedStorageCluster objects.
type ClusterStore struct {
	objects   *controller.Store[*v1alpha1.SharedStorageCluster]
	Placement *Placement // its images resolve spec.engine.version; nil: the spec's version is used as it is
}

var _ sharedstorage.ClusterStore = &ClusterStore{}

// NewClusterStore returns a ClusterStore that reads from a cache. What this process has written
// and the cache does not have yet, it reads from the API server.
func NewClusterStore(cached client.Client, live client.Reader) *ClusterStore {
	return &ClusterStore{objects: newObjects(cached, live, func() *v1alpha1.SharedStorageCluster { return &v1alpha1.SharedStorageCluster{} })}
}

func newObjects[T client.Object](cached client.Client, live client.Reader, fresh func() T) *controller.Store[T] {
	return &controller.Store[T]{Client: cached, Live: live, New: fresh, Finalizer: sharedstorage.Finalizer, Matters: ours}
}

// draftOf returns the draft with which a cluster was loaded.
func draftOf[T client.Object](c *sharedstorage.Cluster) (*controller.Draft[T], error) {
	draft, ok := c.Version.(*controller.Draft[T])
	if !ok {
		return nil, fmt.Errorf("kube: cluster %s was not loaded from here", c.Ref)
	}
	return draft, nil
}

// Load implements sharedstorage.ClusterStore.
func (h *ClusterStore) Load(ctx context.Context, ref port.Ref) (*sharedstorage.Cluster, error) {
	draft, err := h.objects.Load(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name})
	if err != nil {
		return nil, err
	}
	obj := draft.Object
	c := clusterOf(obj)
	obj.Spec.DeepCopyInto(&c.Spec)
	obj.Status.DeepCopyInto(&c.Status)
	c.Spec.Engine.Version = h.Placement.version(&c.Spec, c.Status.Version)
	c.Version = draft
	return c, nil
}

// clusterOf returns a cluster with the metadata of an object of any kind.
func clusterOf(obj client.Object) *sharedstorage.Cluster {
	c := &sharedstorage.Cluster{
		Ref:        port.Ref{Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: string(obj.GetUID())},
		Generation: obj.GetGeneration(), CreatedAt: obj.GetCreationTimestamp().Time, Annotations: map[string]string{},
		Finalized: slices.Contains(obj.GetFinalizers(), sharedstorage.Finalizer),
	}
	for key, value := range obj.GetAnnotations() {
		c.Annotations[key] = value
	}
	if at := obj.GetDeletionTimestamp(); at != nil {
		c.DeletedAt = at.Time
	}
	return c
}

// Save implements sharedstorage.ClusterStore.
func (h *ClusterStore) Save(ctx context.Context, c *sharedstorage.Cluster) error {
	draft, err := draftOf[*v1alpha1.SharedStorageCluster](c)
	if err != nil {
		return err
	}
	c.Status.Selector = ClusterLabel + "=" + c.Ref.Name + "," + RoleLabel + "=" + string(port.Reader)
	c.Status.DeepCopyInto(&draft.Object.Status)
	return h.objects.Save(ctx, draft, c.Finalized)
}

// ours reports whether an annotation may be a request to this operator. The annotations of PolarDB
// Stack have no domain.
func ours(annotation string) bool {
	domain, _, qualified := strings.Cut(annotation, "/")
	return !qualified || domain == "pawl.dev" || strings.HasSuffix(domain, ".pawl.dev")
}

// Annotate implements sharedstorage.ClusterStore.
func (h *ClusterStore) Annotate(ctx context.Context, c *sharedstorage.Cluster, key, from, to string) error {
	draft, err := draftOf[*v1alpha1.SharedStorageCluster](c)
	if err != nil {
		return err
	}
	return annotate(ctx, h.objects, draft, c, key, from, to)
}

func annotate[T client.Object](ctx context.Context, objects *controller.Store[T], draft *controller.Draft[T], c *sharedstorage.Cluster, key, from, value string) error {
	if err := objects.Annotate(ctx, draft, key, from, value); err != nil {
		return err
	}
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	if c.Annotations[key] = value; value == "" {
		delete(c.Annotations, key)
	}
	return nil
}

// Classes implements sharedstorage.ClusterStore.
func (h *ClusterStore) Classes(ctx context.Context, namespace string) (map[string]port.Class, error) {
	return classes(ctx, h.objects.Client, namespace)
}

func classes(ctx context.Context, from client.Reader, namespace string) (map[string]port.Class, error) {
	list := &corev1.ConfigMap{}
	err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: sharedstorage.ClassesName}, list)
	if apierrors.IsNotFound(err) {
		return sharedstorage.DefaultClasses(), nil
	}
	if err != nil {
		return nil, err
	}
	return sharedstorage.ParseClasses(list.Data)
}
