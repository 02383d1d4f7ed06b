package controller

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	"github.com/pawl-dev/pawl/kube/condition"
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
	AcceptsRequests func(T) bool

	// Requests are further annotations that carry requests: see DesiredChanged.
	Requests []string
	// ExtraUpdates selects further changes of an object that trigger its controller.
	// nil: none.
	ExtraUpdates func(old, now T) bool
	// Owns are kinds whose objects trigger the object that controls them, at every change.
	Owns []client.Object
	// Watches are other objects that trigger the controller.
	Watches []Watch
	// Quiet is how long a pass waits after the first event of Owns and Watches, so that
	// a burst of them makes one pass. 0: not at all.
	Quiet time.Duration
	// Cache is where For, Owns and Watches are read from, and Cache.Client what writes
	// status. nil: the manager's.
	Cache *Cache
	// Signals wakes for objects from elsewhere. It is called once, in a goroutine
	// of its own, and must return when its context ends. Objects of other kinds
	// are ignored.
	Signals func(ctx context.Context, add func(control.Ref))

	Workers    int // 0: DefaultWorkers
	MaxRetries int // retries in a row until an object is given up; 0: control.DefaultMaxRetries; less: none; Unlimited: never given up
}

// Unlimited is Controller.MaxRetries for objects that are never given up: their retries go on
// at the longest delay.
const Unlimited = math.MaxInt

// Watch wakes for objects that have to do with those of the main kind.
type Watch struct {
	Object client.Object
	// Cache is the cache that is watched. nil: that of the controller.
	Cache cache.Cache
	// Optional is a kind whose CustomResourceDefinition may be installed later: it is
	// watched from then on. Otherwise Manager.Start fails with KIND_MISSING.
	Optional bool
	// Keys names the objects of the main kind that a change of this one is for. It is
	// asked with what was before and what is now.
	Keys func(ctx context.Context, obj client.Object) []types.NamespacedName
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
		conditions: c.Conditions, condition: cmp.Or(c.Condition, condition.TypeProgressing), givenUp: c.GivenUp,
		cached: c.cache(m), live: m.Live(), client: c.client(m),
		newObject: func() T { return c.For.DeepCopyObject().(T) },
		passes:    m.passes, retries: newRetries(cmp.Or(c.MaxRetries, control.DefaultMaxRetries)),
		runs: c.Runs, last: c.LastRequest, acceptsRequests: c.AcceptsRequests,
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
	watch := func(s source.Source) error {
		if syncing, ok := s.(source.SyncingSource); ok {
			m.unsynced.Add(1)
			s = &syncCounter{SyncingSource: syncing, unsynced: &m.unsynced}
		}
		if err := inner.Watch(s); err != nil {
			return fmt.Errorf("controller %s: %w", c.Name, err)
		}
		return nil
	}
	for _, s := range c.ownSources(m, gvk.Kind) {
		if err := watch(s); err != nil {
			return err
		}
	}
	for _, child := range c.children(m) {
		kind, err := apiutil.GVKForObject(child.kind, m.GetScheme())
		if err != nil {
			return fmt.Errorf("controller %s: %w", c.Name, err)
		}
		if !child.optional {
			m.kinds = append(m.kinds, kind)
			err = watch(child.source)
		} else {
			err = m.WhenServed([]schema.GroupVersionKind{kind}, func() error { return watch(child.source) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c Controller[T]) cache(m *Manager) cache.Cache {
	if c.Cache != nil {
		return c.Cache.Cache
	}
	return m.GetCache()
}

func (c Controller[T]) client(m *Manager) client.Client {
	if c.Cache != nil {
		return c.Cache.Client()
	}
	return m.GetClient()
}

// ownSources wake for the objects of the main kind.
func (c Controller[T]) ownSources(m *Manager, kind string) []source.Source {
	filter := DesiredChanged(c.Requests...)
	if c.ExtraUpdates != nil {
		filter = predicate.Or(filter, extraUpdates(c.ExtraUpdates))
	}
	all := []source.Source{source.Kind(c.cache(m), client.Object(c.For), &handler.EnqueueRequestForObject{}, filter)}
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

// child is a source of another kind than the main one.
type child struct {
	kind     client.Object
	source   source.Source
	optional bool
}

// children wake for the objects of Owns and Watches.
func (c Controller[T]) children(m *Manager) (all []child) {
	for _, owned := range c.Owns {
		owner := handler.EnqueueRequestForOwner(m.GetScheme(), m.GetRESTMapper(), c.For, handler.OnlyControllerOwner())
		all = append(all, child{kind: owned, source: source.Kind(c.cache(m), owned, quietly(owner, c.Quiet), predicate.Predicate(predicate.ResourceVersionChangedPredicate{}))})
	}
	for _, watch := range c.Watches {
		of := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) (keys []reconcile.Request) {
			for _, name := range watch.Keys(ctx, obj) {
				keys = append(keys, reconcile.Request{NamespacedName: name})
			}
			return keys
		})
		var when []predicate.Predicate
		if watch.When != nil {
			when = append(when, watch.When)
		}
		from := watch.Cache
		if from == nil {
			from = c.cache(m)
		}
		all = append(all, child{kind: watch.Object, source: source.Kind(from, watch.Object, quietly(of, c.Quiet), when...), optional: watch.Optional})
	}
	return all
}

// syncCounter is a source that decrements a counter when its cache is synced.
type syncCounter struct {
	source.SyncingSource
	unsynced *atomic.Int64
}

// WaitForSync implements source.SyncingSource.
func (f *syncCounter) WaitForSync(ctx context.Context) error {
	err := f.SyncingSource.WaitForSync(ctx)
	if err == nil {
		f.unsynced.Add(-1)
	}
	return err
}

// String names the source in logs.
func (f *syncCounter) String() string { return fmt.Sprint(f.SyncingSource) }
