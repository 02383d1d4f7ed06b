package controller

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/outcome"
)

// DefaultWorkers is the number of objects that are reconciled concurrently.
const DefaultWorkers = 26

// Controller is a controller of objects of one kind. For and Reconcile are required.
type Controller[T client.Object] struct {
	// Name in logs, metrics and Events: a DNS label. Default: the kind in lower case.
	Name string
	// For is an empty object of the main kind.
	For T
	// Reconcile makes one pass over an object. It may be called at any time. See
	// control.Controller for the meaning of its outcome.
	Reconcile func(ctx context.Context, ref control.Ref) outcome.Outcome
	// Conditions returns the conditions in the status. nil: when an object is given up,
	// only an Event and a metric report it.
	Conditions func(T) *[]metav1.Condition
	// Condition is the type of the condition that becomes False with the reason
	// RetriesExhausted when an object is given up. Default: Progressing. The first pass
	// that does not fail replaces it: by its own write, or else from its outcome.
	Condition string
	// GivenUp is called after an object was given up and that was written. err is
	// RETRIES_EXHAUSTED and wraps the last failure. nil: no call.
	GivenUp func(ref control.Ref, err error)

	// Runs are the runs that annotations of an object control, such as pawl.dev/pause:
	// see RunsOf. A refused request becomes an Event. nil: such annotations are ignored.
	Runs *Runs
	// LastRequest returns the field of the status for the answer to the newest request.
	// nil: the answer is not stored.
	LastRequest func(T) **v1alpha1.RunRequest
	// AcceptsRequests selects the objects whose annotations are requests. nil: all.
	Mine func(T) bool

	// Requests are further annotations that carry requests: see DesiredChanged.
	Requests []string
	// ExtraUpdates selects further changes of an object that trigger its controller.
	// nil: none.
	Also func(old, now T) bool
	// Owns are kinds whose objects trigger the object that controls them, at every change.
	Owns []client.Object
	// Watches are other objects that trigger the controller.
	Watches []Watch
	// Signals triggers the controller for objects that it adds. It is called once, in a
	// goroutine of its own, and must return when its context ends. Objects of other
	// kinds are ignored.
	Signals func(ctx context.Context, add func(control.Ref))

	Workers    int // 0: DefaultWorkers
	MaxRetries int // retries in a row until an object is given up; 0: control.DefaultMaxRetries; less: none
}

// Watch triggers the controller for changes of related objects.
type Watch struct {
	Object client.Object
	// Cache is a cache of Manager.AddCache. nil: the cache of the manager.
	From cache.Cache
	// Keys returns the objects of the main kind that are affected by a change of this
	// object. It is called with the old and with the new object.
	Of func(ctx context.Context, obj client.Object) []types.NamespacedName
	// When selects the events. nil: all.
	When predicate.Predicate
}

