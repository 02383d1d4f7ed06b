package workflow_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Two long steps of one run: the worker is killed from outside twice, the second time ten minutes
// after all turns have ended. No run is paused.
func TestFinding9TwoSuspectsOfOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := runstore.NewMemory()
		long := func(ctx context.Context, _ *workflow.Task) outcome.Outcome {
			select {
			case <-ctx.Done():
				return outcome.Fail(context.Cause(ctx))
			case <-time.After(time.Hour):
				return outcome.Done()
			}
		}
		flows := []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "P", Parallel: 2, Steps: []workflow.Step{
			{Name: "A", Do: long, Timeout: 3 * time.Hour}, {Name: "B", Do: long, Timeout: 3 * time.Hour}}}}}}
		var id string
		for life := range 3 {
			store := newCrashingStore(memory, 0, false)
			e, stop := worker(t, store, flows, workflow.Options{Worker: fmt.Sprint("w", life)})
			if life == 0 {
				run, err := e.Start(t.Context(), workflow.Request{Flow: "F", Subject: subject})
				want(t, err, error(nil))
				id = run.ID
			}
			time.Sleep(10 * time.Minute)
			run, _, err := memory.Load(t.Context(), id)
			want(t, err, error(nil))
			if run.Phase == runtype.Paused {
				t.Errorf("life %d: an innocent run is paused: %+v", life, run.Fault)
			}
			for rec := range run.Steps() {
				if rec.Isolated {
					t.Errorf("life %d: the turn of %s has not ended after ten minutes", life, rec.Name)
				}
			}
			store.mu.Lock()
			store.dead = true
			store.mu.Unlock()
			stop()
		}
	})
}

// The close of a bracket takes long, and its worker is killed from outside twice, ten minutes
// apart: no death counts.
func TestFinding9ACloseIsNotCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := runstore.NewMemory()
		long := func(ctx context.Context, _ *workflow.Task) outcome.Outcome {
			select {
			case <-ctx.Done():
				return outcome.Fail(context.Cause(ctx))
			case <-time.After(time.Hour):
				return outcome.Done()
			}
		}
		flows := []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "HA",
			Open:  &workflow.Step{Name: "Open", Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }},
			Close: &workflow.Step{Name: "Close", Do: long, Timeout: 3 * time.Hour}, Steps: []workflow.Step{{Name: "B", Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }}}}}}}
		var id string
		for life := range 3 {
			store := newCrashingStore(memory, 0, false)
			e, stop := worker(t, store, flows, workflow.Options{Worker: fmt.Sprint("w", life)})
			if life == 0 {
				run, err := e.Start(t.Context(), workflow.Request{Flow: "F", Subject: subject})
				want(t, err, error(nil))
				id = run.ID
			}
			time.Sleep(10 * time.Minute)
			run, _, err := memory.Load(t.Context(), id)
			want(t, err, error(nil))
			for rec := range run.Steps() {
				if rec.Failures > 0 || rec.Isolated {
					t.Errorf("life %d: %s has %d failures, in its turn: %t", life, rec.Name, rec.Failures, rec.Isolated)
				}
			}
			store.mu.Lock()
			store.dead = true
			store.mu.Unlock()
			stop()
		}
	})
}

// A step fails while its worker drains: the next worker heals it, with all attempts.
func TestFinding9AHealingIsLeftToTheNextWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := runstore.NewMemory()
		heals := 0
		options := workflow.Options{Logger: quiet(), Worker: "one", Healers: map[fault.Code]workflow.Healer{"TEST_BROKEN": {
			Limits: workflow.Limits{Attempts: 1},
			Do:     func(context.Context, *workflow.Task) outcome.Outcome { heals++; return outcome.Done() },
		}}}
		flows := []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "A", Do: func(context.Context, *workflow.Task) outcome.Outcome {
			if heals > 0 {
				return outcome.Done()
			}
			time.Sleep(time.Second)
			return outcome.Fail(broken.Errorf("no"))
		}}}}}
		e, stop := worker(t, store, flows, options)
		run, err := e.Start(t.Context(), workflow.Request{Flow: "F", Subject: subject})
		want(t, err, error(nil))
		time.Sleep(500 * time.Millisecond)
		stop() // drains: the step ends by itself within its grace period
		options.Worker = "two"
		_, stop = worker(t, store, flows, options)
		defer stop()
		time.Sleep(time.Hour)
		got, _, err := store.Load(t.Context(), run.ID)
		want(t, err, error(nil))
		want(t, got.Phase, runtype.Succeeded)
		want(t, heals, 1)
	})
}
