package pool

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New()
		var now, most, mine, mostOfMine, ended atomic.Int32
		up := func(n, peak *atomic.Int32) {
			if is := n.Add(1); is > peak.Load() {
				peak.Store(is)
			}
		}
		slow := types.NamespacedName{Name: "slow"}
		for range 100 {
			p.Add(slow, func(context.Context) {
				up(&now, &most)
				up(&mine, &mostOfMine)
				time.Sleep(10 * time.Second)
				mine.Add(-1)
				now.Add(-1)
			})
		}
		start := time.Now()
		for i := range 200 {
			p.Add(types.NamespacedName{Name: strconv.Itoa(i)}, func(context.Context) {
				up(&now, &most)
				time.Sleep(time.Second)
				now.Add(-1)
				ended.Add(1)
			})
		}
		for ended.Load() < 200 {
			time.Sleep(time.Second / 2)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("200 calls of others took %s", took)
		}
		if most.Load() != maxCalls || mostOfMine.Load() != maxCallsOfOne {
			t.Errorf("%d calls at once, %d of one", most.Load(), mostOfMine.Load())
		}
		p.Close()
		if now.Load() != 0 {
			t.Errorf("%d calls after the end", now.Load())
		}
		p.Add(slow, func(context.Context) { t.Error("a call after the end") })
		synctest.Wait()
	})
}