// Setup adds a controller to a manager.
//
// Changes of the main kind trigger it as DesiredChanged says. Failures are retried after
// 5 ms × 2ⁿ, at most 5 min, with at most 50 retries per second (300 at once) for all its
// objects. Only the leader reconciles; other processes fill their caches too.
func Setup[T client.Object](m *Manager, c Controller[T]) error {
	if c.Reconcile == nil || reflect.ValueOf(&c.For).Elem().IsZero() {
		return fmt.Errorf("controller %q: set its For and Reconcile", c.Name)
	}
	gvk, err := apiutil.GVKForObject(c.For, m.GetScheme())
	if err != nil {
		return fmt.Errorf("controller %q: %w", c.Name, err)
	}
	c.Name = cmp.Or(c.Name, strings.ToLower(gvk.Kind))
	w := &worker[T]{
		name: c.Name, kind: gvk.Kind, reconcile: c.Reconcile,
		conditions: c.Conditions, condition: cmp.Or(c.Condition, Progressing), givenUp: c.GivenUp,
		cached: m.GetCache(), live: m.Live(), client: m.GetClient(),
		fresh:  func() T { return c.For.DeepCopyObject().(T) },
		passes: m.passes, retries: newRetries(cmp.Or(c.MaxRetries, control.DefaultMaxRetries)),
		runs: c.Runs, last: c.LastRequest, mine: c.Mine,
		events: m.Events(c.Name), metrics: m.metrics, log: m.log, now: time.Now,
	}
	yes, no := true, false
	inner, err := controller.New(c.Name, m.Manager, controller.Options{
		Reconciler:              w,
		MaxConcurrentReconciles: max(cmp.Or(c.Workers, DefaultWorkers), 1),
		NeedLeaderElection:      &yes,
		EnableWarmup:            &yes,                                                                                             // fill the caches before the election
		UsePriorityQueue:        &yes,                                                                                             // a key has one delay, which the next pass clears
		SkipNameValidation:      &yes,                                                                                             // names are unique in a manager, not in a process
		RecoverPanic:            &no,                                                                                              // the worker recovers and makes a fault of it
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, longestRetry), // unused: see worker.Reconcile
		Logger:                  logr.FromSlogHandler(m.log.Handler()),
	})
	if err != nil {
		return fmt.Errorf("controller %s: %w", c.Name, err)
	}
	m.kinds = append(m.kinds, gvk)
	for _, other := range c.others() {
		kind, err := apiutil.GVKForObject(other, m.GetScheme())
		if err != nil {
			return fmt.Errorf("controller %s: %w", c.Name, err)
		}
		m.kinds = append(m.kinds, kind)
	}
	for _, s := range c.sources(m, gvk.Kind) {
		if syncing, ok := s.(source.SyncingSource); ok {
			m.filling.Add(1)
			s = &filled{SyncingSource: syncing, left: &m.filling}
		}
		if err := inner.Watch(s); err != nil {
			return fmt.Errorf("controller %s: %w", c.Name, err)
		}
	}
	return nil
}

// others returns the objects of other kinds that trigger the controller.
func (c Controller[T]) others() []client.Object {
	all := slices.Clone(c.Owns)
	for _, watch := range c.Watches {
		all = append(all, watch.Object)
	}
	return all
}

func (c Controller[T]) sources(m *Manager, kind string) []source.Source {
	wakes := Asked(c.Requests...)
	if c.Also != nil {
		wakes = predicate.Or(wakes, alsoOf(c.Also))
	}
	all := []source.Source{source.Kind(m.GetCache(), client.Object(c.For), &handler.EnqueueRequestForObject{}, wakes)}
	for _, owned := range c.Owns {
		all = append(all, source.Kind(m.GetCache(), owned,
			handler.EnqueueRequestForOwner(m.GetScheme(), m.GetRESTMapper(), c.For, handler.OnlyControllerOwner()),
			predicate.Predicate(predicate.ResourceVersionChangedPredicate{})))
	}
	for _, watch := range c.Watches {
		of := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) (keys []reconcile.Request) {
			for _, name := range watch.Of(ctx, obj) {
				keys = append(keys, reconcile.Request{NamespacedName: name})
			}
			return keys
		})
		var when []predicate.Predicate
		if watch.When != nil {
			when = append(when, watch.When)
		}
		from := watch.From
		if from == nil {
			from = m.GetCache()
		}
		all = append(all, source.Kind(from, watch.Object, of, when...))
	}
	if c.Signals != nil {
		all = append(all, source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			m.background.Go(func() {
				c.Signals(ctx, func(ref control.Ref) {
					if ref.Kind == kind {
						queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}})
					}
				})
			})
			return nil
		}))
	}
	return all
}

// syncCounter is a source that decrements a counter when its cache is synced.
type filled struct {
	source.SyncingSource
	left *atomic.Int64
}

// WaitForSync implements source.SyncingSource.
func (f *filled) WaitForSync(ctx context.Context) error {
	err := f.SyncingSource.WaitForSync(ctx)
	if err == nil {
		f.left.Add(-1)
	}
	return err
}

// String names the source in logs.
func (f *filled) String() string { return fmt.Sprint(f.SyncingSource) }
