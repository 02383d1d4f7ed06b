package kube

import (
	"context"
	"sync"
)

// gates let a number of callers of each name pass at once.
type gates struct {
	size int

	mu    sync.Mutex
	names map[string]*gate
}

type gate struct {
	free  chan struct{} // one for each caller inside
	users int           // inside or waiting
}

// enter waits until there is room. leave makes it; it must be called once.
func (g *gates) enter(ctx context.Context, name string) (leave func(), err error) {
	g.mu.Lock()
	at := g.names[name]
	if at == nil {
		if g.names == nil {
			g.names = map[string]*gate{}
		}
		at = &gate{free: make(chan struct{}, g.size)}
		g.names[name] = at
	}
	at.users++
	g.mu.Unlock()
	drop := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if at.users--; at.users == 0 {
			delete(g.names, name)
		}
	}
	select {
	case at.free <- struct{}{}:
		return func() { <-at.free; drop() }, nil
	case <-ctx.Done():
		drop()
		return nil, context.Cause(ctx)
	}
}
