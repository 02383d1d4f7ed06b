// Package measure drives the engine with no-op flows and measures the cost of a step.
//
//	100 clients, each: Start ─▶ wait for the end ─▶ next run
//	     │
//	     └─▶ engine ─▶ store        beside it: the raw loop on the same backend
//
// It is what `pawl bench` runs, so that people can size their machine with it.
package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// Options describe a measurement.
type Options struct {
	Runs        int
	Steps       int
	Concurrency int
	Former      int // runs executed before the measure begins
}

// Counters is what a store counts of its writes; zero values where it does not.
type Counters struct {
	Writes, Syncs, Bytes, WALBytes, Statements int64
}

// Result is what was measured. Rates are per second, sizes in bytes.
type Result struct {
	Store             string  `json:"store"`
	Runs              int     `json:"runs"`
	Steps             int     `json:"steps"`
	Concurrency       int     `json:"concurrency"`
	Former            int     `json:"former,omitempty"`
	Seconds           float64 `json:"seconds"`
	StepsPerSecond    float64 `json:"stepsPerSecond"`
	StepsPerCPUSecond float64 `json:"stepsPerCPUSecond"`
	BytesPerStep      float64 `json:"bytesPerStep"`
	WALBytesPerStep   float64 `json:"walBytesPerStep,omitempty"`
	WritesPerStep     float64 `json:"writesPerStep"`
	WritesPerRun      float64 `json:"writesPerRun"`
	SyncsPerStep      float64 `json:"syncsPerStep"`
	AllocsPerStep     float64 `json:"allocsPerStep"`
	AllocBytesPerStep float64 `json:"allocBytesPerStep"`
	RawStepsPerSecond float64 `json:"rawStepsPerSecond,omitempty"`
	RatioToRaw        float64 `json:"ratioToRaw,omitempty"`
	LatencyP50Ms      float64 `json:"latencyP50Ms"` // of a run, from Start to its end
	LatencyP99Ms      float64 `json:"latencyP99Ms"`
}

// Bench is an engine with the flow of no-op steps on a store.
type Bench struct {
	Engine *workflow.Engine
	store  runstore.Store
	count  *counting
	read   func() Counters

	mu    sync.Mutex
	ended map[string]chan struct{}
	serve chan error
	stop  context.CancelFunc

	elsewhere sync.WaitGroup
}

const benchFlow, waitFlow = "Bench", "BenchWait"

// Open makes an engine on the store. counters may be nil.
func Open(store runstore.Store, o Options, counters func() Counters) (*Bench, error) {
	b := &Bench{store: store, read: counters, ended: map[string]chan struct{}{}}
	b.count = &counting{Store: store}
	flow := workflow.Flow{Name: benchFlow}
	nop := func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }
	for i := range o.Steps {
		flow.Steps = append(flow.Steps, workflow.Step{Name: fmt.Sprintf("step-%d", i+1), Do: nop})
	}
	waits := workflow.Flow{Name: waitFlow, Steps: []workflow.Step{{Name: "wait", Wait: &workflow.WaitFor{Signal: "go"}}}}
	engine, err := workflow.New(b.wrap(), []workflow.Flow{flow, waits}, workflow.Options{
		Attempts: max(o.Concurrency, 1), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Hooks: nil,
	})
	if err != nil {
		return nil, err
	}
	b.Engine = engine
	ctx, cancel := context.WithCancel(context.Background())
	b.stop, b.serve = cancel, make(chan error, 1)
	go func() { b.serve <- engine.Serve(ctx) }()
	b.elsewhere.Go(func() { b.endedElsewhere(ctx, time.Second) })
	return b, nil
}

// endedElsewhere notifies clients of runs that another worker has finished: a run
// that is started while all slots are taken goes to a free worker.
func (b *Bench) endedElsewhere(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for before := map[string]bool{}; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		open := map[string]bool{}
		b.mu.Lock()
		for id := range b.ended {
			open[id] = true
		}
		b.mu.Unlock()
		for id := range open {
			if !before[id] {
				continue
			}
			if r, _, err := b.store.Load(ctx, id); err == nil && r.Phase.Final() {
				b.count.ended(id)
			}
		}
		before = open
	}
}

