package kube

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	mpd "github.com/pawl-dev/pawl/kube/api/mpd/v1"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

// Scheme returns a scheme with all kinds that the operator reads and writes.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(corev1.AddToScheme(s), appsv1.AddToScheme(s), policyv1.AddToScheme(s), rbacv1.AddToScheme(s), coordinationv1.AddToScheme(s), v1alpha1.AddToScheme(s), mpd.AddToScheme(s))
}

// clusterSelector selects the objects of clusters.
func clusterSelector() (labels.Selector, error) {
	ours, err := labels.NewRequirement(ClusterLabel, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	return labels.NewSelector().Add(*ours), nil
}

// NewCache adds the cache of this operator to a manager. It holds the cluster objects, and of
// other kinds only objects of clusters.
func NewCache(m *controller.Manager) (*controller.Cache, error) {
	selected, err := clusterSelector()
	if err != nil {
		return nil, err
	}
	return m.NewCache(controller.CacheOptions{ByObject: map[client.Object]cache.ByObject{
		&corev1.Pod{}:                   {Label: selected},
		&corev1.PersistentVolumeClaim{}: {Label: selected},
		&appsv1.Deployment{}:            {Label: selected},
		&corev1.ConfigMap{}:             {Field: fields.OneTermEqualSelector("metadata.name", sharedstorage.ClassesName)},
	}})
}

// Controllers adds the controllers of this operator to a manager.
type Controllers struct {
	Manager   *controller.Manager
	Cache     *controller.Cache       // of NewCache
	Operator  *sharedstorage.Operator // with the stores and ports of this package, bound to the engine
	Name      string                  // of the operator, as in sharedstorage.Options
	Placement *Placement
	Engine    *workflow.Engine
	Workers   int // objects of a kind in work at once; 0: controller.DefaultWorkers
}

// Setup adds the controller of SharedStorageClusters to the manager.
func (c Controllers) Setup() error {
	runs, err := controller.RunsOf(c.Engine)
	if err != nil {
		return err
	}
	var requests []string
	for _, kind := range sharedstorage.Requests {
		requests = append(requests, sharedstorage.Prefix+kind)
	}
	watches, err := c.Placement.watches(c.Manager, sharedstorage.Kind)
	if err != nil {
		return err
	}
	mine := func(o *v1alpha1.SharedStorageCluster) bool { return c.Name == "" || o.Spec.OperatorName == c.Name }
	return controller.Setup(c.Manager, controller.Controller[*v1alpha1.SharedStorageCluster]{
		Name: "sharedstorage", For: &v1alpha1.SharedStorageCluster{}, AcceptsRequests: mine, Cache: c.Cache,
		Reconcile:  restoring(c.Cache, c.Placement, c.Manager.Events("sharedstorage"), func() *v1alpha1.SharedStorageCluster { return &v1alpha1.SharedStorageCluster{} }, mine, c.Operator.Reconcile),
		Conditions: func(o *v1alpha1.SharedStorageCluster) *[]metav1.Condition { return &o.Status.Conditions },
		Runs:       runs, LastRequest: func(o *v1alpha1.SharedStorageCluster) **v1alpha1.RunRequest { return &o.Status.LastRequest },
		Requests: requests, Signals: c.Operator.Listen, Workers: c.Workers,
		Owns:    []client.Object{&corev1.Pod{}, &appsv1.Deployment{}},
		Watches: append(watches, editedClasses(c.Cache, func() client.ObjectList { return &v1alpha1.SharedStorageClusterList{} })),
	})
}

// restoring makes a pass over a cluster after restoring its missing objects and pods. It restores
// nothing of a cluster that is being deleted or belongs to another operator.
func restoring[T client.Object](from client.Reader, placement *Placement, events controller.Events, fresh func() T, mine func(T) bool, pass func(context.Context, control.Ref) outcome.Outcome) func(context.Context, control.Ref) outcome.Outcome {
	return func(ctx context.Context, ref control.Ref) outcome.Outcome {
		obj := fresh()
		err := from.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, obj)
		if err == nil && obj.GetDeletionTimestamp() == nil && mine(obj) {
			c := port.Ref{Namespace: ref.Namespace, Name: ref.Name, UID: string(obj.GetUID())}
			report := placement.restoreReporter(events, obj)
			if err := placement.Restore(ctx, c, report); err != nil {
				placement.o.Log.Warn("the objects of a cluster could not be restored", "cluster", c.String(), "error", err)
			}
			if err := placement.Revive(ctx, c, report); err != nil {
				placement.o.Log.Warn("the pods of a cluster could not be created again", "cluster", c.String(), "error", err)
			}
		}
		return pass(ctx, ref)
	}
}

// ClassifyRunError is for sharedstorage.Options.ClassifyRunError: it recognizes the errors of an
// API server that cannot store runs.
func ClassifyRunError(err error) sharedstorage.RunStoreState {
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return sharedstorage.RunStoreTerminating
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), unserved(err): // no CRD, permission or quota
		return sharedstorage.RunStoreMissing
	}
	return sharedstorage.RunStoreAvailable
}

// EventWriter returns a function that writes Kubernetes Events of a cluster.
func EventWriter(events controller.Events) func(*sharedstorage.Cluster, sharedstorage.Event) {
	return func(c *sharedstorage.Cluster, e sharedstorage.Event) {
		var about runtime.Object
		switch k := c.Version.(type) {
		case *controller.Draft[*v1alpha1.SharedStorageCluster]:
			about = k.Object
		case *controller.Draft[*mpd.MPDCluster]:
			about = k.Object
		default:
			return
		}
		if e.Reason == sharedstorage.DataNotKept { // a namespace that is being deleted rejects Events
			about = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Ref.Namespace}}
		}
		if e.Warning {
			events.Warn(about, e.Reason, "%s", e.Message)
		} else {
			events.Normal(about, e.Reason, "%s", e.Message)
		}
	}
}
