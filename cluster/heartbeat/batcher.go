package heartbeat

import (
	"context"
	"sync"
)

// batcher batches concurrent writes. While one write runs, further items form
// the next batch. One of the callers writes for all.
type batcher[T any] struct {
	mu      sync.Mutex
	waiting []*batchItem[T]
	busy    bool
}

// batchItem is an item of a batch with its result.
type batchItem[T any] struct {
	item T
	err  error
	done chan struct{}
}

// batchers has one batcher for each key in use.
type batchers[T any] struct {
	mu    sync.Mutex
	byKey map[string]*keyedBatcher[T]
}

type keyedBatcher[T any] struct {
	batcher[T]
	callers int
}

// do is batcher.do among the items with the same key.
func (g *batchers[T]) do(ctx context.Context, key string, item T, write func(ctx context.Context, items []T) error) error {
	g.mu.Lock()
	if g.byKey == nil {
		g.byKey = map[string]*keyedBatcher[T]{}
	}
	mine := g.byKey[key]
	if mine == nil {
		mine = &keyedBatcher[T]{}
		g.byKey[key] = mine
	}
	mine.callers++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if mine.callers--; mine.callers == 0 {
			delete(g.byKey, key)
		}
	}()
	return mine.do(ctx, item, write)
}

// do returns when the write of the item has ended. The end of a caller's context
// does not cancel the write: it may contain items of other callers.
func (g *batcher[T]) do(ctx context.Context, item T, write func(ctx context.Context, items []T) error) error {
	mine := &batchItem[T]{item: item, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, mine)
	if g.busy {
		g.mu.Unlock()
		<-mine.done
		return mine.err
	}
	g.busy = true
	g.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	for {
		g.mu.Lock()
		batch := g.waiting
		g.waiting = nil
		g.busy = len(batch) > 0
		g.mu.Unlock()
		if len(batch) == 0 {
			return mine.err
		}
		items := make([]T, len(batch))
		for i, p := range batch {
			items[i] = p.item
		}
		err := write(ctx, items)
		for _, p := range batch {
			p.err = err
			close(p.done)
		}
	}
}
