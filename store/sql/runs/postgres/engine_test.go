package postgres_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Two engines share the runs of one database. One loses its connections for ever. The
// other takes over, repeats no saved step, and epochs only rise.
func TestPostgresAnotherEngineTakesOver(t *testing.T) {
	p, dsn := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	q := sqltest.ReopenPostgres(t, dsn)
	const runs, steps = 30, 5
	var mu sync.Mutex
	done := map[string]int{}       // key of a step → times it was executed
	epochs := map[string]int64{}   // run → newest epoch seen
	halfway := make(chan struct{}) // closed by the first step in the middle of the runs
	var once sync.Once
	serve := func(s *sql.Postgres, name string) (*workflow.Engine, func()) {
		flow := workflow.Flow{Name: "Flow"}
		for i := range steps {
			flow.Steps = append(flow.Steps, workflow.Step{Name: fmt.Sprintf("Step%d", i), Do: func(ctx context.Context, task *workflow.Task) outcome.Outcome {
				mu.Lock()
				defer mu.Unlock()
				done[task.Key()]++
				if task.Epoch() < epochs[task.RunID()] {
					t.Errorf("%s was executed at epoch %d after %d", task.Key(), task.Epoch(), epochs[task.RunID()])
				}
				epochs[task.RunID()] = task.Epoch()
				if i == steps/2 {
					once.Do(func() { close(halfway) })
				}
				return outcome.Done()
			}})
		}
		e, err := workflow.New(s, []workflow.Flow{flow}, workflow.Options{Worker: name, Lease: 600 * time.Millisecond, Drain: time.Millisecond,
			PollInterval: 200 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var served sync.WaitGroup
		served.Go(func() { _ = e.Serve(ctx) })
		stop := func() { cancel(); served.Wait() }
		t.Cleanup(stop)
		return e, stop
	}
	one, _ := serve(p, "one")
	for sqltest.Count(t, q, `SELECT count(*) FROM worker WHERE name = 'one'`) == 0 { // then its lease is as short as requested
		<-time.After(5 * time.Millisecond)
	}
	var ids []string
	for i := range runs {
		r, err := one.Start(t.Context(), workflow.Request{Flow: "Flow", Subject: fmt.Sprintf("demo/default/c%d", i), RequestID: "1"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	<-halfway
	cut(p)
	serve(q, "two")
	deadline := time.Now().Add(60 * time.Second)
	for _, id := range ids {
		for {
			r, _, err := q.Load(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if r.Phase == runtype.Succeeded {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("run %s is %s, owner %q, epoch %d", id, r.Phase, r.Owner, r.Epoch)
			}
			<-time.After(20 * time.Millisecond)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	again := 0
	for key, n := range done {
		if n > 2 {
			t.Errorf("%s was executed %d times", key, n)
		}
		again += n - 1
	}
	if len(done) != runs*steps || again > runs {
		t.Errorf("%d steps of %d, %d of them repeated; want at most one a run", len(done), runs*steps, again)
	}
}
