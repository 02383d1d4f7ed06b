package sqlstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store/sqlstore/pgtest"
	"github.com/pawl-dev/pawl/workflow"
)

// postgres opens a store on a fresh database.
func postgres(t testing.TB, o pgtest.Options) (*Postgres, string) {
	t.Helper()
	dsn := pgtest.Start(t, o).Database(t)
	return reopen(t, dsn), dsn
}

// reopen opens another store on the same database: another process, as far as it can tell.
func reopen(t testing.TB, dsn string) *Postgres {
	t.Helper()
	p, err := openPostgres(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func newRun(i int) *workflow.Run {
	return &workflow.Run{ID: fmt.Sprintf("run%05d", i), Flow: "Flow", Version: 1, Hash: "hash", Subject: fmt.Sprintf("demo/default/c%d", i), Phase: workflow.Running, CreatedAt: time.Now()}
}

// walk makes the saves of a run of n steps as an engine does: each closes a step and opens the next.
func walk(ctx context.Context, p workflow.Store, r *workflow.Run, n int) error {
	r.Owner, r.Epoch = "w", 1
	now := time.Now()
	r, err := p.Create(ctx, r, []workflow.Event{{Seq: 1, At: now, Kind: workflow.RunCreated}})
	if err != nil {
		return err
	}
	seq := int64(1)
	for i := range n + 1 {
		now = time.Now()
		var events []workflow.Event
		add := func(kind workflow.EventKind, step string) {
			seq++
			events = append(events, workflow.Event{Seq: seq, At: now, Kind: kind, Step: step, Attempt: 1})
		}
		if i > 0 {
			s := r.Step(fmt.Sprintf("Step%d", i))
			s.Phase, s.EndedAt = workflow.StepDone, now
			r.Put(s)
			add(workflow.StepFinished, s.Name)
		}
		if i < n {
			s := &workflow.StepRecord{Name: fmt.Sprintf("Step%d", i+1), Ord: int64(i + 1), Phase: workflow.StepRunning, Attempt: 1, StartedAt: now, AttemptAt: now}
			r.Put(s)
			add(workflow.StepStarted, s.Name)
		} else {
			r.Phase, r.EndedAt, r.Owner = workflow.Succeeded, now, ""
			add(workflow.RunSucceeded, "")
		}
		r.Seq = seq
		if err := p.Save(ctx, &workflow.Save{Run: r, Events: events}); err != nil {
			return err
		}
	}
	return nil
}

func TestPostgresWalk(t *testing.T) {
	p, _ := postgres(t, pgtest.Options{NoSync: true})
	ctx := t.Context()
	if err := walk(ctx, p, newRun(1), 10); err != nil {
		t.Fatal(err)
	}
	r, _, err := p.Load(ctx, "run00001")
	if err != nil || r.Len() != 10 || r.Phase != workflow.Succeeded || r.Revision != 12 {
		t.Fatalf("after the walk: %+v, %v", r, err)
	}
	h, err := p.History(ctx, "run00001", 0, 0)
	if err != nil || len(h) != 22 {
		t.Fatalf("history: %d events, %v", len(h), err)
	}
	all, _, err := p.Events(ctx, "", 100)
	if err != nil || len(all) != 22 {
		t.Fatalf("events: %d, %v", len(all), err)
	}
}

// Measured as the duties of workflow.md 9 ask: flows of 10 steps, 1,000 runs of
// as many subjects, 100 at once, with every commit flushed.
func BenchmarkPostgresSteps(b *testing.B) {
	p, _ := postgres(b, pgtest.Options{})
	const runs, steps, at = 1000, 10, 100
	round := 0
	for b.Loop() {
		var next atomic.Int64
		var wg sync.WaitGroup
		var failed atomic.Value
		start := time.Now()
		for range at {
			wg.Go(func() {
				for {
					i := next.Add(1)
					if i > runs {
						return
					}
					if err := walk(b.Context(), p, newRun(round*runs+int(i)), steps); err != nil {
						failed.Store(err)
						return
					}
				}
			})
		}
		wg.Wait()
		round++
		if err, _ := failed.Load().(error); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(runs*steps/time.Since(start).Seconds(), "steps/s")
	}
}

func BenchmarkPostgresAlone(b *testing.B) {
	p, _ := postgres(b, pgtest.Options{})
	i := 0
	for b.Loop() {
		i++
		if err := walk(b.Context(), p, newRun(i), 10); err != nil {
			b.Fatal(err)
		}
	}
}

