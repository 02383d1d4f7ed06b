// Package pool makes calls beside the passes of the operator.
package pool

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

const (
	maxCalls      = 64 // at once, of all Rollouts
	maxCallsOfOne = 8
)

// Pool makes calls beside the passes: so many at once, and so many for one Rollout. The others wait in
// their order; a Rollout that has as many as it may holds up nobody else.
type Pool struct {
	ctx    context.Context //nolint:containedctx // of all calls; it ends with the pool
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	running map[types.NamespacedName]int
	all     int
	waiting []call
}

type call struct {
	owner types.NamespacedName
	run   func(context.Context)
}

// New is an empty pool.
func New() *Pool {
	p := &Pool{running: map[types.NamespacedName]int{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Add makes a call when its turn comes.
func (p *Pool) Add(owner types.NamespacedName, run func(context.Context)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.waiting = append(p.waiting, call{owner, run})
	p.start()
}

// Beside runs what waits and calls nobody: it takes no place.
func (p *Pool) Beside(run func(context.Context)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.done.Go(func() { run(p.ctx) })
	}
}

// start begins what may run now. The caller holds the lock.
func (p *Pool) start() {
	for i := 0; i < len(p.waiting) && p.all < maxCalls && !p.closed; {
		c := p.waiting[i]
		if p.running[c.owner] >= maxCallsOfOne {
			i++
			continue
		}
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.running[c.owner]++
		p.all++
		p.done.Go(func() {
			c.run(p.ctx)
			p.end(c.owner)
		})
	}
}

func (p *Pool) end(owner types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.running[owner]--; p.running[owner] == 0 {
		delete(p.running, owner)
	}
	p.start()
}

// Close ends all calls and waits for them.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed, p.waiting = true, nil
	p.mu.Unlock()
	p.cancel()
	p.done.Wait()
}
