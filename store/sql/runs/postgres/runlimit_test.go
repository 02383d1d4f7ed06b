package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// TestLimitsOfServers: three servers on one database execute at most two runs of a key at once, also while one of them
// loses its database, and every run ends.
func TestLimitsOfServers(t *testing.T) {
	const runs, atOnce = 24, 2
	var mu sync.Mutex
	busy := map[string]map[string]int{} // key → run → attempts
	count := func(key, run string, n int) {
		mu.Lock()
		defer mu.Unlock()
		if busy[key] == nil {
			busy[key] = map[string]int{}
		}
		if busy[key][run] += n; busy[key][run] == 0 {
			delete(busy[key], run)
		}
		if len(busy[key]) > atOnce {
			t.Errorf("%d runs of %s run at once", len(busy[key]), key)
		}
	}
	key := func(subject string) string { return strings.Split(subject, "/")[1] }
	step := func(_ context.Context, task *workflow.Task) outcome.Outcome {
		count(key(task.Subject()), task.RunID(), 1)
		time.Sleep(2 * time.Millisecond)
		count(key(task.Subject()), task.RunID(), -1)
		return outcome.Done()
	}
	flow := workflow.Flow{
		Name:   "Limited",
		Limits: []workflow.RunLimit{{Key: func(v workflow.View) (string, error) { return key(v.Run().Subject), nil }, AtOnce: atOnce}},
		Steps:  []workflow.Step{{Name: "A", Do: step}, {Name: "B", Do: step}},
	}
	first, dsn := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	serve := func(name string, store *sql.Postgres) *workflow.Engine {
		e, err := workflow.New(store, []workflow.Flow{flow}, workflow.Options{Worker: name, Lease: time.Second, Drain: time.Second, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() { _ = e.Serve(ctx) })
		return e
	}
	e := serve("first", first)
	serve("second", sqltest.ReopenPostgres(t, dsn))
	doomed := sqltest.ReopenPostgres(t, dsn)
	serve("doomed", doomed)
	for i := range runs {
		if _, err := e.Start(ctx, workflow.Request{Flow: "Limited", Subject: fmt.Sprintf("kind/key%d/%d", i%3, i)}); err != nil {
			t.Fatal(err)
		}
		if i == runs/2 {
			cut(doomed)
		}
	}
	for deadline := time.Now().Add(60 * time.Second); ; {
		ended, _, err := first.List(ctx, runstore.Query{Phases: []runtype.Phase{runtype.Succeeded}, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if len(ended) == runs {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d runs have ended", len(ended), runs)
		}
		select {
		case <-first.Wake():
		case <-time.After(50 * time.Millisecond):
		}
	}
	limits, err := first.RunLimits(ctx, "", 0)
	if err != nil || len(limits) != 0 {
		t.Errorf("left: %+v, %v", limits, err)
	}
}

// limitedServers are two engines on one database. They stop with the test.
func limitedServers(t *testing.T, flows func(worker string) []workflow.Flow) (store *sql.Postgres, engines []*workflow.Engine) {
	t.Helper()
	store, dsn := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	for i, s := range []*sql.Postgres{store, sqltest.ReopenPostgres(t, dsn)} {
		worker := fmt.Sprint("w", i)
		served, err := workflow.New(s, flows(worker), workflow.Options{Worker: worker, Drain: time.Second, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() { _ = served.Serve(ctx) })
		engines = append(engines, served)
	}
	return store, engines
}

// succeed waits until runs have ended, and checks that they have succeeded.
func succeed(t *testing.T, e *workflow.Engine, runs []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	for _, id := range runs {
		r, err := e.Await(ctx, id)
		if err != nil {
			t.Fatalf("run %s: %v", id, err)
		}
		if r.Phase != runtype.Succeeded {
			t.Errorf("run %s, %s of %s: %s with number %d, parent %s, %v", r.ID, r.Flow, r.Subject, r.Phase, r.Queue, r.Parent, r.Fault)
		}
	}
}

// TestLimitedStepsOfServers: two servers on one database call a provider three times at once at most, and do call it three times at
// once; every run ends, and no limit is left.
func TestLimitedStepsOfServers(t *testing.T) {
	const runs, atOnce = 30, 3
	var mu sync.Mutex
	open, most := 0, 0
	workers := map[string]int{}
	full := make(chan struct{}) // closed once as many are open as may be
	limits := []workflow.StepLimit{{Key: workflow.FixedKey("provider"), AtOnce: atOnce}}
	_, engines := limitedServers(t, func(worker string) []workflow.Flow {
		call := func(ctx context.Context, _ *workflow.Task) outcome.Outcome {
			mu.Lock()
			open++
			workers[worker]++
			if most = max(most, open); most == atOnce && open == atOnce {
				select {
				case <-full:
				default:
					close(full)
				}
			}
			mu.Unlock()
			select {
			case <-full:
			case <-ctx.Done():
			}
			time.Sleep(20 * time.Millisecond) // what the provider takes
			mu.Lock()
			open--
			mu.Unlock()
			return outcome.Done()
		}
		return []workflow.Flow{{Name: "Calls", Steps: []workflow.Step{{Name: "A", Do: call, Limits: limits}, {Name: "B", Do: call, Limits: limits}}}}
	})
	var started []string
	for i := range runs {
		r, err := engines[i%2].Start(t.Context(), workflow.Request{Flow: "Calls", Subject: fmt.Sprint("kind/space/", i)})
		if err != nil {
			t.Fatal(err)
		}
		started = append(started, r.ID)
	}
	began := time.Now()
	succeed(t, engines[0], started)
	t.Logf("%d attempts of 20 ms, three at once: %s", 2*runs, time.Since(began))
	mu.Lock()
	defer mu.Unlock()
	if most != atOnce {
		t.Errorf("%d attempts at once, want %d", most, atOnce)
	}
	if len(workers) != 2 {
		t.Errorf("the attempts were those of %v: the limit was not shared", workers)
	}
	keys, err := engines[0].StepLimits(t.Context(), "", 0)
	for _, k := range keys {
		if len(k.Holders)+len(k.Waiters) > 0 {
			t.Errorf("left of %s: %v hold, %v wait", k.Key, k.Holders, k.Waiters)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// TestSubflowsOfServersPassLimitedRuns: runs with limits wait for sub-flows whose subjects are those of runs that wait for the limit.
// Two servers decide at the same time, and every run ends.
func TestSubflowsOfServersPassLimitedRuns(t *testing.T) {
	const rounds, subjects = 12, 3
	limits := []workflow.RunLimit{{Key: workflow.FixedKey("k"), AtOnce: 2}}
	step := workflow.Step{Name: "A", Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }}
	var each []workflow.Step
	for i := range subjects {
		each = append(each, workflow.Step{Name: fmt.Sprint("Sub", i), Flow: "Child", FlowSubject: func(workflow.View) (string, error) { return fmt.Sprint("kind/space/", i), nil }})
	}
	flows := []workflow.Flow{
		{Name: "Parent", Limits: limits, Steps: each},
		{Name: "Child", Steps: []workflow.Step{step}},
		{Name: "Limited", Limits: limits, Steps: []workflow.Step{step}},
		{Name: "Plain", Steps: []workflow.Step{step}},
	}
	store, engines := limitedServers(t, func(string) []workflow.Flow { return flows })
	var started []string
	start := func(flow, subject string) {
		r, err := engines[len(started)%2].Start(t.Context(), workflow.Request{Flow: flow, Subject: subject, RequestID: fmt.Sprint(len(started))})
		if err != nil {
			t.Fatal(err)
		}
		started = append(started, r.ID)
	}
	for i := range rounds {
		start("Parent", fmt.Sprint("kind/space/parent", i))
		for j := range subjects {
			start("Limited", fmt.Sprint("kind/space/", j))
		}
		start("Plain", fmt.Sprint("kind/space/", i%subjects))
	}
	succeed(t, engines[0], started)
	list, err := store.RunLimits(t.Context(), "", 0)
	if err != nil || len(list) != 0 {
		t.Errorf("left: %+v, %v", list, err)
	}
}
