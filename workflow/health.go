package workflow

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/fault"
)

// Health is the trouble the store is in; nil while it answers.
func (e *Engine) Health() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.health
}

func (e *Engine) storeFailed(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	kind := fault.Of(err)
	e.mu.Lock()
	first := e.health == nil
	if kind == StoreFull || kind == StoreUnavailable || kind == StoreCorrupt {
		e.health = err
	} else {
		e.health = StoreUnavailable.Errorf("%w", err)
	}
	e.mu.Unlock()
	if first {
		e.log.Error("workflow: the store is in trouble; nothing new is begun until it is back", "error", err)
	}
}

func (e *Engine) storeRecovered() {
	e.mu.Lock()
	was := e.health
	e.health = nil
	e.mu.Unlock()
	if was != nil {
		e.log.Info("workflow: the store is back")
		e.wakeClaimLoop()
	}
}

// probe asks whether the store has recovered; only a write can tell a full disk.
func (e *Engine) probe(ctx context.Context) {
	if e.stuck.Load() > 0 {
		return // their saves tell
	}
	claimer := e.store.(Claimer)
	bounded, cancel := context.WithTimeout(ctx, e.options.Lease/3)
	defer cancel()
	if err := claimer.Renew(bounded, e.options.Worker, e.options.Lease); err == nil || errors.Is(err, ErrFenced) {
		e.storeRecovered()
	}
}
