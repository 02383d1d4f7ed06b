package controller

import (
	"cmp"
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CacheOptions choose what a cache holds. The zero value holds all objects of the kinds that
// are read, in the namespaces of the manager.
type CacheOptions struct {
	// Labels select the objects of all kinds that ByObject does not name. nil: all.
	Labels labels.Selector
	// ByObject selects objects of one kind, by label or field.
	ByObject map[client.Object]cache.ByObject
	// ByOwner are the kinds that ListOwned lists.
	ByOwner []client.Object
	// Uncached are kinds that the client reads from the API server each time, such as
	// Secrets: a cache would have to list and watch all of them.
	Uncached []client.Object
}

// Cache is what one operator of a manager keeps of the cluster, as narrow as its selectors.
// It reads without requests to the API server.
type Cache struct {
	cache.Cache
	client client.Client
}

// ownerIndex is the name of the index by the UID of the controlling owner.
const ownerIndex = "pawl.dev/owner"

// NewCache makes a cache, which starts and stops with the manager. It may be called after
// the manager has started.
func (m *Manager) NewCache(o CacheOptions) (*Cache, error) {
	options := cache.Options{
		HTTPClient: m.GetHTTPClient(), Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(),
		DefaultNamespaces: m.options.cacheNamespaces(), DefaultLabelSelector: o.Labels, ByObject: o.ByObject,
		DefaultTransform: cache.TransformStripManagedFields(), // half of the memory, and nobody reads it
	}
	if m.options.Resync > 0 {
		options.SyncPeriod = &m.options.Resync
	}
	added, err := cache.New(m.GetConfig(), options)
	if err != nil {
		return nil, Fault(err)
	}
	for _, kind := range o.ByOwner {
		if err := added.IndexField(context.Background(), kind, ownerIndex, func(obj client.Object) []string {
			if owner := metav1.GetControllerOf(obj); owner != nil {
				return []string{string(owner.UID)}
			}
			return nil
		}); err != nil {
			return nil, Fault(err)
		}
	}
	c, err := m.options.NewClient(m.GetConfig(), client.Options{
		HTTPClient: m.GetHTTPClient(), Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(),
		FieldOwner: cmp.Or(m.options.FieldOwner, FieldOwner),
		Cache:      &client.CacheOptions{Reader: added, DisableFor: o.Uncached},
	})
	if err != nil {
		return nil, Fault(err)
	}
	return &Cache{Cache: added, client: FaultClient(c)}, Fault(m.Add(cacheRunnable{added}))
}

// cacheRunnable lets a cache start together with the manager's own.
type cacheRunnable struct{ cache.Cache }

// GetCache returns the cache; controller-runtime recognises one by this method.
func (c cacheRunnable) GetCache() cache.Cache { return c.Cache }

// Client returns a client that reads from the cache and writes to the API server. Its errors
// are faults.
func (c *Cache) Client() client.Client { return c.client }

// ListOwned lists the objects of a kind in ByOwner that the owner controls, in its namespace.
// They are those of the cache, not copies: the caller must not change them.
func (c *Cache) ListOwned(ctx context.Context, owner client.Object, list client.ObjectList) error {
	return Fault(c.List(ctx, list, client.InNamespace(owner.GetNamespace()), client.MatchingFields{ownerIndex: string(owner.GetUID())}, client.UnsafeDisableDeepCopy))
}

// ListShared lists objects of the cache without copying them: the caller must not change them.
func (c *Cache) ListShared(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return Fault(c.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...))
}
