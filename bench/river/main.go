// Command river measures River (riverqueue.com), a job queue on the same
// databases, as a peer of `pawl bench`.
//
//	100 clients, each: insert job 1 ─▶ wait for the end of job 10 ─▶ next flow
//	                                      ▲
//	worker: job 1 ─▶ job 2 ─▶ … ─▶ job 10 ┘   each job inserts the next
//
// A step is a job whose worker does nothing but insert the job of the next
// step. A flow has ended when the transaction that completes its last job has
// been committed.
//
//	go run ./river --store sqlite
//	go run ./river --store postgres --dsn postgres://localhost/empty
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

type options struct {
	store, dsn, dir          string
	runs, steps, concurrency int
	workers                  int
	cooldown, poll           time.Duration
	tx                       bool
}

func main() {
	var o options
	flag.StringVar(&o.store, "store", "sqlite", "sqlite or postgres")
	flag.StringVar(&o.dsn, "dsn", "", "of an empty PostgreSQL database")
	flag.StringVar(&o.dir, "dir", "", "`folder` for SQLite's file (default that of temporary files)")
	flag.IntVar(&o.runs, "runs", 1000, "flows")
	flag.IntVar(&o.steps, "steps", 10, "jobs of a flow")
	flag.IntVar(&o.concurrency, "concurrency", 100, "flows at once")
	flag.IntVar(&o.workers, "workers", 100, "River's MaxWorkers")
	flag.DurationVar(&o.cooldown, "cooldown", time.Millisecond, "River's FetchCooldown")
	flag.DurationVar(&o.poll, "poll", 10*time.Millisecond, "River's FetchPollInterval")
	flag.BoolVar(&o.tx, "tx", false, "complete each job in the transaction that inserts the next one, instead of letting River do it in batches")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := measure(ctx, o)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}
