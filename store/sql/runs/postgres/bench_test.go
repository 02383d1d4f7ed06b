package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow/runtype"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/raw"
	"github.com/pawl-dev/pawl/workflow"
)

// pgBench is an engine that runs a flow of ten no-op steps on PostgreSQL, with every
// commit flushed.
type pgBench struct {
	engine *workflow.Engine
	dsn    string
	stats  func() db.Stats
	ended  sync.Map // run id → chan struct{}
}

func newPGBench(b *testing.B) *pgBench {
	dsn := pgtest.Start(b, pgtest.Options{}).Database(b)
	store, err := sql.Open(b.Context(), sql.Options{DSN: dsn})
	if err != nil {
		b.Fatal(err)
	}
	x := &pgBench{dsn: dsn, stats: store.Stats}
	steps := make([]workflow.Step, 10)
	for i := range steps {
		steps[i] = workflow.Step{Name: fmt.Sprintf("step-%d", i), Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }}
	}
	x.engine, err = workflow.New(store, []workflow.Flow{{Name: "Bench", Steps: steps}}, workflow.Options{
		Attempts: 128, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Hooks: []workflow.Hook{{Name: "end", OnEvent: func(run workflow.RunInfo, e runtype.Event) {
			if e.Kind == runtype.RunSucceeded {
				close(x.end(run.ID))
			}
		}}},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- x.engine.Serve(ctx) }()
	b.Cleanup(func() {
		cancel()
		<-served
		store.Close()
	})
	return x
}

func (x *pgBench) end(id string) chan struct{} {
	done, _ := x.ended.LoadOrStore(id, make(chan struct{}))
	return done.(chan struct{})
}

// cpu returns the processor time of this process and of the server's backends so far.
// Unlike the clock, it shows the cost of a step on a busy machine too. Linux only.
func (x *pgBench) cpu(b *testing.B) (client, server time.Duration) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	c, err := pgx.Connect(b.Context(), x.dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(b.Context())
	rows, err := c.Query(b.Context(), "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
	if err != nil {
		b.Fatal(err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		b.Fatal(err)
	}
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		for _, field := range fields[11:13] { // user and system time
			ticks, _ := strconv.Atoi(field)
			server += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), server
}

// costs returns a function that reports the processor time and the commits since this
// call, for each of n operations.
func (x *pgBench) costs(b *testing.B) func(n int) {
	client, server := x.cpu(b)
	commits := x.stats().Commits
	return func(n int) {
		c, s := x.cpu(b)
		each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
		b.ReportMetric(each(c-client), "client-µs/op")
		b.ReportMetric(each(s-server), "server-µs/op")
		b.ReportMetric(float64(x.stats().Commits-commits)/float64(n), "commits/op")
	}
}

func (x *pgBench) run(b *testing.B, i int) {
	r, err := x.engine.Start(b.Context(), workflow.Request{Flow: "Bench", Subject: fmt.Sprintf("bench/default/%d", i), RequestID: "1"})
	if err != nil {
		b.Error(err)
		return
	}
	for done, ended := x.end(r.ID), false; !ended; {
		select {
		case <-done:
			ended = true
		case <-time.After(5 * time.Second): // a busy engine drops events of hooks
			r, err := x.engine.Get(b.Context(), r.ID)
			ended = err != nil || r.Phase.Final()
		}
	}
	x.ended.Delete(r.ID)
}

// BenchmarkPostgres executes 1,000 runs of ten steps, 100 at once.
// One operation is one step: go test -bench 'Postgres$' -benchtime 10000x -count 5
func BenchmarkPostgres(b *testing.B) {
	x := newPGBench(b)
	var all sync.WaitGroup
	next := make(chan int)
	costs := x.costs(b)
	b.ReportAllocs()
	b.ResetTimer()
	for range 100 {
		all.Go(func() {
			for i := range next {
				x.run(b, i)
			}
		})
	}
	for i := range max(b.N/10, 1) {
		next <- i
	}
	close(next)
	all.Wait()
	b.StopTimer()
	costs(b.N)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
}

// BenchmarkPostgresAlone is the latency of one run of ten steps on an idle store.
func BenchmarkPostgresAlone(b *testing.B) {
	x := newPGBench(b)
	var took []time.Duration
	costs := x.costs(b)
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		x.run(b, i)
		took = append(took, time.Since(start))
	}
	costs(len(took))
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
}

func BenchmarkRawPostgres(b *testing.B) {
	result, err := raw.Postgres(b.Context(), pgtest.Start(b, pgtest.Options{}).Database(b), 100, b.N)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(result.StepsPerSec, "steps/s")
	b.ReportMetric(result.SyncsPerStep, "syncs/step")
}
