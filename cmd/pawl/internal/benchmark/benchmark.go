package benchmark

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/measure"
	"github.com/pawl-dev/pawl/view"
)

type benchOptions struct {
	measure.Options
	repeat, waiting, signals int
	idle                     time.Duration
	raw, kill, reading       bool
	workers                  []int
	worker                   bool
	dir, child               string
}

func (a verbs) benchCommand() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what a step costs on this machine",
		Long: `Bench executes flows of no-op steps and prints what a step costs: how many a
second, how many a second of processor time, bytes, writes and syncs of the
store, allocations, and the time of a run from its start to its durable end. On
SQLite and PostgreSQL it runs the raw loop first: one update by integer key and
one append a step, grouped, on the same medium. SQLite gets a new file in the
user's state folder (or --dir), so that the disk is the one that will be used.`,
		Example: `  pawl bench --store sqlite --repeat 5 -o json
  pawl bench --store postgres --dsn postgres://localhost/bench
  pawl bench --store sqlite --concurrency 1 --runs 200
  pawl bench --store sqlite --waiting 100000 --signal 1000
  pawl bench --store sqlite --kill
  pawl bench --store sqlite --reading --steps 10000
  pawl bench --store postgres --dsn postgres://localhost/bench --workers 4,16 --runs 4000`,
		Args: cobra.NoArgs,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, _ []string) error { return a.bench(ctx, o) }),
	}
	f := cmd.Flags()
	f.IntVar(&o.Runs, "runs", 1000, "runs, each of a subject of its own")
	f.IntVar(&o.Steps, "steps", 10, "steps of a run")
	f.IntVar(&o.Concurrency, "concurrency", 100, "runs at once")
	f.IntVar(&o.Former, "former", 0, "runs to execute before the measure begins")
	f.IntVar(&o.repeat, "repeat", 1, "measure so often, each on a new store, and print medians")
	f.BoolVar(&o.raw, "raw", true, "run the raw loop on the same medium first")
	f.IntVar(&o.waiting, "waiting", 0, "instead: so many runs that wait for a signal, what they cost, and how fast one wakes")
	f.IntVar(&o.signals, "signal", 1000, "with --waiting: how many of them to wake")
	f.DurationVar(&o.idle, "idle", 5*time.Second, "with --waiting: how long to watch them wait")
	f.BoolVar(&o.kill, "kill", false, "instead: kill -9 in the middle of the runs, and how the next process goes on (SQLite)")
	f.BoolVar(&o.reading, "reading", false, "instead: one run of --steps steps, and what it costs to read")
	f.IntSliceVar(&o.workers, "workers", nil, "instead: so many workers on one PostgreSQL, each a process, in turns with one (`numbers`)")
	f.BoolVar(&o.worker, "worker-child", false, "")
	_ = f.MarkHidden("worker-child")
	f.StringVar(&o.dir, "dir", "", "`folder` for SQLite's file (default the user's state folder)")
	f.StringVar(&o.child, "kill-child", "", "")
	_ = f.MarkHidden("kill-child")
	return cmd
}

