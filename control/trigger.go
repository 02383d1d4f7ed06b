package control

import (
	"context"
	"sync"
)

// For triggers a controller for the items of a source themselves. A key that is not in the
// cache of the source counts as deleted.
func For[T any](s *Shared[T], when Predicate[T]) Trigger {
	return trigger[T]{shared: s, when: when, keys: func(key string, _ T) []string { return []string{key} }, own: true}
}

// On triggers a controller for the keys that belong to an item of another source, such as
// its owner: the keys of the old and of the new state.
func On[T any](s *Shared[T], when Predicate[T], keys func(T) []string) Trigger {
	return trigger[T]{shared: s, when: when, keys: func(_ string, v T) []string { return keys(v) }}
}

// Signals triggers a controller for keys that run adds. run is called once, in a goroutine
// of its own, and must return when its context ends.
func Signals(run func(ctx context.Context, add func(key string))) Trigger { return signals(run) }

type trigger[T any] struct {
	shared *Shared[T]
	when   Predicate[T]
	keys   func(key string, v T) []string
	own    bool
}

func (t trigger[T]) synced(ctx context.Context) error { return t.shared.cache.WaitSynced(ctx) }

func (t trigger[T]) has(key string) (exists, known bool) {
	return t.own && t.shared.cache.Has(key), t.own
}

func (t trigger[T]) start(_ context.Context, c *Controller, add func(string)) func() {
	return t.shared.Handle(func(_ context.Context, e Event[T]) {
		if !t.accepts(c, e) {
			return
		}
		if !e.Created {
			for _, key := range t.keys(e.Key, e.Old) {
				add(key)
			}
		}
		if !e.Deleted {
			for _, key := range t.keys(e.Key, e.New) {
				add(key)
			}
		}
	})
}

// accepts calls the predicate. If it panics, the event is accepted: an unnecessary pass is
// better than a missing one.
func (t trigger[T]) accepts(c *Controller, e Event[T]) (yes bool) {
	if t.when == nil {
		return true
	}
	if err := guarded("predicate of "+c.Name, func() { yes = t.when(e) }); err != nil {
		c.Log.Error("a predicate failed; the event passes", "controller", c.Name, "key", e.Key, "error", err)
		return true
	}
	return yes
}

type signals func(ctx context.Context, add func(key string))

func (signals) synced(context.Context) error { return nil }
func (signals) has(string) (bool, bool)      { return false, false }

func (run signals) start(ctx context.Context, c *Controller, add func(string)) func() {
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := guarded("signals of "+c.Name, func() { run(ctx, add) }); err != nil {
			c.Log.Error("a trigger failed and is stopped", "controller", c.Name, "error", err)
		}
	})
	return wg.Wait
}
