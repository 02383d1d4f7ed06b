package rollout

import (
	"context"
	"maps"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientcache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/kube/workload"
)

// awaited are workloads that Rollouts wait for and that no other cache shows: they do not exist yet, or
// have the label of another Rollout. Each is watched by its name, for its metadata only.
type awaited struct {
	// open makes a cache of the objects of one name.
	open func(namespace string, name fields.Selector) (cache.Cache, error)
	wake func(types.NamespacedName)

	mu      sync.Mutex
	watches map[types.NamespacedName]map[workload.Ref]context.CancelFunc
	closed  bool // the operator ends: nothing is watched any more
	running sync.WaitGroup
}

// newAwaitedCache is the cache of the objects of one name.
func (o *Operator) newAwaitedCache(namespace string, name fields.Selector) (cache.Cache, error) {
	return cache.New(o.manager.GetConfig(), cache.Options{
		HTTPClient: o.manager.GetHTTPClient(), Scheme: o.manager.GetScheme(), Mapper: o.manager.GetRESTMapper(),
		DefaultNamespaces: map[string]cache.Config{namespace: {FieldSelector: name}},
		DefaultTransform:  cache.TransformStripManagedFields(),
	})
}

// set watches these workloads for a Rollout, and no others.
func (a *awaited) set(user types.NamespacedName, refs []workload.Ref) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	was, is := a.watches[user], map[workload.Ref]context.CancelFunc{}
	for _, ref := range refs {
		if is[ref] = was[ref]; is[ref] != nil {
			continue
		}
		stop, err := a.watch(user, ref)
		if err != nil {
			delete(is, ref)
			maps.Copy(is, was)
			a.keep(user, is)
			return controller.Fault(err)
		}
		is[ref] = stop
	}
	for ref, stop := range was {
		if is[ref] == nil {
			stop()
		}
	}
	a.keep(user, is)
	return nil
}

func (a *awaited) keep(user types.NamespacedName, is map[workload.Ref]context.CancelFunc) {
	if len(is) == 0 {
		delete(a.watches, user)
		return
	}
	if a.watches == nil {
		a.watches = map[types.NamespacedName]map[workload.Ref]context.CancelFunc{}
	}
	a.watches[user] = is
}

// watch begins one watch. Its first list wakes too, if the workload was made a moment ago.
func (a *awaited) watch(user types.NamespacedName, ref workload.Ref) (context.CancelFunc, error) {
	made, err := a.open(user.Namespace, fields.OneTermEqualSelector("metadata.name", ref.Name))
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	informer, err := made.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(clientcache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { a.wake(user) },
			DeleteFunc: func(any) { a.wake(user) },
			UpdateFunc: func(was, is any) {
				if belongs(was) != belongs(is) {
					a.wake(user)
				}
			},
		})
	}
	if err != nil {
		stop()
		return nil, err
	}
	a.running.Go(func() { _ = made.Start(ctx) }) // it ends with its context
	return stop, nil
}

// belongs is whose a workload is: its status does not matter to who waits for it.
func belongs(obj any) (is struct{ label, owner, uid string }) {
	if o, ok := obj.(client.Object); ok {
		is.label, is.uid = o.GetLabels()[workload.RolloutLabel], string(o.GetUID())
		if owner := metav1.GetControllerOf(o); owner != nil {
			is.owner = string(owner.UID)
		}
	}
	return is
}

// close ends all watches.
func (a *awaited) close() {
	a.mu.Lock()
	a.closed = true
	for user, all := range a.watches {
		for _, stop := range all {
			stop()
		}
		delete(a.watches, user)
	}
	a.mu.Unlock()
	a.running.Wait()
}
