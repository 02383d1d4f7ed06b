package machine

import (
	"context"
	"sync"

	"github.com/pawl-dev/pawl/control"
)

// keys serialises work per object. A key exists only while it is held or awaited.
type keys struct {
	mu   sync.Mutex
	held map[control.Ref]*key
}

type key struct {
	turn  chan struct{} // holds one token while the key is free
	users int
}

// lock waits until the key is free. The error is that of the context.
func (k *keys) lock(ctx context.Context, ref control.Ref) (unlock func(), err error) {
	k.mu.Lock()
	if k.held == nil {
		k.held = map[control.Ref]*key{}
	}
	entry, ok := k.held[ref]
	if !ok {
		entry = &key{turn: make(chan struct{}, 1)}
		entry.turn <- struct{}{}
		k.held[ref] = entry
	}
	entry.users++
	k.mu.Unlock()

	leave := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if entry.users--; entry.users == 0 {
			delete(k.held, ref)
		}
	}
	select {
	case <-entry.turn:
		return func() { entry.turn <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
