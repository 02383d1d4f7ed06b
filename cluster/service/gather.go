package service

import (
	"context"
	"sync"
)

// batcher makes one write of what several callers want written: while one is
// under way, the next gathers. The first caller of a batch writes it for all.
type batcher[T any] struct {
	mu      sync.Mutex
	waiting []*part[T]
	busy    bool
}

type part[T any] struct {
	item T
	err  error
	done chan struct{}
}

// gatherings are one gathered for each key that somebody is busy with.
type gatherings[T any] struct {
	mu sync.Mutex
	of map[string]*gathering[T]
}

type gathering[T any] struct {
	batcher[T]
	callers int
}

// do is gathered.do among those with the same key.
func (g *gatherings[T]) do(ctx context.Context, key string, item T, write func(ctx context.Context, items []T) error) error {
	g.mu.Lock()
	if g.of == nil {
		g.of = map[string]*gathering[T]{}
	}
	mine := g.of[key]
	if mine == nil {
		mine = &gathering[T]{}
		g.of[key] = mine
	}
	mine.callers++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if mine.callers--; mine.callers == 0 {
			delete(g.of, key)
		}
	}()
	return mine.do(ctx, item, write)
}

// do returns when the item was written, or was not. Writes are not ended by
// the context of one caller: others may be in them.
func (g *batcher[T]) do(ctx context.Context, item T, write func(ctx context.Context, items []T) error) error {
	mine := &part[T]{item: item, done: make(chan struct{})}
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
