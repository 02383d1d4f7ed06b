package sharedstorage

import (
	"sync"
	"time"
)

// cache keeps one thing that was found or done for each cluster, until its key changes or its time is over: so a pass
// asks again only when there may be something new.
type cache[T any] struct {
	mu sync.Mutex
	of map[string]cached[T] // by namespace/name
}

type cached[T any] struct {
	key   string
	until time.Time
	value T
}

// get returns what is kept of a cluster. What has another key, or is too old, is forgotten.
func (c *cache[T]) get(cluster, key string, now time.Time) (value T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.of[cluster]
	if ok && k.key == key && now.Before(k.until) {
		return k.value, true
	}
	delete(c.of, cluster)
	return value, false
}

// put keeps a value until then.
func (c *cache[T]) put(cluster, key string, until time.Time, value T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]cached[T]{}
	}
	c.of[cluster] = cached[T]{key, until, value}
}

func (c *cache[T]) forget(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, cluster)
}
