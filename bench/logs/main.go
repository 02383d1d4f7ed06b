// Command logs measures how late a line of a step reaches a reader, what printing costs steps, and what
// readers of a run cost that prints nothing.
//
//	go -C bench run ./logs                  # SQLite; the reader has the file open as another process would
//	go -C bench run ./logs -dsn "$DSN"      # an empty PostgreSQL database
//
// The reader is the stream of the API. Lateness is from the call of Write to the arrival.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/workflow"
)

func main() {
	lines := flag.Int("lines", 200, "lines whose lateness is measured")
	runs := flag.Int("runs", 200, "runs of 10 steps, with a line a step and without")
	followers := flag.Int("followers", 100, "readers of one run that waits")
	dsn := flag.String("dsn", "", "an empty PostgreSQL database; empty: SQLite in a temporary folder")
	flag.Parse()
	if err := run(context.Background(), *lines, *runs, *followers, *dsn); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// flows print: Lines so many lines with pauses, Chatty a line a step, Silent and Waits none.
func flows(lines int) []workflow.Flow {
	chatty, silent := workflow.Flow{Name: "Chatty"}, workflow.Flow{Name: "Silent"}
	for i := range 10 {
		name := fmt.Sprintf("s%d", i)
		chatty.Steps = append(chatty.Steps, workflow.Step{Name: name, Do: func(_ context.Context, t *workflow.Task) outcome.Outcome {
			fmt.Fprintln(t.Stdout(), "a line of a step")
			return outcome.Done()
		}})
		silent.Steps = append(silent.Steps, workflow.Step{Name: name, Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }})
	}
	printing := workflow.Flow{Name: "Lines", Steps: []workflow.Step{{Name: "Print", Do: func(_ context.Context, t *workflow.Task) outcome.Outcome {
		for i := range lines {
			fmt.Fprintln(t.Stdout(), time.Now().Format(time.RFC3339Nano))
			time.Sleep(time.Duration(7*i%97) * time.Millisecond)
		}
		return outcome.Done()
	}}}}
	waits := workflow.Flow{Name: "Waits", Steps: []workflow.Step{{Name: "Wait", Wait: &workflow.WaitFor{Signal: "go"}}}}
	return []workflow.Flow{chatty, silent, printing, waits}
}

func run(ctx context.Context, lines, runs, followers int, dsn string) error {
	folder, err := os.MkdirTemp("", "logs")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	open := func(reads bool) (sql.Store, error) {
		if dsn != "" {
			return sql.Open(ctx, sql.Options{DSN: dsn})
		}
		return sql.Open(ctx, sql.Options{Path: filepath.Join(folder, "pawl.db"), Client: reads})
	}
	options := workflow.Options{Logger: slog.New(slog.DiscardHandler)}
	store, err := open(false)
	if err != nil {
		return err
	}
	defer store.Close()
	engine, err := workflow.New(store, flows(lines), options)
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- engine.Serve(serving) }()
	defer func() {
		stop()
		if err := <-served; err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, "serve:", err)
		}
	}()

	reader, err := open(true)
	if err != nil {
		return err
	}
	defer reader.Close()
	elsewhere, err := workflow.New(reader, flows(lines), options)
	if err != nil {
		return err
	}
	pawl, err := server.New(server.Options{Engine: elsewhere, Logger: options.Logger})
	if err != nil {
		return err
	}
	api, err := client.New(client.Options{URL: "http://127.0.0.1", HTTP: &http.Client{Transport: client.HandlerTransport(pawl)}})
	if err != nil {
		return err
	}
	if err := lateness(ctx, engine, api, lines); err != nil {
		return err
	}
	if err := idle(ctx, engine, api, followers); err != nil {
		return err
	}
	rates := map[string][]float64{}
	for range 5 { // in turns, so that a slow minute of the machine meets both
		for _, flow := range []string{"Silent", "Chatty"} {
			took, err := timed(ctx, engine, flow, runs)
			if err != nil {
				return err
			}
			rates[flow] = append(rates[flow], float64(10*runs)/took.Seconds())
		}
	}
	median := func(flow string) float64 { slices.Sort(rates[flow]); return rates[flow][2] }
	fmt.Printf("steps/s, 100 runs at once, median of 5: silent %.0f, a line a step %.0f: %.2f\n", median("Silent"), median("Chatty"), median("Chatty")/median("Silent"))
	return nil
}

// lateness prints how late lines arrive.
func lateness(ctx context.Context, engine *workflow.Engine, api *client.Client, lines int) error {
	r, err := engine.Start(ctx, workflow.Request{Flow: "Lines", Subject: "logs/default/lines"})
	if err != nil {
		return err
	}
	var late []time.Duration
	for e, err := range api.RunLogStream(ctx, r.ID, client.RunLogStreamParams{}) {
		if err != nil {
			return err
		}
		for _, l := range e.Lines {
			at, err := time.Parse(time.RFC3339Nano, l.Text)
			if err != nil {
				return err
			}
			late = append(late, time.Since(at))
		}
	}
	if len(late) != lines {
		return fmt.Errorf("%d lines arrived of %d", len(late), lines)
	}
	slices.Sort(late)
	of := func(share float64) time.Duration {
		return late[int(share*float64(len(late)-1))].Round(time.Millisecond / 10)
	}
	fmt.Printf("%d lines late by: median %s, 99 %% %s, last %s\n", lines, of(0.5), of(0.99), of(1))
	return nil
}

// idle prints the CPU of this process while readers follow one run that waits.
func idle(ctx context.Context, engine *workflow.Engine, api *client.Client, followers int) error {
	r, err := engine.Start(ctx, workflow.Request{Flow: "Waits", Subject: "logs/default/waits"})
	if err != nil {
		return err
	}
	following, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for range followers {
		all.Go(func() {
			for _, err := range api.RunLogStream(following, r.ID, client.RunLogStreamParams{}) {
				if err != nil && following.Err() == nil {
					fmt.Fprintln(os.Stderr, "follow:", err)
				}
			}
		})
	}
	time.Sleep(2 * time.Second) // the readers connect
	const during = 10 * time.Second
	began, err := cpu()
	if err != nil {
		return err
	}
	time.Sleep(during)
	ended, err := cpu()
	fmt.Printf("%d readers of a run that waits: %.4f cores\n", followers, (ended-began).Seconds()/during.Seconds())
	return err
}

// cpu is what this process has used.
func cpu() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// timed executes runs, 100 at once.
func timed(ctx context.Context, engine *workflow.Engine, flow string, runs int) (time.Duration, error) {
	begun := time.Now()
	slots, errs := make(chan struct{}, 100), make(chan error, runs)
	for i := range runs {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			r, err := engine.Start(ctx, workflow.Request{Flow: flow, Subject: fmt.Sprintf("logs/default/%s-%d-%d", flow, begun.UnixNano(), i)})
			if err == nil {
				_, err = engine.Await(ctx, r.ID)
			}
			errs <- err
		}()
	}
	for range runs {
		if err := <-errs; err != nil {
			return 0, err
		}
	}
	return time.Since(begun), nil
}
