package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivermigrate"
)

// result uses the field names of `pawl bench`.
type result struct {
	Store             string  `json:"store"`
	Runs              int     `json:"runs"`
	Steps             int     `json:"steps"`
	Concurrency       int     `json:"concurrency"`
	Seconds           float64 `json:"seconds"`
	StepsPerSecond    float64 `json:"stepsPerSecond"`
	StepsPerCPUSecond float64 `json:"stepsPerCPUSecond"`
	LatencyP50Ms      float64 `json:"latencyP50Ms"`
	LatencyP99Ms      float64 `json:"latencyP99Ms"`
}

// step is the job of one step of a flow.
type step struct {
	Flow int `json:"flow"`
	Step int `json:"step"`
	Of   int `json:"of"`
}

func (step) Kind() string { return "step" }

// chain executes a step: it inserts the next one, and completes its own job.
type chain[TTx any] struct {
	river.WorkerDefaults[step]
	finish func(ctx context.Context, job *river.Job[step], next step, last bool) error
	flows  completions
}

func (c *chain[TTx]) Work(ctx context.Context, job *river.Job[step]) error {
	next := job.Args
	next.Step++
	last := next.Step > next.Of
	err := c.finish(ctx, job, next, last)
	if err == nil && last {
		c.flows.notify(job.Args.Flow)
	}
	return err
}

// backend is a database for River.
type backend[TTx any] struct {
	driver   riverdriver.Driver[TTx]
	inTx     func(ctx context.Context, do func(tx TTx) error) error
	complete func(ctx context.Context, tx TTx, job *river.Job[step]) error
}

// byTx inserts the next job and completes this one in one transaction, as River's
// documentation recommends. Its commit makes the end of the flow durable.
func (m backend[TTx]) byTx(ctx context.Context, job *river.Job[step], next step, last bool) error {
	return m.inTx(ctx, func(tx TTx) error {
		if !last {
			if _, err := river.ClientFromContext[TTx](ctx).InsertTx(ctx, tx, next, nil); err != nil {
				return err
			}
		}
		return m.complete(ctx, tx, job)
	})
}

// byBatch lets River complete jobs in batches, up to a quarter of a second later, except
// the last job of a flow. The next job is fetched without a poll. After a crash more steps
// are executed again.
func (m backend[TTx]) byBatch(ctx context.Context, job *river.Job[step], next step, last bool) error {
	if last {
		return m.byTx(ctx, job, next, last)
	}
	_, err := river.ClientFromContext[TTx](ctx).Insert(ctx, next, nil)
	return err
}

// drive executes the flows with closed-loop clients.
func drive[TTx any](ctx context.Context, m backend[TTx], o options) (r result, err error) {
	migrator, err := rivermigrate.New(m.driver, &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return r, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return r, fmt.Errorf("migrate: %w", err)
	}
	workers := river.NewWorkers()
	flows := newCompletions(o.runs + 1)
	worker := &chain[TTx]{finish: m.byBatch, flows: flows}
	if o.tx {
		worker.finish = m.byTx
	}
	river.AddWorker(workers, worker)
	client, err := river.NewClient(m.driver, &river.Config{
		Logger: quiet, Workers: workers, JobTimeout: -1,
		FetchCooldown: o.cooldown, FetchPollInterval: o.poll,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: o.workers}},
	})
	if err != nil {
		return r, err
	}
	if err := client.Start(ctx); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, client.Stop(context.WithoutCancel(ctx))) }()

	insert := func(flow int) error {
		if _, err := client.Insert(ctx, step{Flow: flow, Step: 1, Of: o.steps}, nil); err != nil {
			return err
		}
		return flows.wait(ctx, flow)
	}
	if err := insert(o.runs); err != nil { // warm up: statements prepared, worker running
		return r, err
	}
	cpu, began := processor(), time.Now()
	latencies, err := clients(o, insert)
	if err != nil {
		return r, err
	}
	took, used := time.Since(began), processor()-cpu
	n := float64(o.runs * o.steps)
	return result{
		Store: "river-" + o.store, Runs: o.runs, Steps: o.steps, Concurrency: o.concurrency, Seconds: took.Seconds(),
		StepsPerSecond: n / took.Seconds(), StepsPerCPUSecond: n / used.Seconds(),
		LatencyP50Ms: quantile(latencies, 0.50), LatencyP99Ms: quantile(latencies, 0.99),
	}, nil
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// clients runs flows concurrently, and returns their sorted durations.
func clients(o options, run func(flow int) error) ([]time.Duration, error) {
	latencies := make([]time.Duration, o.runs)
	errs := make([]error, o.concurrency)
	next := make(chan int, o.runs)
	for i := range o.runs {
		next <- i
	}
	close(next)
	var group sync.WaitGroup
	for c := range o.concurrency {
		group.Go(func() {
			for i := range next {
				began := time.Now()
				if errs[c] = run(i); errs[c] != nil {
					return
				}
				latencies[i] = time.Since(began)
			}
		})
	}
	group.Wait()
	slices.Sort(latencies)
	return latencies, errors.Join(errs...)
}

func quantile(sorted []time.Duration, q float64) float64 {
	return float64(sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]) / float64(time.Millisecond)
}

// processor returns the CPU time of this process.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