// Close drains the engine. The store stays open.
func (b *Bench) Close() error {
	b.stop()
	b.elsewhere.Wait()
	return <-b.serve
}

// Run measures: Concurrency clients, each with one run at a time.
func (b *Bench) Run(ctx context.Context, name string, o Options) (Result, error) {
	if o.Former > 0 {
		if _, err := b.clients(ctx, "former", o.Former, o.Concurrency); err != nil {
			return Result{}, err
		}
	}
	runtime.GC()
	before := b.snapshot()
	began := time.Now()
	latencies, err := b.clients(ctx, fmt.Sprintf("run-%d", began.UnixNano()), o.Runs, o.Concurrency)
	if err != nil {
		return Result{}, err
	}
	took := time.Since(began)
	after := b.snapshot()
	slices.Sort(latencies)
	n := float64(o.Runs * o.Steps)
	cpu := after.cpu - before.cpu
	r := Result{
		Store: name, Runs: o.Runs, Steps: o.Steps, Concurrency: o.Concurrency, Former: o.Former, Seconds: took.Seconds(),
		StepsPerSecond: n / took.Seconds(), StepsPerCPUSecond: n / cpu.Seconds(),
		BytesPerStep:    float64(after.Bytes-before.Bytes) / n,
		WALBytesPerStep: float64(after.WALBytes-before.WALBytes) / n,
		SyncsPerStep:    float64(after.Syncs-before.Syncs) / n,
		WritesPerStep:   float64(after.writes-before.writes) / n,
		WritesPerRun:    float64(after.writes-before.writes) / float64(o.Runs),
		AllocsPerStep:   float64(after.allocs-before.allocs) / n, AllocBytesPerStep: float64(after.allocated-before.allocated) / n,
		LatencyP50Ms: Quantile(latencies, 0.50), LatencyP99Ms: Quantile(latencies, 0.99),
	}
	return r, nil
}

// Quantile of sorted durations, in milliseconds.
func Quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := min(int(q*float64(len(sorted))), len(sorted)-1)
	return float64(sorted[at]) / float64(time.Millisecond)
}

// clients executes runs with bounded concurrency and returns the time of each.
func (b *Bench) clients(ctx context.Context, label string, runs, concurrency int) ([]time.Duration, error) {
	latencies := make([]time.Duration, runs)
	next := make(chan int)
	errs := make(chan error, concurrency)
	var clients sync.WaitGroup
	for range concurrency {
		clients.Go(func() {
			for i := range next {
				began := time.Now()
				if err := b.one(ctx, fmt.Sprintf("bench/%s/%d", label, i)); err != nil {
					errs <- err
					return
				}
				latencies[i] = time.Since(began)
			}
		})
	}
	var err error
	for i := 0; i < runs && err == nil; i++ {
		select {
		case next <- i:
		case err = <-errs:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	close(next)
	clients.Wait()
	select {
	case e := <-errs:
		err = e
	default:
	}
	return latencies, err
}

// one executes one run and returns when its end is durable.
func (b *Bench) one(ctx context.Context, subject string) error {
	id := workflow.RunID(subject, benchFlow, "1")
	ended := make(chan struct{})
	b.mu.Lock()
	b.ended[id] = ended
	b.mu.Unlock()
	if _, err := b.Engine.Start(ctx, workflow.Request{Flow: benchFlow, Subject: subject, RequestID: "1"}); err != nil {
		return err
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type snapshot struct {
	Counters
	writes            int64
	cpu               time.Duration
	allocs, allocated uint64
}

func (b *Bench) snapshot() snapshot {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s := snapshot{cpu: CPU(), allocs: m.Mallocs, allocated: m.TotalAlloc, writes: b.count.writes.Load()}
	if b.read != nil {
		s.Counters = b.read()
	} else {
		s.Bytes = b.count.bytes.Load()
	}
	return s
}

// CPU is the processor time this process has used.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// JSON writes a result as one line.
func (r Result) JSON() string {
	data, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
