package workload

import (
	"context"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clientcache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/rollout"
)

// Dependents watches what belongs to the workloads that move: pods and revisions, by the selector of
// the workload. A watch begins with the first user of a selector and ends with the last one, so that
// nothing is watched at rest. It is safe for concurrent use.
type Dependents struct {
	// New makes a cache of one namespace that holds the objects of a selector.
	New func(namespace string, selector labels.Selector) (cache.Cache, error)
	// Wake is called with each user of a selector when one of its objects has changed.
	Wake func(user types.NamespacedName)

	mu      sync.Mutex
	watches map[watchKey]*watch
	closed  bool
	running sync.WaitGroup
}

type watchKey struct{ namespace, selector string }

// watch is the cache of one selector.
type watch struct {
	cache  cache.Cache
	cancel context.CancelFunc

	mu       sync.Mutex
	users    map[types.NamespacedName]bool
	handlers map[string]bool // by kind
}

// dependentKinds are what a rollout of a kind reads beside the workload.
func dependentKinds(kind rollout.Kind) []client.Object {
	if kind == rollout.Deployment {
		return []client.Object{&corev1.Pod{}, &appsv1.ReplicaSet{}}
	}
	return []client.Object{&corev1.Pod{}, &appsv1.ControllerRevision{}}
}

// Workload returns a reader of the pods and revisions that a selector of a workload of a kind selects.
// It returns when the watch has listed them, or the context has ended.
func (d *Dependents) Workload(ctx context.Context, user types.NamespacedName, kind rollout.Kind, selector labels.Selector) (client.Reader, error) {
	return d.reader(ctx, user, selector, dependentKinds(kind))
}

// Pods returns a reader of the pods that a selector selects.
func (d *Dependents) Pods(ctx context.Context, user types.NamespacedName, selector labels.Selector) (client.Reader, error) {
	return d.reader(ctx, user, selector, []client.Object{&corev1.Pod{}})
}

func (d *Dependents) reader(ctx context.Context, user types.NamespacedName, selector labels.Selector, kinds []client.Object) (client.Reader, error) {
	w, err := d.join(user, selector)
	if err != nil {
		return nil, err
	}
	if !w.cache.WaitForCacheSync(ctx) { // it has started
		return nil, fault.APIUnavailable.Errorf("the objects of %s could not be listed: %w", selector, context.Cause(ctx))
	}
	var lists []clientcache.DoneChecker
	for _, kind := range kinds {
		informer, err := w.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, controller.Fault(err)
		}
		if err := w.handle(kind, informer, d.Wake); err != nil {
			return nil, err
		}
		lists = append(lists, informer.HasSyncedChecker())
	}
	for _, list := range lists {
		select {
		case <-list.Done():
		case <-ctx.Done():
			return nil, fault.APIUnavailable.Errorf("%s of %s could not be listed: %w", list.Name(), selector, context.Cause(ctx))
		}
	}
	return w.cache, nil
}

// join makes the user one of a watch, which begins if there is none.
func (d *Dependents) join(user types.NamespacedName, selector labels.Selector) (*watch, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fault.APIUnavailable.Errorf("the operator ends: nothing is watched any more")
	}
	key := watchKey{user.Namespace, selector.String()}
	w := d.watches[key]
	if w == nil {
		made, err := d.New(user.Namespace, selector)
		if err != nil {
			return nil, controller.Fault(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		w = &watch{cache: made, cancel: cancel, users: map[types.NamespacedName]bool{}, handlers: map[string]bool{}}
		if d.watches == nil {
			d.watches = map[watchKey]*watch{}
		}
		d.watches[key] = w
		d.running.Go(func() { _ = made.Start(ctx) }) // it ends with its context
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users[user] = true
	return w, nil
}

// handle wakes the users of the watch, once for each kind.
func (w *watch) handle(kind client.Object, informer cache.Informer, wake func(types.NamespacedName)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := fmt.Sprintf("%T", kind)
	if w.handlers[name] {
		return nil
	}
	w.handlers[name] = true
	changed := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for user := range w.users {
			wake(user)
		}
	}
	_, err := informer.AddEventHandler(clientcache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(_ any, first bool) {
			if !first { // else the user waits for the list
				changed()
			}
		},
		UpdateFunc: func(was, is any) {
			old, okWas := was.(*corev1.Pod)
			now, okIs := is.(*corev1.Pod)
			if !okWas || !okIs || PodChanged(old, now) {
				changed()
			}
		},
		DeleteFunc: func(any) { changed() },
	})
	return err
}

// Release ends the watches that only this user has.
func (d *Dependents) Release(user types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, w := range d.watches {
		w.mu.Lock()
		delete(w.users, user)
		left := len(w.users)
		w.mu.Unlock()
		if left == 0 {
			w.cancel()
			delete(d.watches, key)
		}
	}
}

// Watched is the number of selectors that are watched.
func (d *Dependents) Watched() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.watches)
}

// Close ends all watches, and returns when they have ended. No other one begins.
func (d *Dependents) Close() {
	d.mu.Lock()
	d.closed = true
	for key, w := range d.watches {
		w.cancel()
		delete(d.watches, key)
	}
	d.mu.Unlock()
	d.running.Wait()
}
