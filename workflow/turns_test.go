package workflow

import (
	"context"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/workflow/internal/slots"
)

// TestFinding9ManyLeave: many drivers of suspected steps stop together, as after a lost lease. None
// of them keeps the turn.
func TestFinding9ManyLeave(t *testing.T) {
	stuck := 0
	for range 500 {
		e := &Engine{slots: slots.New(100, 0, func(string) int { return 0 })}
		var all []*driver
		for range 64 {
			d := &driver{s: &state{}, inbox: make(chan struct{}, 1), e: e, stopped: make(chan struct{})}
			d.holder.Wake = d.wake
			_, d.cancel = context.WithCancelCause(context.Background())
			e.slots.Isolate(&d.holder, 0)
			all = append(all, d)
		}
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for _, d := range all {
			wg.Go(func() { <-begin; d.stop() })
		}
		close(begin)
		wg.Wait()
		if !e.slots.Isolate(&slots.Holder{Wake: func() {}}, 0) {
			stuck++
		}
	}
	if stuck > 0 {
		t.Errorf("%d of 500 times a driver that is gone has the turn for ever", stuck)
	}
}
