package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// A test binary that is started with these is a worker on that database, whose commands write into that file.
const (
	thawDSN   = "PAWL_TEST_THAW_DSN"
	thawFile  = "PAWL_TEST_THAW_FILE"
	thawState = "PAWL_TEST_THAW_STATE" // of exec: workers on one host have one, those on two hosts two
)

const thawLease = time.Second

func init() {
	dsn := os.Getenv(thawDSN)
	if dsn == "" {
		return
	}
	ctx := context.Background()
	e, _, err := thawEngine(ctx, dsn, os.Getenv(thawFile), os.Getenv(thawState))
	if err == nil {
		fmt.Println("working")
		err = e.Serve(ctx)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// thawEngine has a flow of commands that write their key and the time since boot.
func thawEngine(ctx context.Context, dsn, file, state string) (*workflow.Engine, sql.Store, error) {
	store, err := sql.Open(ctx, sql.Options{DSN: dsn})
	if err != nil {
		return nil, nil, err
	}
	actions, err := action.Standard(action.Options{Only: []string{"exec"}, StateDir: state})
	if err != nil {
		return nil, nil, err
	}
	with, err := json.Marshal(map[string]any{"shell": `read -r up idle </proc/uptime; echo "$PAWL_KEY $up $PAWL_EPOCH" >>"$F"`, "env": map[string]string{"F": file}})
	if err != nil {
		return nil, nil, err
	}
	flow := workflow.Flow{Name: "Commands"}
	for i := range 5 {
		flow.Steps = append(flow.Steps, workflow.Step{Name: fmt.Sprint("C", i), Uses: "exec", With: with})
	}
	e, err := workflow.New(store, []workflow.Flow{flow}, workflow.Options{
		Actions: actions, Lease: thawLease, Attempts: 16, PollInterval: 200 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	return e, store, err
}

// TestFinding3FrozenServer: of two workers on one PostgreSQL one is stopped (SIGSTOP) for longer than its lease and goes on, again and again.
// No command begins after the other worker has saved the outcome of its step (promise 2). PAWL_TEST_FREEZE makes it longer.
func TestFinding3FrozenServer(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the time since boot is read from /proc/uptime")
	}
	total := 7 * time.Second
	if text := os.Getenv(freezeFor); text != "" {
		var err error
		if total, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	t.Parallel()
	dsn := pgtest.New(t, pgtest.Options{NoSync: true}).Database(t)
	file := filepath.Join(t.TempDir(), "begun")
	engine, store, err := thawEngine(t.Context(), dsn, file, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	boot := time.Now().Add(-upFor(t))
	workers := [2]*exec.Cmd{thawWorker(t, dsn, file), thawWorker(t, dsn, file)}

	var ids []string
	active := func() (n int) {
		t.Helper()
		left, _, err := store.List(t.Context(), runstore.Query{Phases: []runtype.Phase{runtype.Queued, runtype.Running, runtype.Waiting}, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		return len(left)
	}
	freezes := 0
	for end := time.Now().Add(total); time.Now().Before(end); {
		for n := active(); n < 60; n++ { // what keeps both busy
			run, err := engine.Start(t.Context(), workflow.Request{Flow: "Commands", Subject: fmt.Sprint("commands/default/", len(ids))})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, run.ID)
		}
		if len(ids) > 60 {
			freezes++
			if err := workers[0].Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			time.Sleep(thawLease + time.Duration(rand.Int64N(int64(thawLease)/2)))
			if err := workers[0].Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	innocent := thawEnd(t, engine, store)

	begun, keys := thawBegun(t, file)
	lost, late := 0, 0
	for _, id := range ids {
		events, err := store.History(t.Context(), id, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			switch e.Kind {
			case runtype.StepLost:
				lost++
			case runtype.StepDoneEvent:
				key := id + "/" + e.Step + "/0"
				if len(begun[key]) == 0 {
					t.Errorf("%s is done and was never begun", key)
				}
				for _, up := range begun[key] {
					if at := boot.Add(up); at.After(e.At.Add(100 * time.Millisecond)) {
						late++
						t.Errorf("%s was begun %s after its outcome", key, at.Sub(e.At))
					}
				}
			}
		}
	}
	t.Logf("%d freezes; %d runs, %d commands of %d keys; %d attempts lost, %d begun late, %d innocent runs resumed", freezes, len(ids), keys, len(begun), lost, late, innocent)
	if freezes == 0 || lost == 0 {
		t.Error("no freeze cost an attempt: the test shows nothing")
	}
}

func thawWorker(t *testing.T, dsn, file string) *exec.Cmd {
	w := exec.Command(os.Args[0], "-test.run=^$")
	w.Env = append(os.Environ(), thawDSN+"="+dsn, thawFile+"="+file, thawState+"="+t.TempDir())
	w.Stderr = os.Stderr
	out, err := w.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.Process.Kill()
		_ = w.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "working\n" {
		t.Fatalf("the worker says %q, %v", line, err)
	}
	return w
}

// thawEnd waits until all runs have ended, and resumes those that two freezes made look like killers.
func thawEnd(t *testing.T, e *workflow.Engine, store sql.Store) (resumed int) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		left, _, err := store.List(t.Context(), runstore.Query{Active: true, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			return resumed
		}
		for _, r := range left {
			if r.Phase != runtype.Paused {
				continue
			}
			if r.Fault == nil || r.Fault.Code != workflow.Crashed.Code {
				t.Fatalf("%s is paused: %+v", r.ID, r.Fault)
			}
			if err := e.Resume(t.Context(), r.ID, "", "", workflow.Actor{Name: "eve"}); err != nil {
				t.Fatal(err)
			}
			resumed++
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d runs have not ended", len(left))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// thawBegun reads when each key was begun.
func thawBegun(t *testing.T, file string) (begun map[string][]time.Duration, n int) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begun = map[string][]time.Duration{}
	for line := range strings.Lines(string(data)) {
		var key, up string
		var epoch int64
		if _, err := fmt.Sscan(line, &key, &up, &epoch); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		begun[key] = append(begun[key], seconds(t, up))
		n++
	}
	return begun, n
}

func upFor(t *testing.T) time.Duration {
	data, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	return seconds(t, strings.Fields(string(data))[0])
}

func seconds(t *testing.T, text string) time.Duration {
	t.Helper()
	s, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(s * float64(time.Second))
}
