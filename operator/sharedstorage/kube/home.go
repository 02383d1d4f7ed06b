package kube

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

var clusterKind = v1alpha1.GroupVersion.WithKind(sharedstorage.Kind)

// unserved holds for a kind without a CRD.
func unserved(err error) bool {
	return apimeta.IsNoMatchError(err) || fault.Of(err) == controller.KindMissing || apierrors.IsNotFound(err)
}

// ClusterStore keeps clusters as SharedStorageCluster objects.
type ClusterStore struct {
	objects
	Site *Site // whose images are meant by a version; nil: a version is what the spec says
}

var _ sharedstorage.ClusterStore = &ClusterStore{}

// NewClusterStore makes a Home that reads from a cache, and from the API server what
// this process has written and the cache has not seen yet.
func NewClusterStore(cached client.Client, live client.Reader) *ClusterStore {
	return &ClusterStore{objects: objects{client: cached, live: live, written: map[string]uint64{}}}
}

// objects reads and writes objects of one kind.
type objects struct {
	client client.Client
	live   client.Reader

	mu      sync.Mutex
	written map[string]uint64 // newest version by namespace/name, of this process
}

// load reads an object into obj, no older than what was written from here.
func load[T client.Object](ctx context.Context, o *objects, ref port.Ref, fresh func() T) (*controller.Draft[T], error) {
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	draft, err := controller.Load(ctx, o.client, o.client, key, fresh())
	o.mu.Lock()
	newest := o.written[key.String()]
	if errors.Is(err, control.NotFound) || err == nil && versionOf(draft.Object) >= newest {
		delete(o.written, key.String())
		newest = 0
	}
	o.mu.Unlock()
	if newest == 0 {
		return draft, err
	}
	return controller.Load(ctx, o.live, o.client, key, fresh())
}

// wrote remembers what was written.
func (o *objects) wrote(obj client.Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.written[client.ObjectKeyFromObject(obj).String()] = versionOf(obj)
}

// versionOf is a resourceVersion, which counts up.
func versionOf(obj client.Object) uint64 {
	n, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return math.MaxUint64
	}
	return n
}

// kept is an object as it was read, and the draft of its status.
type kept[T client.Object] struct{ draft *controller.Draft[T] }

// Load implements sharedstorage.Home.
func (h *ClusterStore) Load(ctx context.Context, ref port.Ref) (*sharedstorage.Cluster, error) {
	draft, err := load(ctx, &h.objects, ref, func() *v1alpha1.SharedStorageCluster { return &v1alpha1.SharedStorageCluster{} })
	if err != nil {
		return nil, err
	}
	obj := draft.Object
	c := clusterOf(obj)
	obj.Spec.DeepCopyInto(&c.Spec)
	obj.Status.DeepCopyInto(&c.Status)
	c.Spec.Engine.Version = h.Site.version(&c.Spec, c.Status.Version)
	c.Version = &kept[*v1alpha1.SharedStorageCluster]{draft}
	return c, nil
}

// clusterOf is what all kinds of clusters say in their metadata.
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

// Save implements sharedstorage.Home. A finalizer is there before what needs it,
// and goes after everything else.
func (h *ClusterStore) Save(ctx context.Context, c *sharedstorage.Cluster) error {
	k, ok := c.Version.(*kept[*v1alpha1.SharedStorageCluster])
	if !ok {
		return fmt.Errorf("kube: cluster %s was not loaded from here", c.Ref)
	}
	return save(ctx, &h.objects, c, k, func(obj *v1alpha1.SharedStorageCluster) error { c.Status.DeepCopyInto(&obj.Status); return nil })
}

func save[T client.Object](ctx context.Context, o *objects, c *sharedstorage.Cluster, k *kept[T], fill func(T) error) error {
	obj := k.draft.Object
	defer o.wrote(obj)
	if c.Finalized {
		before := obj.DeepCopyObject().(T)
		if err := controller.Finalize(ctx, o.client, before, sharedstorage.Finalizer); err != nil {
			return controller.Fault(err)
		}
		obj.SetFinalizers(before.GetFinalizers())
		obj.SetResourceVersion(before.GetResourceVersion())
	}
	if err := fill(obj); err != nil {
		return err
	}
	if err := o.write(ctx, k.draft.Save, func() (bool, error) { return k.draft.Rebase(ctx, o.live, ours) }); err != nil {
		return err
	}
	if !c.Finalized {
		return controller.Fault(controller.Release(ctx, o.client, obj, sharedstorage.Finalizer))
	}
	return nil
}

// rebases is how often a status is written anew that met edits which are none of
// our business: a tool that never rests must not keep a cluster from moving.
const rebases = 8

func (o *objects) write(ctx context.Context, save func(context.Context) (bool, error), rebase func() (bool, error)) error {
	for try := 0; ; try++ {
		_, err := save(ctx)
		if err == nil || !errors.Is(err, fault.WriteConflict) || try == rebases {
			return controller.Fault(err)
		}
		if same, failed := rebase(); failed != nil || !same {
			return controller.Fault(err)
		}
	}
}

// ours reports an annotation that may ask something of us: those of PolarDB Stack
// have no domain.
func ours(annotation string) bool {
	domain, _, qualified := strings.Cut(annotation, "/")
	return !qualified || domain == "pawl.dev" || strings.HasSuffix(domain, ".pawl.dev")
}

// Annotate implements sharedstorage.Home.
func (h *ClusterStore) Annotate(ctx context.Context, c *sharedstorage.Cluster, key, from, to string) error {
	k, ok := c.Version.(*kept[*v1alpha1.SharedStorageCluster])
	if !ok {
		return fmt.Errorf("kube: cluster %s was not loaded from here", c.Ref)
	}
	return annotate(ctx, &h.objects, c, k, key, from, to)
}

func annotate[T client.Object](ctx context.Context, o *objects, c *sharedstorage.Cluster, k *kept[T], key, from, value string) error {
	if err := controller.Annotate(ctx, o.client, k.draft.Object, key, from, value); err != nil {
		return err
	}
	o.wrote(k.draft.Object)
	draft, err := controller.NewDraft(o.client, k.draft.Object)
	if err != nil {
		return err
	}
	k.draft = draft
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	if c.Annotations[key] = value; value == "" {
		delete(c.Annotations, key)
	}
	return nil
}

// Classes implements sharedstorage.Home.
func (h *ClusterStore) Classes(ctx context.Context, namespace string) (map[string]port.Class, error) {
	return classes(ctx, h.client, namespace)
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
