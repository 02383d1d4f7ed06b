package postgres_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// workerDSN turns a test binary into a worker on that database.
const workerDSN = "PAWL_TEST_WORKER_DSN"

func init() {
	dsn := os.Getenv(workerDSN)
	if dsn == "" {
		return
	}
	ctx := context.Background()
	p, err := sql.OpenPostgres(ctx, sql.Options{DSN: dsn})
	if err == nil {
		err = killedEngine(p, func() { fmt.Println("working") }).Serve(ctx)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// killedEngine runs a flow whose first step never ends in its first attempt.
func killedEngine(p *sql.Postgres, working func()) *workflow.Engine {
	flow := workflow.Flow{Name: "Flow", Steps: []workflow.Step{
		{Name: "Work", Do: func(ctx context.Context, t *workflow.Task) outcome.Outcome {
			if t.Attempt() == 1 {
				working()
				<-ctx.Done()
				return outcome.Fail(context.Cause(ctx))
			}
			return outcome.Done()
		}},
		{Name: "Gate", Wait: &workflow.WaitFor{Signal: "go"}},
	}}
	e, err := workflow.New(p, []workflow.Flow{flow}, workflow.Options{Lease: time.Second, PollInterval: 100 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		panic(err)
	}
	return e
}

// TestFinding1RequestsOfAKilledWorker: the worker of a run is killed. A stop and a
// resume that another server accepts while its lease holds do not end the run.
func TestFinding1RequestsOfAKilledWorker(t *testing.T) {
	p, dsn := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	engine := killedEngine(p, func() {})
	run, err := engine.Start(t.Context(), workflow.Request{Flow: "Flow", Subject: "demo/default/c1", RequestID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	worker := exec.CommandContext(t.Context(), os.Args[0])
	worker.Env = append(os.Environ(), workerDSN+"="+dsn)
	worker.Stderr = os.Stderr
	out, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "working\n" {
		t.Fatalf("the worker says %q, %v", line, err)
	}
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait()
	by := workflow.Actor{Name: "eve"}
	for _, ask := range []func() error{
		func() error { return engine.Pause(t.Context(), run.ID, by) },
		func() error { return engine.Resume(t.Context(), run.ID, "", "", by) },
		func() error { return engine.Cancel(t.Context(), run.ID, runtype.Hold, false, by) },
		func() error { return engine.Resume(t.Context(), run.ID, "", "", by) },
		func() error { return engine.Send(t.Context(), run.ID, runtype.Signal{Name: "go"}) },
	} {
		if err := ask(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- engine.Serve(ctx) }()
	defer func() { cancel(); <-served }()
	for deadline := time.Now().Add(60 * time.Second); ; {
		r, err := engine.Get(t.Context(), run.ID)
		if err != nil {
			t.Fatal(err)
		}
		if r.Phase == runtype.Succeeded {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the run is %s, %+v", r.Phase, r.Fault)
		}
		<-time.After(20 * time.Millisecond)
	}
}
