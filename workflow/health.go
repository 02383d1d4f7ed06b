package workflow

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/fault"
)

// Health returns the current error of the store; nil while the store answers.
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
		e.log.Error("workflow: the store fails; nothing new is started until it answers again", "error", err)
	}
}

func (e *Engine) storeRecovered() {
	e.mu.Lock()
	was := e.health
	e.health = nil
	e.mu.Unlock()
	if was != nil {
		e.log.Info("workflow: the store answers again")
		e.wakeClaimLoop()
	}
}

// probe checks whether the store has recovered. It writes, because only a write detects a full
// disk.
func (e *Engine) probe(ctx context.Context) {
	if e.stuck.Load() > 0 {
		return // the retries of their saves detect it
	}
	claimer := e.store.(Claimer)
	bounded, cancel := context.WithTimeout(ctx, e.options.Lease/3)
	defer cancel()
	if err := claimer.Renew(bounded, e.options.Worker, e.options.Lease); err == nil || errors.Is(err, ErrFenced) {
		e.storeRecovered()
	}
}
