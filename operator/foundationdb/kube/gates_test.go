package kube

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// At most 16 pods of a cluster are asked at once; those of another cluster do not wait for them.
func TestGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gates{size: podsAtOnce}
		var inside [2]atomic.Int32
		leave := make(chan struct{})
		for n := range 50 {
			cluster := n / 40 // 40 of the first, 10 of the second
			go func() {
				out, err := g.enter(t.Context(), []string{"a", "b"}[cluster])
				if err != nil {
					t.Error(err)
					return
				}
				inside[cluster].Add(1)
				<-leave
				inside[cluster].Add(-1)
				out()
			}()
		}
		synctest.Wait()
		if a, b := inside[0].Load(), inside[1].Load(); a != podsAtOnce || b != 10 {
			t.Errorf("%d and %d are inside", a, b)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("the pass ends"))
		if _, err := g.enter(ctx, "a"); err == nil || err.Error() != "the pass ends" {
			t.Errorf("a caller that ends got %v", err)
		}
		for range 10 + podsAtOnce {
			leave <- struct{}{}
		}
		synctest.Wait()
		if a, b := inside[0].Load(), inside[1].Load(); a != min(podsAtOnce, 24-b) {
			t.Errorf("after 26 have left %d and %d are inside", a, b)
		}
		close(leave)
		synctest.Wait()
		if len(g.names) > 0 {
			t.Errorf("left are %v", g.names)
		}
	})
}
