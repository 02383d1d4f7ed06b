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
	limits, err := first.Limits(ctx, "", 0)
	if err != nil || len(limits) != 0 {
		t.Errorf("left: %+v, %v", limits, err)
	}
}
