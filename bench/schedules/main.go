// Command schedules measures many schedules with one tick in common: is each started exactly once,
// and how late.
//
//	go -C bench run ./schedules                                # SQLite, one server
//	go -C bench run ./schedules -dsn "$DSN" -servers 2         # an empty PostgreSQL database
//
// Each run has one step that does nothing. Lateness is from the tick to the durable creation of
// a run, by the clock of the schedulers, which is set so that the tick comes soon.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/schedule"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func main() {
	n := flag.Int("n", 10_000, "schedules")
	servers := flag.Int("servers", 1, "servers; more than one need -dsn")
	dsn := flag.String("dsn", "", "an empty PostgreSQL database; empty: SQLite in a temporary folder")
	spread := flag.Duration("spread", 0, "spread of the schedules")
	flag.Parse()
	if err := run(context.Background(), *n, *servers, *dsn, *spread); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const every = 5 * time.Minute

func run(ctx context.Context, n, servers int, dsn string, spread time.Duration) error {
	folder, err := os.MkdirTemp("", "schedules")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	open := func() (sql.Store, error) {
		o := sql.Options{DSN: dsn}
		if dsn == "" {
			o.Path = filepath.Join(folder, "pawl.db")
		}
		return sql.Open(ctx, o)
	}
	store, err := open()
	if err != nil {
		return err
	}
	defer store.Close()
	begin := time.Now()
	if err := apply(ctx, store.Objects(), n, spread); err != nil {
		return err
	}
	fmt.Printf("%d schedules applied in %s\n", n, time.Since(begin).Round(time.Millisecond))

	// The clock of the schedulers is set to some seconds before the tick, so that all of them wait for it.
	const lead = 10 * time.Second
	tick := time.Now().Add(lead).Truncate(every).Add(every)
	shift := time.Until(tick) - lead
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for i := range servers {
		own := store
		if i > 0 {
			if own, err = open(); err != nil {
				return err
			}
			defer own.Close()
		}
		engine, err := workflow.New(own, []workflow.Flow{{Name: "F", Steps: []workflow.Step{{Name: "Nothing", Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }}}}},
			workflow.Options{Worker: fmt.Sprint("server", i), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		s := schedule.New(schedule.Options{Objects: own.Objects(), Engine: engine, Runs: own, Logger: slog.New(slog.DiscardHandler),
			Now: func() time.Time { return time.Now().Add(shift) }})
		all.Go(func() { _ = engine.Serve(ctx) })
		all.Go(func() { _ = s.Serve(ctx) })
	}
	return report(ctx, store, n, tick.Add(-shift), spread)
}

func apply(ctx context.Context, objects control.Objects, n int, spread time.Duration) error {
	spec := json.RawMessage(fmt.Sprintf(`{"flow": "F", "interval": %q, "spread": %q}`, every, spread))
	var all sync.WaitGroup
	errs := make(chan error, 16)
	for part := range cap(errs) {
		all.Go(func() {
			for i := part; i < n; i += cap(errs) {
				o := control.Object{Ref: control.Ref{Kind: schedule.Kind, Namespace: "default", Name: fmt.Sprintf("s%d", i)}, Spec: spec}
				if _, err := objects.Apply(ctx, o); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

// report waits until all runs have ended, and checks that each schedule has one.
func report(ctx context.Context, runs runstore.Lister, n int, tick time.Time, spread time.Duration) error {
	for limit := time.Now().Add(5*time.Minute + spread); ; time.Sleep(time.Second) {
		count, late, ended := map[string]int{}, []time.Duration{}, 0
		for cursor, more := "", true; more; more = cursor != "" {
			page, next, err := runs.List(ctx, runstore.Query{Limit: 1000, Cursor: cursor})
			if err != nil {
				return err
			}
			cursor = next
			for _, r := range page {
				count[r.Labels[schedule.LabelSchedule]]++
				late = append(late, r.CreatedAt.Sub(tick))
				if r.Phase == runtype.Succeeded {
					ended++
				}
			}
		}
		if ended < n && time.Now().Before(limit) {
			continue
		}
		once := 0
		for _, c := range count {
			if c == 1 {
				once++
			}
		}
		slices.Sort(late)
		at := func(share float64) time.Duration {
			return late[int(share*float64(len(late)-1))].Round(time.Millisecond)
		}
		fmt.Printf("%d of %d started exactly once, %d runs, %d succeeded\n", once, n, len(late), ended)
		fmt.Printf("late: first %s, median %s, 99 %% %s, last %s; all ended %s after the tick\n", at(0), at(0.5), at(0.99), at(1), time.Since(tick).Round(time.Second))
		if once != n || len(late) != n {
			return fmt.Errorf("not each of %d exactly once", n)
		}
		return nil
	}
}
