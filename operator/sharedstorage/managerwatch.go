package sharedstorage

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// managerWatches hear of the changes that cluster managers observe: one call waits at each manager,
// for as long as somebody listens to the operator. The zero value has none.
type managerWatches struct {
	mu      sync.Mutex
	ctx     context.Context // of the last Listen; nil: nobody listens
	running map[control.Ref]*managerWatch
	mute    map[port.Ref]bool // the managers that do not answer
	ended   sync.WaitGroup
}

type managerWatch struct {
	cluster port.Ref
	stop    context.CancelFunc
}

// silentPause is the time between two calls of a manager that does not answer.
const silentPause = time.Second

// serve lets watches run until the context ends. The returned function waits for their end.
func (m *managerWatches) serve(ctx context.Context) func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ctx = ctx
	return m.ended.Wait
}

// stop ends the watch of a cluster.
func (m *managerWatches) stop(ref control.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w, ok := m.running[ref]; ok {
		w.stop()
		delete(m.running, ref)
		delete(m.mute, w.cluster)
	}
}

// silent reports whether the manager of a cluster does not answer its watch.
func (m *managerWatches) silent(c port.Ref) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mute[c]
}

// watchManager makes a pass over a cluster due whenever its manager observes a change or stops
// answering.
func (o *Operator) watchManager(ref control.Ref, c *Cluster) {
	watcher, ok := o.options.Ports.Manager.(port.ManagerWatcher)
	if !ok {
		return
	}
	m := &o.watches
	if !c.DeletedAt.IsZero() || c.Facts.known(factManager) && !c.Facts.Topology.Present {
		m.stop(ref)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w, has := m.running[ref]
	if m.ctx == nil || m.ctx.Err() != nil || has && w.cluster == c.Ref {
		return
	}
	if has { // another cluster of the same name
		w.stop()
		delete(m.mute, w.cluster)
	}
	if m.running == nil {
		m.running, m.mute = map[control.Ref]*managerWatch{}, map[port.Ref]bool{}
	}
	ctx, stop := context.WithCancel(m.ctx)
	w = &managerWatch{c.Ref, stop}
	m.running[ref] = w
	m.ended.Go(func() {
		o.followManager(ctx, watcher, ref, c.Ref)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.running[ref] == w { // nobody listens any more
			delete(m.running, ref)
		}
	})
}

func (o *Operator) followManager(ctx context.Context, watcher port.ManagerWatcher, ref control.Ref, c port.Ref) {
	m, seen, first := &o.watches, "", true
	for ctx.Err() == nil {
		digest, err := watcher.Await(ctx, c, seen)
		if ctx.Err() != nil {
			return
		}
		m.mu.Lock()
		was := m.mute[c]
		m.mute[c] = err != nil
		m.mu.Unlock()
		if was != (err != nil) || err == nil && digest != seen && !first {
			o.notify(ref)
		}
		if err == nil {
			seen, first = digest, false
			continue
		}
		pause := time.NewTimer(silentPause)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
}
