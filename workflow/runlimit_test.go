package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
	"github.com/pawl-dev/pawl/workflow/workflowtest"
)

// byProvider limits the runs of a flow by input.provider.
func byProvider(atOnce int) []workflow.RunLimit {
	return []workflow.RunLimit{{AtOnce: atOnce, KeyText: "provider/${input.provider}", Key: func(v workflow.View) (string, error) {
		var in struct{ Provider string }
		err := json.Unmarshal(v.Input(), &in)
		if err != nil || in.Provider == "" {
			return "", err
		}
		return "provider/" + in.Provider, nil
	}}}
}

func sleeping(name string, limits []workflow.RunLimit) workflow.Flow {
	return workflow.Flow{Name: name, Limits: limits, Steps: []workflow.Step{{Name: "A", Do: func(context.Context, *workflow.Task) outcome.Outcome {
		time.Sleep(time.Second)
		return outcome.Done()
	}}}}
}

// TestRunsOfAKeyTakeTurns: two workers on one store execute one run of a key at a time, in order, and runs of other keys
// beside it.
func TestRunsOfAKeyTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &flaky{Memory: runstore.NewMemory()}
		flows := []workflow.Flow{sleeping("Limited", byProvider(1))}
		one, stopOne := worker(t, store, flows, workflow.Options{Worker: "one"})
		defer stopOne()
		_, stopTwo := worker(t, store, flows, workflow.Options{Worker: "two"})
		defer stopTwo()
		start := func(n, priority int, input string) string {
			run, err := one.Start(t.Context(), workflow.Request{Flow: "Limited", Subject: fmt.Sprint("kind/space/", n), Priority: priority, Input: []byte(input)})
			want(t, err, error(nil))
			return run.ID
		}
		const aws = `{"provider":"aws"}`
		first, second, third := start(1, 0, aws), start(2, 0, aws), start(3, 1, aws)
		other, free := start(4, 0, `{"provider":"gcp"}`), start(5, 0, `{}`)
		synctest.Wait()
		want(t, phase(t, store.Memory, second), runtype.Queued)
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		for _, id := range []string{first, other, free} {
			want(t, phase(t, store.Memory, id), runtype.Succeeded)
		}
		want(t, phase(t, store.Memory, third), runtype.Running)
		want(t, phase(t, store.Memory, second), runtype.Queued)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		want(t, phase(t, store.Memory, second), runtype.Succeeded)
	})
}

// TestWaitingRunIsCancelled: a run that waits for a limit ends without a limit, and the runs behind it go on.
func TestWaitingRunIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &flaky{Memory: runstore.NewMemory()}
		e, stop := worker(t, store, []workflow.Flow{sleeping("Limited", []workflow.RunLimit{{Key: workflow.FixedKey("all"), AtOnce: 1}})}, workflow.Options{})
		defer stop()
		var ids []string
		for n := range 3 {
			run, err := e.Start(t.Context(), workflow.Request{Flow: "Limited", Subject: fmt.Sprint("kind/space/", n)})
			want(t, err, error(nil))
			ids = append(ids, run.ID)
		}
		l, err := e.Find(t.Context(), ids[1])
		want(t, err, error(nil))
		want(t, e.SendRequest(t.Context(), l, runtype.VerbCancel, workflow.RunRequest{Mode: runtype.Drop}), error(nil))
		synctest.Wait()
		want(t, phase(t, store.Memory, ids[1]), runtype.Cancelled)
		want(t, phase(t, store.Memory, ids[2]), runtype.Queued)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		want(t, phase(t, store.Memory, ids[2]), runtype.Succeeded)
	})
}

// TestSubflowUsesTheLimitOfItsParent: a sub-flow with the key of its parent acquires no second limit; one with another
// key is refused, and the remedy helps: with the limit at the parent the run succeeds.
func TestSubflowUsesTheLimitOfItsParent(t *testing.T) {
	limit := func(keys ...string) (list []workflow.RunLimit) {
		for _, key := range keys {
			list = append(list, workflow.RunLimit{Key: workflow.FixedKey(key), AtOnce: 1})
		}
		return list
	}
	for name, c := range map[string]struct {
		parent, child []workflow.RunLimit
		code          fault.Code
	}{
		"same key":               {limit("a"), limit("a"), ""},
		"parent without a limit": {nil, limit("a"), ""},
		"another key":            {limit("a"), limit("b"), workflow.LimitNotHeld.Code},
		"the remedy":             {limit("a", "b"), limit("b"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &flaky{Memory: runstore.NewMemory()}
				parent := workflow.Flow{Name: "Parent", Limits: c.parent, Steps: []workflow.Step{{Name: "Sub", Flow: "Child"}}}
				e, stop := worker(t, store, []workflow.Flow{parent, sleeping("Child", c.child)}, workflow.Options{})
				defer stop()
				run, err := e.Start(t.Context(), workflow.Request{Flow: "Parent", Subject: "kind/space/1"})
				want(t, err, error(nil))
				time.Sleep(10 * time.Second)
				synctest.Wait()
				r, err := e.Get(t.Context(), run.ID)
				want(t, err, error(nil))
				if c.code == "" {
					want(t, r.Phase, runtype.Succeeded)
					return
				}
				want(t, r.Phase, runtype.Paused)
				want(t, r.Fault.Code, c.code)
			})
		})
	}
}

// unlimited is a store that keeps no limits.
type unlimited struct{ runstore.Store }

