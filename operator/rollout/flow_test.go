package rollout

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/operator/rollout/pool"
	"github.com/pawl-dev/pawl/rollout"
)

// TestTheEndOfARunWakes: a run that ends wakes its Rollout, which looks at it at once; one that goes on is
// looked at when its time has come, and no wait for it is left then.
func TestTheEndOfARunWakes(t *testing.T) {
	for name, c := range map[string]struct {
		runs time.Duration
		want int // wakes
	}{"it ends": {300 * time.Millisecond, 1}, "it goes on": {time.Hour, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				woken := make(chan control.Ref, 1)
				o := &Operator{calls: pool.New(), now: time.Now, rollouts: &rollouts{now: time.Now, add: func(r control.Ref) { woken <- r }}}
				ask := rollout.Ask{Key: "backup", Kind: rollout.AskFlow}
				q := question{Ask: ask, asked: newAsked(), rollout: types.NamespacedName{Namespace: "shop", Name: "db"}}
				if !q.asked.begin(ask, time.Now()) {
					t.Fatal("it is not asked")
				}
				q.asked.end(ask.Key, rollout.Answer{})
				left := false
				o.awaitFlow(q, func(ctx context.Context) error {
					defer func() { left = true }()
					select {
					case <-time.After(c.runs):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
				time.Sleep(time.Second)
				synctest.Wait()
				if again := q.asked.begin(ask, time.Now()); len(woken) != c.want || again != (c.want == 1) {
					t.Errorf("after a second it was woken %d times, and looks again: %t", len(woken), again)
				}
				time.Sleep(flowPoll)
				synctest.Wait()
				if !left {
					t.Error("it is awaited still")
				}
				o.calls.Close()
			})
		})
	}
}
