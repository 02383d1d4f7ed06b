package control

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// maxStack is the maximum size of the stack of a panic in its fault, in bytes.
const maxStack = 16 << 10

// guarded calls f. If f panics it returns the panic as a PANIC error, else nil.
func guarded(what string, f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			stack := debug.Stack()
			failure := fault.Panic.Errorf("%s: %v", what, p)
			if cause, ok := p.(error); ok {
				failure = fault.Panic.Errorf("%s: %w", what, cause)
			}
			err = failure.With("stack", string(stack[:min(len(stack), maxStack)]))
		}
	}()
	f()
	return nil
}

func orDefault(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.Default()
	}
	return log
}

// pause waits for d or the end of the context.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
