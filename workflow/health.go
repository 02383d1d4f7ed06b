package workflow

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// storeHealth is the health of the store, as the calls of this engine have found it.
type storeHealth struct {
	log       *slog.Logger
	recovered func()       // called when the store answers again
	stuck     atomic.Int64 // drivers that retry a save

	mu  sync.Mutex
	err error
}

// Health returns the current error of the store; nil while the store answers.
func (e *Engine) Health() error { return e.health.get() }

func (h *storeHealth) get() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

func (h *storeHealth) failed(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	kind := fault.Of(err)
	h.mu.Lock()
	first := h.err == nil
	if kind == runstore.StoreFull || kind == runstore.StoreUnavailable || kind == runstore.StoreCorrupt {
		h.err = err
	} else {
		h.err = runstore.StoreUnavailable.Errorf("%w", err)
	}
	h.mu.Unlock()
	if first {
		h.log.Error("workflow: the store fails; nothing new is started until it answers again", "error", err)
	}
}

func (h *storeHealth) answered() {
	h.mu.Lock()
	was := h.err
	h.err = nil
	h.mu.Unlock()
	if was != nil {
		h.log.Info("workflow: the store answers again")
		h.recovered()
	}
}
