package workflow_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// claimCounter counts claims.
type claimCounter struct {
	*flaky
	claims atomic.Int64
}

func (a *claimCounter) Claim(ctx context.Context, c runstore.Claim) (runstore.Claimed, error) {
	a.claims.Add(1)
	return a.flaky.Claim(ctx, c)
}

// sleepFlow returns a flow of one step that takes the given time.
func sleepFlow(d time.Duration, limit int) []workflow.Flow {
	return []workflow.Flow{{Name: "Lasting", Limit: limit, Steps: []workflow.Step{{Name: "A", Do: func(context.Context, *workflow.Task) outcome.Outcome {
		time.Sleep(d)
		return outcome.Done()
	}}}}}
}

// begin starts a run and returns its id.
func begin(t *testing.T, e *workflow.Engine, n int) string {
	t.Helper()
	run, err := e.Start(t.Context(), workflow.Request{Flow: "Lasting", Subject: fmt.Sprint("kind/space/", n)})
	want(t, err, error(nil))
	return run.ID
}

// TestFreeSlotAsksForNothing: after a worker has claimed every due run, the end of an attempt
// causes no claim.
func TestFreeSlotAsksForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &claimCounter{flaky: &flaky{Memory: runstore.NewMemory()}}
		e, stop := worker(t, store, sleepFlow(0, 0), workflow.Options{})
		defer stop()
		synctest.Wait()
		before := store.claims.Load()
		for n := range 100 {
			id := begin(t, e, n)
			synctest.Wait()
			want(t, phase(t, store.Memory, id), runtype.Succeeded)
		}
		want(t, store.claims.Load()-before, int64(0))
	})
}

// TestFreeSlotClaimsWhatWasLeft: runs that found no free slot are claimed as soon as a slot is
// free, with or without a wake-up.
func TestFreeSlotClaimsWhatWasLeft(t *testing.T) {
	for name, limits := range map[string]struct{ attempts, flow int }{"of the worker": {1, 0}, "of the flow": {8, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &flaky{Memory: runstore.NewMemory()}
				flows := sleepFlow(10*time.Millisecond, limits.flow)
				client, err := workflow.New(store, flows, workflow.Options{})
				want(t, err, error(nil))
				_, stop := worker(t, store, flows, workflow.Options{Attempts: limits.attempts})
				defer stop()
				var ids []string
				for n := range 5 {
					ids = append(ids, begin(t, client, n))
					synctest.Wait()
				}
				time.Sleep(50 * time.Millisecond)
				synctest.Wait()
				for _, id := range ids {
					want(t, phase(t, store.Memory, id), runtype.Succeeded)
				}
			})
		})
	}
}

// TestFreeSlotFindsRunsWithoutWake: a worker whose attempts end finds a run whose wake-up was lost,
// before the poll interval is over.
func TestFreeSlotFindsRunsWithoutWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &flaky{Memory: runstore.NewMemory(), deaf: true}
		flows := sleepFlow(2*time.Second, 0)
		client, err := workflow.New(store, flows, workflow.Options{})
		want(t, err, error(nil))
		e, stop := worker(t, store, flows, workflow.Options{})
		defer stop()
		synctest.Wait()
		begin(t, e, 1)
		untold := begin(t, client, 2)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		want(t, phase(t, store.Memory, untold), runtype.Succeeded)
	})
}
