// Command limits measures what limits cost the steps of runs. The store is a new SQLite file, or an empty PostgreSQL database.
//
//	go -C bench run ./limits
//	go -C bench run ./limits -dsn "$DSN"
//
// Rounds take turns on one store: steps without a limit; steps with a limit, each run with a key of its own; and steps with a
// limit whose key is that of all runs. No limit lets anybody wait. In each round clients start runs of steps that do nothing and
// execute them, one after the other.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/limit"
)

const steps = 10

type options struct {
	dsn             string
	rounds, clients int
	length          time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.dsn, "dsn", "", "an empty PostgreSQL database; without it: a SQLite file")
	flag.IntVar(&o.rounds, "rounds", 7, "rounds of each kind")
	flag.IntVar(&o.clients, "clients", 8, "runs at once")
	flag.DurationVar(&o.length, "for", 2*time.Second, "length of a round")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// kinds are the flows that take turns.
var kinds = []struct {
	flow, name string
	key        func(workflow.View) (string, error)
}{
	{"Free", "no limit", nil},
	{"Own", "a key for each run", func(v workflow.View) (string, error) { return v.Run().ID, nil }},
	{"Shared", "one key for all", workflow.FixedKey("all")},
}

func flows() (list []workflow.Flow) {
	for _, kind := range kinds {
		f := workflow.Flow{Name: kind.flow}
		for i := range steps {
			step := workflow.Step{Name: fmt.Sprint("Step", i), Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }}
			if kind.key != nil {
				step.Limits = []workflow.StepLimit{{Key: kind.key, KeyText: kind.flow, AtOnce: limit.MaxAtOnce}}
			}
			f.Steps = append(f.Steps, step)
		}
		list = append(list, f)
	}
	return list
}

func run(ctx context.Context, o options) error {
	folder, err := os.MkdirTemp("", "limits")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	settings := sql.Options{DSN: o.dsn}
	if o.dsn == "" {
		settings = sql.Options{Path: filepath.Join(folder, "pawl.db")}
	}
	store, err := sql.Open(ctx, settings)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	e, err := workflow.New(store, flows(), workflow.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	rates, costs := make([][]float64, len(kinds)), make([][]float64, len(kinds))
	for range o.rounds {
		for i, kind := range kinds {
			began, cpu := time.Now(), cpuTime()
			n, err := round(ctx, e, o, kind.flow)
			if err != nil {
				return err
			}
			done := float64(n * steps)
			rates[i] = append(rates[i], done/time.Since(began).Seconds())
			costs[i] = append(costs[i], float64((cpuTime()-cpu).Nanoseconds())/1000/done)
		}
	}
	fmt.Printf("%-20s %10s %8s %12s %10s\n", "steps", "steps/s", "share", "CPU, µs", "more, µs")
	for i, kind := range kinds {
		fmt.Printf("%-20s %10.0f %8.2f %12.1f %10.1f\n", kind.name, median(rates[i]), median(rates[i])/median(rates[0]), median(costs[i]), median(costs[i])-median(costs[0]))
	}
	return nil
}

var serial atomic.Int64

// round executes runs of a flow for some time and returns how many.
func round(ctx context.Context, e *workflow.Engine, o options, flow string) (int64, error) {
	var runs atomic.Int64
	var clients sync.WaitGroup
	failed := make(chan error, o.clients)
	until := time.Now().Add(o.length)
	for range o.clients {
		clients.Go(func() {
			for time.Now().Before(until) {
				r, err := e.Start(ctx, workflow.Request{Flow: flow, Subject: fmt.Sprint("bench/limits/", serial.Add(1))})
				if err == nil {
					if out := e.Advance(ctx, r.ID); !out.IsDone() {
						err = fmt.Errorf("run %s: %v", r.ID, out)
					}
				}
				if err != nil {
					failed <- err
					return
				}
				runs.Add(1)
			}
		})
	}
	clients.Wait()
	close(failed)
	return runs.Load(), <-failed
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