// TestLimitsAreRefused: by a store that keeps none; invalid keys and priorities are refused too.
func TestLimitsAreRefused(t *testing.T) {
	long := make([]byte, runtype.MaxLimitKey+1)
	for i := range long {
		long[i] = 'k'
	}
	for name, c := range map[string]struct {
		store    runstore.Store
		key      string
		priority int
		want     *fault.Kind
	}{
		"a store without limits":              {unlimited{runstore.NewMemory()}, "k", 0, workflow.LimitsNotKept},
		"the remedy: no limit":                {unlimited{runstore.NewMemory()}, "", 0, nil},
		"the remedy: a store that keeps them": {runstore.NewMemory(), "k", 0, nil},
		"a long key":                          {runstore.NewMemory(), string(long), 0, runtype.InputInvalid},
		"a high priority":                     {runstore.NewMemory(), "k", 1001, workflow.PriorityInvalid},
		"the highest priority":                {runstore.NewMemory(), "k", 1000, nil},
	} {
		e, err := workflow.New(c.store, []workflow.Flow{sleeping("Limited", []workflow.RunLimit{{Key: workflow.FixedKey(c.key), AtOnce: 1}})}, workflow.Options{})
		want(t, err, error(nil))
		_, err = e.Start(t.Context(), workflow.Request{Flow: "Limited", Subject: "kind/space/1", Priority: c.priority})
		if (err == nil) != (c.want == nil) || err != nil && fault.Of(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, limits := range [][]workflow.RunLimit{{{AtOnce: 1}}, {{Key: workflow.FixedKey("k")}}, make([]workflow.RunLimit, 9)} {
		if _, err := workflow.New(runstore.NewMemory(), []workflow.Flow{sleeping("Limited", limits)}, workflow.Options{}); fault.Of(err) != workflow.FlowInvalid {
			t.Errorf("%d limits: %v", len(limits), err)
		}
	}
}

// passing are two flows with one limit: Parent holds the limit while its sub-flow needs a subject, and Limited waits for the limit.
func passing(aSecond workflow.Func) []workflow.Flow {
	limits := []workflow.RunLimit{{Key: workflow.FixedKey("k"), AtOnce: 1}}
	other := func(v workflow.View) (string, error) { return "kind/space/other", nil }
	return []workflow.Flow{
		{Name: "Parent", Limits: limits, Steps: []workflow.Step{{Name: "A", Do: aSecond}, {Name: "Sub", Flow: "Child", FlowSubject: other}}},
		{Name: "Child", Steps: []workflow.Step{{Name: "B", Do: aSecond}}},
		{Name: "Limited", Limits: limits, Steps: []workflow.Step{{Name: "C", Do: aSecond}}},
	}
}

// TestSubflowPassesARunThatWaitsForItsParent: a limited run holds the subject that a sub-flow needs, and waits for the limit of the
// parent. The sub-flow passes it, and all three end, also when a process dies before or after any save.
func TestSubflowPassesARunThatWaitsForItsParent(t *testing.T) {
	workflowtest.EveryCrash(t, func(t *testing.T, crash *workflowtest.Crash) {
		env := workflowtest.New(t, workflowtest.Options{Crash: crash, Flows: passing(func(context.Context, *workflow.Task) outcome.Outcome {
			time.Sleep(time.Second)
			return outcome.Done()
		})})
		parent := env.Start(workflow.Request{Flow: "Parent", Subject: "kind/space/parent"})
		limited := env.Start(workflow.Request{Flow: "Limited", Subject: "kind/space/other"})
		env.Pass(10 * time.Minute)
		parent.WantPhase(runtype.Succeeded)
		limited.WantPhase(runtype.Succeeded)
		parent.WantOrder("A", "Sub")
	})
}

// rowStore counts the runs that are read with their steps, and those that are read as rows.
type rowStore struct {
	*runstore.Memory
	mu          sync.Mutex
	loads, rows map[string]int
}

func (s *rowStore) Load(ctx context.Context, id string) (*runtype.Run, []runtype.Signal, error) {
	s.mu.Lock()
	s.loads[id]++
	s.mu.Unlock()
	return s.Memory.Load(ctx, id)
}

func (s *rowStore) List(ctx context.Context, q runstore.Query) ([]*runtype.Run, string, error) {
	s.mu.Lock()
	for _, id := range q.IDs {
		s.rows[id]++
	}
	s.mu.Unlock()
	return s.Memory.List(ctx, q)
}

// TestHeldKeysReadsRows: whether a sub-flow of a sub-flow may use the limit of its first parent is read from rows: the steps of the
// parents, which may be thousands, are not.
func TestHeldKeysReadsRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := []workflow.RunLimit{{Key: workflow.FixedKey("k"), AtOnce: 1}}
		store := &rowStore{Memory: runstore.NewMemory(), loads: map[string]int{}, rows: map[string]int{}}
		e, stop := worker(t, store, []workflow.Flow{
			{Name: "First", Limits: limits, Steps: []workflow.Step{{Name: "Sub", Flow: "Second"}}},
			{Name: "Second", Steps: []workflow.Step{{Name: "Sub", Flow: "Third"}}},
			sleeping("Third", limits),
		}, workflow.Options{})
		run, err := e.Start(t.Context(), workflow.Request{Flow: "First", Subject: "kind/space/1"})
		want(t, err, error(nil))
		time.Sleep(10 * time.Second)
		stop()
		want(t, phase(t, store.Memory, run.ID), runtype.Succeeded)
		want(t, store.loads[run.ID], 0)
		want(t, store.rows[run.ID], 1)
	})
}
