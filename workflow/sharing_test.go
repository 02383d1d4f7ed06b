package workflow_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// chainingStore starts the next run when the end of a run is durable, as clients do.
type chainingStore struct {
	*claimCounter
	next     func()
	unowned  atomic.Int64
	renewals atomic.Int64
	defined  atomic.Int64
	loads    atomic.Int64
}

func (c *chainingStore) Save(ctx context.Context, s *runstore.Save) error {
	err := c.claimCounter.Save(ctx, s)
	if err == nil && s.Run.Phase.Final() && c.next != nil {
		c.next()
	}
	return err
}

func (c *chainingStore) Create(ctx context.Context, r *runtype.Run, events []runtype.Event) (*runtype.Run, error) {
	if r.Owner == "" {
		c.unowned.Add(1)
	}
	return c.claimCounter.Create(ctx, r, events)
}

func (c *chainingStore) Renew(ctx context.Context, worker string, lease time.Duration) error {
	c.renewals.Add(1)
	time.Sleep(time.Millisecond)
	return c.claimCounter.Renew(ctx, worker, lease)
}

func (c *chainingStore) PutDefinition(ctx context.Context, d runstore.Definition) error {
	c.defined.Add(1)
	time.Sleep(time.Millisecond)
	return c.claimCounter.PutDefinition(ctx, d)
}

func (c *chainingStore) Load(ctx context.Context, id string) (*runtype.Run, []runtype.Signal, error) {
	c.loads.Add(1)
	return c.claimCounter.Load(ctx, id)
}

// TestFinding15AnEndFreesItsSlotFirst: a client that reads the end of a run and starts the next one
// finds its slot free. So the run is claimed on creation: no worker is notified and none claims.
func TestFinding15AnEndFreesItsSlotFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &chainingStore{claimCounter: &claimCounter{flaky: &flaky{Memory: runstore.NewMemory()}}}
		e, stop := worker(t, store, sleepFlow(0, 0), workflow.Options{Attempts: 1})
		defer stop()
		synctest.Wait()
		started := 0
		store.next = func() {
			if started++; started < 100 {
				begin(t, e, started)
			}
		}
		before := store.claims.Load()
		begin(t, e, 0)
		synctest.Wait()
		want(t, started, 100)
		want(t, store.unowned.Load(), int64(0))
		want(t, store.claims.Load()-before, int64(0))
	})
}

// TestFinding15RunsAtOnceRenewOnce: concurrent first runs of a worker share one renewal of the
// lease and store the definition once.
func TestFinding15RunsAtOnceRenewOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &chainingStore{claimCounter: &claimCounter{flaky: &flaky{Memory: runstore.NewMemory()}}}
		e, stop := worker(t, store, sleepFlow(0, 0), workflow.Options{Attempts: 50})
		defer stop()
		synctest.Wait()
		var all sync.WaitGroup
		for n := range 50 {
			all.Go(func() { begin(t, e, n) })
		}
		all.Wait()
		synctest.Wait()
		want(t, store.renewals.Load(), int64(1))
		want(t, store.defined.Load(), int64(1))
		want(t, store.loads.Load(), int64(0))
	})
}
