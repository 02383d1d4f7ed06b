//go:build unix

package sqlite_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/raw"
	"github.com/pawl-dev/pawl/workflow"
)

// bench is an engine that runs a flow of n no-op steps on a SQLite file.
type bench struct {
	store  *sql.SQLite
	engine *workflow.Engine
	ended  sync.Map // run id → chan struct{}
}

// cpu returns the processor time of this process.
func cpu() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func newBench(b testing.TB, n int) *bench {
	store, err := sql.OpenSQLite(b.Context(), sql.Options{Path: filepath.Join(b.TempDir(), "bench.db")})
	if err != nil {
		b.Fatal(err)
	}
	x := &bench{store: store}
	steps := make([]workflow.Step, n)
	for i := range steps {
		steps[i] = workflow.Step{Name: fmt.Sprintf("step-%d", i), Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }}
	}
	x.engine, err = workflow.New(store, []workflow.Flow{{Name: "Bench", Steps: steps}}, workflow.Options{
		Attempts: 128, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Hooks: []workflow.Hook{{Name: "end", OnEvent: func(run workflow.RunInfo, e runtype.Event) {
			if e.Kind == runtype.RunSucceeded {
				done, _ := x.ended.LoadOrStore(run.ID, make(chan struct{}))
				close(done.(chan struct{}))
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

func (x *bench) one(b testing.TB, i int) {
	r, err := x.engine.Start(b.Context(), workflow.Request{Flow: "Bench", Subject: fmt.Sprintf("bench/default/%d", i), RequestID: "1"})
	if err != nil {
		b.Error(err)
		return
	}
	done, _ := x.ended.LoadOrStore(r.ID, make(chan struct{}))
	for ended := false; !ended; {
		select {
		case <-done.(chan struct{}):
			ended = true
		case <-time.After(5 * time.Second): // a busy engine drops events of hooks
			r, err := x.engine.Get(b.Context(), r.ID)
			ended = err != nil || r.Phase.Final()
		}
	}
	x.ended.Delete(r.ID)
}

func (x *bench) many(b testing.TB, from, runs, atOnce int) {
	var all sync.WaitGroup
	next := make(chan int)
	for range atOnce {
		all.Go(func() {
			for i := range next {
				x.one(b, i)
			}
		})
	}
	for i := range runs {
		next <- from + i
	}
	close(next)
	all.Wait()
}

// BenchmarkSQLite executes no-op steps with 100 runs at once, full durability.
// One operation is one step.
func BenchmarkSQLite(b *testing.B) {
	for _, c := range []struct{ steps, former int }{{10, 0}, {50, 0}, {1000, 0}, {10, 10000}} {
		b.Run(fmt.Sprintf("flow=%d/former=%d", c.steps, c.former), func(b *testing.B) {
			x := newBench(b, c.steps)
			runs := max(b.N/c.steps, 1)
			x.many(b, -c.former-1, c.former, 100)
			before, used := x.store.Stats(), cpu()
			b.ReportAllocs()
			b.ResetTimer()
			x.many(b, 0, runs, 100)
			b.StopTimer()
			after := x.store.Stats()
			steps := float64(runs * c.steps)
			b.ReportMetric(steps/b.Elapsed().Seconds(), "steps/s")
			b.ReportMetric(float64((cpu()-used).Microseconds())/steps, "cpu-us/step")
			b.ReportMetric(float64(after.Bytes-before.Bytes)/steps, "boundB/step")
			b.ReportMetric(float64(after.WALBytes-before.WALBytes)/steps, "walB/step")
			b.ReportMetric(float64(after.Syncs-before.Syncs)/steps, "syncs/step")
			b.ReportMetric(float64(after.Writes-before.Writes)/float64(runs), "writes/run")
		})
	}
}

// BenchmarkSQLiteAlone is the latency of one run of ten steps on an idle store.
func BenchmarkSQLiteAlone(b *testing.B) {
	x := newBench(b, 10)
	var took []time.Duration
	for i := range b.N {
		start := time.Now()
		x.one(b, i)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
}

func BenchmarkRawSQLite(b *testing.B) {
	used := cpu()
	result, err := raw.SQLite(b.Context(), b.TempDir(), 100, b.N)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64((cpu()-used).Microseconds())/float64(b.N), "cpu-us/step")
	b.ReportMetric(result.StepsPerSec, "steps/s")
	b.ReportMetric(result.SyncsPerStep, "syncs/step")
}

// BenchmarkSQLiteWaiting holds b.N runs that wait for a signal. It reports the memory
// for each run and the time to wake one.
func BenchmarkSQLiteWaiting(b *testing.B) {
	store, err := sql.OpenSQLite(b.Context(), sql.Options{Path: filepath.Join(b.TempDir(), "bench.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	woken := make(chan struct{}, 1)
	engine, err := workflow.New(store, []workflow.Flow{{Name: "Wait", Steps: []workflow.Step{
		{Name: "Caught", Wait: &workflow.WaitFor{Signal: "go"}},
		{Name: "Told", Do: func(context.Context, *workflow.Task) outcome.Outcome { woken <- struct{}{}; return outcome.Done() }},
	}}}, workflow.Options{Attempts: 128, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- engine.Serve(ctx) }()
	defer func() { cancel(); <-served }()
	before := resident(b)
	var all sync.WaitGroup
	ids := make([]string, b.N)
	for k := range 64 {
		all.Go(func() {
			for i := k; i < b.N; i += 64 {
				r, err := engine.Start(b.Context(), workflow.Request{Flow: "Wait", Subject: fmt.Sprintf("bench/default/%d", i), RequestID: "1"})
				if err != nil {
					b.Error(err)
					return
				}
				ids[i] = r.ID
			}
		})
	}
	all.Wait()
	for {
		runs, _, err := store.List(b.Context(), runstore.Query{Phases: []runtype.Phase{runtype.Running}, Active: true, Limit: 1})
		if err != nil {
			b.Fatal(err)
		}
		if len(runs) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	after := resident(b)
	idle := cpu()
	time.Sleep(time.Second)
	idle = cpu() - idle
	var took []time.Duration
	b.ResetTimer()
	for i := range min(500, b.N) {
		start := time.Now()
		if err := engine.Send(b.Context(), ids[i*b.N/min(500, b.N)], runtype.Signal{ID: "1", Name: "go"}); err != nil {
			b.Fatal(err)
		}
		<-woken
		took = append(took, time.Since(start))
	}
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(idle.Seconds(), "idle-cpu")
	b.ReportMetric(float64(after-before)/float64(b.N), "residentB/run")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "wake-p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "wake-p99-ms")
}

// resident returns the resident memory of this process after a garbage collection.
func resident(b *testing.B) int64 {
	debug.FreeOSMemory()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip("needs /proc")
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(data), &size, &pages); err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// BenchmarkRawSQLiteAlone has one submitter: the shortest time of one durable write on
// this disk.
func BenchmarkRawSQLiteAlone(b *testing.B) {
	if _, err := raw.SQLite(b.Context(), b.TempDir(), 1, b.N); err != nil {
		b.Fatal(err)
	}
}
