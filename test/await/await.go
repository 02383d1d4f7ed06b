// Package await waits in tests for what must come to hold:
//
//	await.Until(t, time.Minute, "blue is Ready", func(ctx context.Context) error {
//		return ready(ctx, "blue") // nil: it holds; else why it does not hold yet
//	})
package await

import (
	"context"
	"testing"
	"time"
)

// Interval is the time between two looks.
const Interval = 100 * time.Millisecond

// Until looks until holds returns nil, and fails the test if that takes longer than limit. It also works while a test
// cleans up.
func Until(t testing.TB, limit time.Duration, what string, holds func(ctx context.Context) error) {
	t.Helper()
	Every(t, Interval, limit, what, holds)
}

// Every is Until with another time between two looks.
func Every(t testing.TB, interval, limit time.Duration, what string, holds func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	defer cancel()
	if err := Poll(ctx, interval, holds); err != nil {
		t.Fatalf("%s, not within %s: %v", what, limit, err)
	}
}

// Poll looks until holds returns nil. When ctx ends before, the error is that of the last look which ctx did not cut short.
func Poll(ctx context.Context, interval time.Duration, holds func(ctx context.Context) error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var last error
	for {
		err := holds(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return last
		case <-tick.C:
		}
	}
}
