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

// The server's clock is set an hour forward and back again while two workers hold leases
// and runs wait. Every run ends, no completed step is repeated, and each attempt that
// starts again was reported as lost before.
func TestPostgresClockJumps(t *testing.T) {
	p, dsn := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	q := sqltest.ReopenPostgres(t, dsn)
	set := func(by time.Duration) {
		t.Helper()
		if _, err := q.DB.Pool.Exec(t.Context(), fmt.Sprintf(`CREATE OR REPLACE FUNCTION pawl_now() RETURNS bigint LANGUAGE sql STABLE AS
			$$ SELECT (extract(epoch FROM now()) * 1000000000)::bigint + %d $$`, by)); err != nil {
			t.Fatal(err)
		}
	}
	const runs = 20
	var mu sync.Mutex
	executed := map[string]int{}
	step := func(name string, takes time.Duration) workflow.Step {
		return workflow.Step{Name: name, Do: func(ctx context.Context, task *workflow.Task) outcome.Outcome {
			mu.Lock()
			executed[task.Key()]++
			mu.Unlock()
			select {
			case <-time.After(takes):
				return outcome.Done()
			case <-ctx.Done():
				return outcome.Fail(context.Cause(ctx))
			}
		}}
	}
	flow := workflow.Flow{Name: "Flow", Steps: []workflow.Step{
		step("A", 300*time.Millisecond), {Name: "Timer", Wait: &workflow.WaitFor{For: 100 * time.Millisecond}},
		step("B", 300*time.Millisecond), {Name: "Mail", Wait: &workflow.WaitFor{Signal: "go"}}, step("C", 10*time.Millisecond),
	}}
	serve := func(s *sql.Postgres, name string) *workflow.Engine {
		e, err := workflow.New(s, []workflow.Flow{flow}, workflow.Options{Worker: name, Lease: 600 * time.Millisecond, Drain: time.Millisecond,
			PollInterval: 200 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var served sync.WaitGroup
		served.Go(func() { _ = e.Serve(ctx) })
		t.Cleanup(func() { cancel(); served.Wait() })
		return e
	}
	one, two := serve(p, "one"), serve(q, "two")
	var ids []string
	for i := range runs {
		r, err := []*workflow.Engine{one, two}[i%2].Start(t.Context(), workflow.Request{Flow: "Flow", Subject: fmt.Sprintf("demo/default/c%d", i), RequestID: "1"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	for _, by := range []time.Duration{time.Hour, 0, time.Hour, 0} {
		<-time.After(150 * time.Millisecond)
		set(by)
	}
	deadline := time.Now().Add(60 * time.Second)
	lost := 0
	for _, id := range ids {
		if err := one.Send(t.Context(), id, runtype.Signal{ID: "1", Name: "go"}); err != nil {
			t.Fatal(err)
		}
		for {
			r, _, err := q.Load(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if r.Phase == runtype.Succeeded {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("run %s is %s at %+v, owner %q, epoch %d", id, r.Phase, r.Current(), r.Owner, r.Epoch)
			}
			<-time.After(20 * time.Millisecond)
		}
		events, err := q.History(t.Context(), id, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		begun, done := map[string]int{}, map[string]int{}
		for n, e := range events {
			if e.Seq != int64(n)+1 {
				t.Errorf("run %s: event %d has number %d", id, n, e.Seq)
			}
			switch e.Kind {
			case runtype.StepStarted:
				begun[e.Step]++
			case runtype.StepDoneEvent:
				done[e.Step]++
			case runtype.StepLost:
				lost++
			}
		}
		mu.Lock()
		for _, name := range []string{"A", "B", "C"} {
			if n := executed[id+"/"+name+"/0"]; done[name] != 1 || n < 1 || n > begun[name] {
				t.Errorf("run %s step %s: executed %d times, started %d, done %d", id, name, n, begun[name], done[name])
			}
		}
		mu.Unlock()
	}
	t.Logf("%d attempts were lost", lost)
}
