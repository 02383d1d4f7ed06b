package application

import (
	"context"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/kube/workload"
)

// Kind is the kind of the objects of this operator.
const Kind = "Application"

// GroupVersionKind is that of Applications.
var GroupVersionKind = api.GroupVersion.WithKind(Kind)

// Finalizer stays on an Application until its deletion is decided: what goes with it, and what stays.
const Finalizer = "pawl.dev/application"

// FieldOwner is the manager of the fields that this operator applies.
const FieldOwner = "pawl-application"

// Options of the operator. Manager is required; its scheme needs AddToScheme.
type Options struct {
	Manager *controller.Manager
	// Name of the operator: it serves the Applications whose spec.operatorName is this. Empty: all.
	Name string
	// Workers is the number of Applications that are worked on at once. 0: controller.DefaultWorkers.
	Workers int
	// Now is the clock. nil: time.Now.
	Now func() time.Time
}

// Operator serves Applications.
type Operator struct {
	name    string
	workers int
	now     func() time.Time
	manager *controller.Manager
	cache   *controller.Cache
	store   *controller.Store[*api.Application]
	events  controller.Events
	metrics *metrics

	mu      sync.Mutex
	applied map[types.NamespacedName]map[workload.Ref]applied
}

// AddToScheme adds the kinds that the operator reads and writes.
func AddToScheme(s *runtime.Scheme) error {
	if err := api.AddToScheme(s); err != nil {
		return err
	}
	return appsv1.AddToScheme(s)
}

// New makes the operator and its cache.
func New(o Options) (*Operator, error) {
	op := &Operator{name: o.Name, workers: o.Workers, now: o.Now, manager: o.Manager, applied: map[types.NamespacedName]map[workload.Ref]applied{}}
	if op.now == nil {
		op.now = time.Now
	}
	ours, err := labels.NewRequirement(workload.ApplicationLabel, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	op.cache, err = o.Manager.NewCache(controller.CacheOptions{
		Labels:   labels.NewSelector().Add(*ours),
		ByObject: map[client.Object]cache.ByObject{&api.Application{}: {Label: labels.Everything()}},
	})
	if err != nil {
		return nil, err
	}
	op.store = &controller.Store[*api.Application]{
		Client: op.cache.Client(), Live: o.Manager.Live(), New: func() *api.Application { return &api.Application{} }, Finalizer: Finalizer,
	}
	op.events = o.Manager.Events("application")
	op.metrics, err = newMetrics(o.Manager.Metrics())
	return op, err
}

// Setup adds the controller of Applications to the manager.
func (o *Operator) Setup() error {
	watches := []controller.Watch{
		{Object: &api.Rollout{}, Keys: labelledApplication},
		{Object: &api.ApplicationRevision{}, Keys: labelledApplication},
	}
	for _, kind := range workload.Kinds() {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(kind)
		watches = append(watches, controller.Watch{Object: obj, Optional: kind.Group != appsv1.GroupName, Keys: labelledApplication})
	}
	return controller.Setup(o.manager, controller.Controller[*api.Application]{
		Name: "application", For: &api.Application{}, Cache: o.cache, Reconcile: o.Reconcile, Workers: o.workers, MaxRetries: controller.Unlimited,
		Conditions: func(a *api.Application) *[]metav1.Condition { return &a.Status.Conditions }, Condition: Ready, Watches: watches,
	})
}

func labelledApplication(_ context.Context, obj client.Object) []types.NamespacedName {
	name := obj.GetLabels()[workload.ApplicationLabel]
	if name == "" {
		return nil
	}
	return []types.NamespacedName{{Namespace: obj.GetNamespace(), Name: name}}
}

// serves reports whether an Application is for this operator.
func (o *Operator) serves(a *api.Application) bool {
	return o.name == "" || a.Spec.OperatorName == o.name
}

// appliedOf is what this process has applied for an Application: it saves a request where nothing has
// changed. One pass works with it at a time.
func (o *Operator) appliedOf(key types.NamespacedName) map[workload.Ref]applied {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.applied[key]
	if m == nil {
		m = map[workload.Ref]applied{}
		o.applied[key] = m
	}
	return m
}

func (o *Operator) forget(key types.NamespacedName) {
	o.metrics.stands(key, "")
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.applied, key)
}

// ownedBy reports whether an object is owned by an Application, plainly or not.
func ownedBy(o metav1.Object, a *api.Application) bool {
	for _, ref := range o.GetOwnerReferences() {
		if ref.UID == a.UID {
			return true
		}
	}
	return false
}

// owner is the reference of what an Application owns.
func owner(a *api.Application) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: api.GroupVersion.String(), Kind: Kind, Name: a.Name, UID: a.UID}
}

func limitOf(a *api.Application) int {
	if a.Spec.RevisionHistoryLimit != nil {
		return int(*a.Spec.RevisionHistoryLimit)
	}
	return defaultHistoryLimit
}
