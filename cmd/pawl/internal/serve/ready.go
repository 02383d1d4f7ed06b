package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Limits of finding out whether the server is ready: it costs a write.
const (
	readyWithin = 3 * time.Second
	readyKept   = time.Second
)

// readiness writes once for concurrent requests, and caches the answer briefly.
type readiness struct {
	write func(context.Context) error

	mu  sync.Mutex
	at  time.Time
	err error
}

func (r *readiness) check(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || time.Since(r.at) > readyKept {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyWithin)
		defer cancel()
		if r.err = r.write(ctx); errors.Is(r.err, context.DeadlineExceeded) {
			r.err = fmt.Errorf("the store has not answered a write within %s", readyWithin)
		}
		r.at = time.Now()
	}
	return r.err
}
