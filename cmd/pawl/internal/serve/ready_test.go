package serve

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Whether the server is ready costs a write: it is asked once for all who want
// to know at the same time, and again after a moment.
func TestFinding2ReadinessIsProbedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		var answer error
		p := readiness{write: func(context.Context) error { asked++; return answer }}
		for range 5 {
			if err := p.check(t.Context()); err != nil || asked != 1 {
				t.Fatalf("asked %d times: %v", asked, err)
			}
		}
		answer = errors.New("the disk is full")
		time.Sleep(readyKept + time.Millisecond)
		for range 5 {
			if err := p.check(t.Context()); err == nil || asked != 2 {
				t.Fatalf("asked %d times: %v", asked, err)
			}
		}
		time.Sleep(readyKept + time.Millisecond)
		p.write = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		if err := p.check(t.Context()); err == nil || errors.Is(err, context.DeadlineExceeded) || time.Since(began) != readyWithin {
			t.Errorf("a write that hangs: %v after %s", err, time.Since(began))
		}
	})
}
