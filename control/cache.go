package control

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
)

// Cache is the newest known state of a source, kept by a Shared. It returns copies, which
// callers may change.
type Cache[T any] struct {
	name    string
	copyOf  func(T) T
	indexes map[string]func(T) []string
	log     *slog.Logger
	synced  chan struct{} // closed by the first list

	mu    sync.RWMutex
	items map[string]Item[T]
	by    map[string]map[string]map[string]bool // index, value, keys
}

func newCache[T any](name string, copyOf func(T) T, indexes map[string]func(T) []string, log *slog.Logger) *Cache[T] {
	c := &Cache[T]{name: name, copyOf: copyOf, indexes: maps.Clone(indexes), log: log, synced: make(chan struct{}),
		items: map[string]Item[T]{}, by: map[string]map[string]map[string]bool{}}
	for index := range indexes {
		c.by[index] = map[string]map[string]bool{}
	}
	return c
}

// Synced reports whether the source has been listed once.
func (c *Cache[T]) Synced() bool {
	select {
	case <-c.synced:
		return true
	default:
		return false
	}
}

// WaitSynced waits until the source has been listed once. It returns the cause if the
// context ends first.
func (c *Cache[T]) WaitSynced(ctx context.Context) error {
	select {
	case <-c.synced:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Get returns an item.
func (c *Cache[T]) Get(key string) (T, bool) {
	c.mu.RLock()
	item, ok := c.items[key]
	c.mu.RUnlock()
	if !ok {
		var none T
		return none, false
	}
	return c.copyOf(item.Value), true
}

// Has reports whether there is an item.
func (c *Cache[T]) Has(key string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	_, ok := c.items[key]
	return ok
}

// Len returns the number of items.
func (c *Cache[T]) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.items)
}

// All returns the items that exist when the iteration begins, ordered by key.
func (c *Cache[T]) All() iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		c.mu.RLock()
		items := slices.Collect(maps.Values(c.items))
		c.mu.RUnlock()
		c.give(items, yield)
	}
}

// By returns the items whose index function yields the value, ordered by key. It panics if
// the index was not declared: that is a programming error.
func (c *Cache[T]) By(index, value string) iter.Seq2[string, T] {
	if _, ok := c.indexes[index]; !ok {
		panic(fmt.Sprintf("control: the cache of %s has no index %q; declare it in SharedOptions.Indexes (there are %q)",
			c.name, index, slices.Sorted(maps.Keys(c.indexes))))
	}
	return func(yield func(string, T) bool) {
		c.mu.RLock()
		var items []Item[T]
		for key := range c.by[index][value] {
			items = append(items, c.items[key])
		}
		c.mu.RUnlock()
		c.give(items, yield)
	}
}

func (c *Cache[T]) give(items []Item[T], yield func(string, T) bool) {
	slices.SortFunc(items, func(a, b Item[T]) int { return compareText(a.Key, b.Key) })
	for _, item := range items {
		if !yield(item.Key, c.copyOf(item.Value)) {
			return
		}
	}
}

// put stores an item if it is newer than the cached one, and returns the cached one.
func (c *Cache[T]) put(item Item[T]) (old Item[T], had, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, had = c.items[item.Key]
	if had && !newer(item.Version, old.Version) {
		return old, had, false
	}
	if had {
		c.unindex(old)
	}
	c.items[item.Key] = item
	for index, f := range c.indexes {
		for _, value := range c.values(index, f, item) {
			keys := c.by[index][value]
			if keys == nil {
				keys = map[string]bool{}
				c.by[index][value] = keys
			}
			keys[item.Key] = true
		}
	}
	return old, had, true
}

// remove removes an item, unless the cached one is newer than the removal.
func (c *Cache[T]) remove(key, version string) (old Item[T], had bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, had = c.items[key]
	if !had || older(version, old.Version) {
		return old, false
	}
	c.unindex(old)
	delete(c.items, key)
	return old, true
}

func (c *Cache[T]) unindex(item Item[T]) {
	for index, f := range c.indexes {
		for _, value := range c.values(index, f, item) {
			delete(c.by[index][value], item.Key)
			if len(c.by[index][value]) == 0 {
				delete(c.by[index], value)
			}
		}
	}
}

func (c *Cache[T]) values(index string, f func(T) []string, item Item[T]) (values []string) {
	if err := guarded("index "+index, func() { values = f(item.Value) }); err != nil {
		c.log.Error("an index function failed; the item is not in this index", "source", c.name, "key", item.Key, "error", err)
	}
	return values
}

// snapshot returns the items without copying their values, for callers that copy them.
func (c *Cache[T]) snapshot() []Item[T] {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.SortedFunc(maps.Values(c.items), func(a, b Item[T]) int { return compareText(a.Key, b.Key) })
}

// copier returns a function that copies a T: by its Copy method, or by assignment if it
// holds no references. It returns false if T has neither.
func copier[T any]() (func(T) T, bool) {
	var none T
	if _, ok := any(none).(interface{ Copy() T }); ok {
		return func(v T) T { return any(v).(interface{ Copy() T }).Copy() }, true
	}
	return func(v T) T { return v }, plain(reflect.TypeFor[T]())
}

func plain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return false
	case reflect.Array:
		return plain(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if !plain(f.Type) {
				return false
			}
		}
	}
	return true
}
