// Package cache keeps what was last found of each cluster, so that a pass asks again only when there may be something new.
package cache

import (
	"sync"
	"time"
)

// Cache keeps one value for each cluster, until its key changes or its time is over. Its methods are safe for
// concurrent use, and its zero value is empty.
type Cache[T any] struct {
	mu sync.Mutex
	of map[string]entry[T] // by namespace/name
}

type entry[T any] struct {
	key   string
	until time.Time
	value T
}

// Get returns the value of a cluster and until when it is kept. One with another key, or whose time is over, is not
// returned.
func (c *Cache[T]) Get(cluster, key string, now time.Time) (value T, until time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.of[cluster]
	if !ok || e.key != key || !now.Before(e.until) {
		return value, until, false
	}
	return e.value, e.until, true
}

// Last returns the last value that a cluster had with this key, even if its time is over.
func (c *Cache[T]) Last(cluster, key string) (value T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, there := c.of[cluster]; there && e.key == key {
		return e.value, true
	}
	return value, false
}

// Put keeps a value until then, in place of the former one.
func (c *Cache[T]) Put(cluster, key string, until time.Time, value T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]entry[T]{}
	}
	c.of[cluster] = entry[T]{key, until, value}
}

// Forget drops the value of a cluster.
func (c *Cache[T]) Forget(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, cluster)
}