func (a verbs) bench(ctx context.Context, o benchOptions) error {
	if o.Runs < 1 || o.Steps < 1 || o.Concurrency < 1 || o.repeat < 1 {
		return cli.Usage.Errorf("--runs, --steps, --concurrency and --repeat are at least 1")
	}
	if o.child != "" {
		return measure.KillChild(ctx, o.child, o.Runs, o.Steps, o.Concurrency)
	}
	if o.dir == "" {
		o.dir = backend.StateDir()
	}
	store := a.Flags.Store
	switch {
	case store != "":
	case strings.HasPrefix(a.Flags.DSN, "postgres"):
		store = "postgres"
	default:
		store = "sqlite"
	}
	switch {
	case o.waiting > 0:
		return a.benchWaiting(ctx, store, o)
	case o.kill:
		return a.benchKill(ctx, o)
	case o.worker:
		return measure.WorkerChild(ctx, store, a.Flags.DSN, o.Options, a.In, a.Out)
	case len(o.workers) > 0:
		return a.benchWorkers(ctx, store, o)
	case o.reading:
		return a.benchReading(ctx, store, o)
	}
	var results []measure.Result
	for i := range o.repeat {
		a.Hint("%s: %d runs of %d steps, %d at once (%d of %d)", store, o.Runs, o.Steps, o.Concurrency, i+1, o.repeat)
		r, err := measure.One(ctx, store, a.Flags.DSN, o.dir, o.raw, o.Options)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	slices.SortFunc(results, func(x, y measure.Result) int { return int(x.StepsPerSecond - y.StepsPerSecond) })
	median := results[len(results)/2]
	return a.Emit(median, []string{store}, func() string { return benchText(median) })
}

func benchText(r measure.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d runs of %d steps, %d at once, in %.2fs\n", r.Store, r.Runs, r.Steps, r.Concurrency, r.Seconds)
	for _, line := range []struct {
		name, format string
		value        float64
	}{
		{"steps per second", "%.0f", r.StepsPerSecond},
		{"steps per CPU-second", "%.0f", r.StepsPerCPUSecond},
		{"raw loop, steps per second", "%.0f", r.RawStepsPerSecond},
		{"share of the raw loop", "%.2f", r.RatioToRaw},
		{"bytes per step", "%.0f", r.BytesPerStep},
		{"WAL bytes per step", "%.0f", r.WALBytesPerStep},
		{"durable writes per run", "%.2f", r.WritesPerRun},
		{"syncs per step", "%.3f", r.SyncsPerStep},
		{"allocations per step", "%.1f", r.AllocsPerStep},
		{"bytes allocated per step", "%.0f", r.AllocBytesPerStep},
		{"a run, p50 ms", "%.2f", r.LatencyP50Ms},
		{"a run, p99 ms", "%.2f", r.LatencyP99Ms},
	} {
		if line.value == 0 && (strings.Contains(line.name, "raw") || strings.HasPrefix(line.name, "WAL")) {
			continue // the backend has none
		}
		fmt.Fprintf(&b, "  %-28s %12s\n", line.name, fmt.Sprintf(line.format, line.value))
	}
	return b.String()
}

func (a verbs) benchWaiting(ctx context.Context, store string, o benchOptions) (err error) {
	m, err := measure.OpenBackend(ctx, store, a.Flags.DSN, o.dir)
	if err != nil {
		return err
	}
	defer func() {
		if e := m.Close(); err == nil {
			err = e
		}
	}()
	b, err := measure.Open(m.Store, o.Options, m.Counters)
	if err != nil {
		return err
	}
	a.Hint("%s: %d runs begin to wait", store, o.waiting)
	r, err := b.Waiting(ctx, store, o.waiting, o.signals, o.idle)
	if e := b.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return a.Emit(r, []string{store}, func() string {
		return fmt.Sprintf("%s: %d waiting runs\n  bytes resident per run %.0f (live heap %.0f)\n  idle: %.4f cores, %d writes in %.0fs, %d goroutines more\n  a signal wakes one: p50 %.2f ms, p99 %.2f ms (%d signals)\n",
			r.Store, r.Waiting, r.ResidentPerRun, r.HeapPerRun, r.IdleCPU, r.WritesWhileIdle, r.IdleSeconds, r.Goroutines, r.SignalP50Ms, r.SignalP99Ms, r.Signals)
	})
}

func (a verbs) benchReading(ctx context.Context, store string, o benchOptions) (err error) {
	m, err := measure.OpenBackend(ctx, store, a.Flags.DSN, o.dir)
	if err != nil {
		return err
	}
	defer func() {
		if e := m.Close(); err == nil {
			err = e
		}
	}()
	b, err := measure.Open(m.Store, o.Options, m.Counters)
	if err != nil {
		return err
	}
	a.Hint("%s: a run of %d steps", store, o.Steps)
	r, err := b.Reading(ctx, store, o.Steps)
	if e := b.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return a.Emit(r, []string{store}, func() string {
		return fmt.Sprintf("%s: to read a run of %d steps: %.1f ms\n  from the store %.1f ms, as shown %.1f ms, as JSON %.1f ms (%d bytes)\n  the answer with its newest steps %.1f ms\n",
			r.Store, r.Steps, r.ReadingMs, r.LoadMs, r.ViewMs, r.EncodeMs, r.Bytes, r.AnswerMs)
	})
}

func (a verbs) benchWorkers(ctx context.Context, store string, o benchOptions) error {
	if store != "postgres" {
		return cli.Usage.Errorf("--workers needs --store postgres: no other store serves several processes")
	}
	for _, n := range o.workers {
		if n < 1 || n > o.Concurrency || n > o.Runs {
			return cli.Usage.Errorf("--workers %d: each has at least one run at once", n)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	a.Hint("%s: %d runs of %d steps, %d at once, by 1 worker and by %v in turns", store, o.Runs, o.Steps, o.Concurrency, o.workers)
	r, err := measure.Workers(ctx, store, []string{self, "bench", "--store", store, "--dsn", a.Flags.DSN, "--worker-child"}, o.workers, o.repeat, o.Options)
	if err != nil {
		return err
	}
	return a.Emit(r, []string{r.Store}, func() string {
		number := func(head, format string, value func(measure.WorkersShare) float64) view.Column[measure.WorkersShare] {
			return view.Column[measure.WorkersShare]{Head: head, Cell: func(t measure.WorkersShare) string { return fmt.Sprintf(format, value(t)) }}
		}
		return view.TableOf(r.Turns, []view.Column[measure.WorkersShare]{
			{Head: "WORKERS", Cell: func(t measure.WorkersShare) string { return fmt.Sprint(t.Workers) }},
			number("STEPS/S", "%.0f", func(t measure.WorkersShare) float64 { return t.StepsPerSecond }),
			number("SHARE", "%.2f", func(t measure.WorkersShare) float64 { return t.Share }),
			number("P50 MS", "%.1f", func(t measure.WorkersShare) float64 { return t.LatencyP50Ms }),
			number("P99 MS", "%.1f", func(t measure.WorkersShare) float64 { return t.LatencyP99Ms }),
			number("COMMITS/STEP", "%.4f", func(t measure.WorkersShare) float64 { return t.CommitsPerStep }),
			number("WRITES/COMMIT", "%.1f", func(t measure.WorkersShare) float64 { return t.WritesPerBatch }),
			number("STATEMENTS/STEP", "%.4f", func(t measure.WorkersShare) float64 { return t.StatementsStep }),
			number("CPU MS/STEP", "%.4f", func(t measure.WorkersShare) float64 { return t.CPUMsPerStep }),
		}).Text(a.Style(a.Out))
	})
}

func (a verbs) benchKill(ctx context.Context, o benchOptions) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command := []string{self, "bench", "--runs", fmt.Sprint(o.Runs), "--steps", fmt.Sprint(o.Steps), "--concurrency", fmt.Sprint(o.Concurrency), "--kill-child"}
	r, err := measure.Kill(ctx, o.dir, command, o.Options)
	if err != nil {
		return err
	}
	return a.Emit(r, []string{r.Store}, func() string {
		return fmt.Sprintf("kill -9 in the middle of %d runs of %d steps: %d runs were open\n  first step after %.3fs, all ended after %.2fs\n  %d steps executed again, %.2f for each open run; %d of %d succeeded\n",
			r.Runs, r.Steps, r.OpenAtKill, r.FirstStepSeconds, r.FinishedSeconds, r.Repeated, r.RepeatedPerRun, r.Succeeded, r.Runs)
	})
}
