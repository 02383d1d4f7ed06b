package measure

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// KillResult is what a kill -9 in the middle of many runs costs.
type KillResult struct {
	Store            string  `json:"store"`
	Runs             int     `json:"runs"`
	Steps            int     `json:"steps"`
	Concurrency      int     `json:"concurrency"`
	OpenAtKill       int     `json:"openAtKill"`       // runs begun and not ended when the process died
	FirstStepSeconds float64 `json:"firstStepSeconds"` // from opening the store to the first step
	FinishedSeconds  float64 `json:"finishedSeconds"`  // until all runs had ended
	Repeated         int     `json:"repeatedSteps"`    // executed in both lives
	RepeatedPerRun   float64 `json:"repeatedPerOpenRun"`
	Succeeded        int     `json:"succeeded"`
}

// KillChild is the process that is killed: it starts all runs on a
// SQLite file and appends the key of each step to a file beside it.
func KillChild(ctx context.Context, path string, runs, steps, concurrency int) error {
	k, err := openKill(ctx, path, steps, concurrency)
	if err != nil {
		return err
	}
	for i := range runs {
		if _, err := k.engine.Start(ctx, workflow.Request{Flow: benchFlow, Subject: fmt.Sprintf("bench/kill/%d", i), RequestID: "1"}); err != nil {
			return err
		}
	}
	fmt.Println("started")
	return k.engine.Serve(ctx)
}

type killRun struct {
	engine *workflow.Engine
	store  sql.Store
	keys   *os.File
	first  atomic.Int64
	steps  int
}

func openKill(ctx context.Context, path string, steps, concurrency int) (*killRun, error) {
	store, err := sql.Open(ctx, sql.Options{Path: path})
	if err != nil {
		return nil, err
	}
	keys, err := os.OpenFile(path+".keys", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	k := &killRun{store: store, keys: keys, steps: steps}
	flow := workflow.Flow{Name: benchFlow}
	for i := range steps {
		flow.Steps = append(flow.Steps, workflow.Step{Name: fmt.Sprintf("step-%d", i+1), Do: func(_ context.Context, t *workflow.Task) outcome.Outcome {
			k.first.CompareAndSwap(0, time.Now().UnixNano())
			_, err := fmt.Fprintln(keys, t.Key()) // one write: lines of several steps do not mix
			return outcome.Fail(err)
		}})
	}
	k.engine, err = workflow.New(store, []workflow.Flow{flow}, workflow.Options{Attempts: concurrency})
	return k, err
}

// Kill starts runs in a process of their own (command, with its file appended),
// kills it in the middle, and continues in this one.
func Kill(ctx context.Context, dir string, command []string, o Options) (r KillResult, err error) {
	r = KillResult{Store: "sqlite", Runs: o.Runs, Steps: o.Steps, Concurrency: o.Concurrency}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return r, err
	}
	folder, err := os.MkdirTemp(dir, "bench-kill-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "kill.db")
	if err := firstLife(ctx, append(command, path), path, o.Runs*o.Steps/2); err != nil {
		return r, err
	}
	before, err := keysOf(path)
	if err != nil {
		return r, err
	}
	began := time.Now()
	k, err := openKill(ctx, path, o.Steps, o.Concurrency)
	if err != nil {
		return r, err
	}
	opened := time.Since(began)
	defer k.store.Close()
	open, _, err := k.store.List(ctx, runstore.Query{Active: true, Limit: 1000})
	if err != nil {
		return r, err
	}
	for _, run := range open {
		if !run.StartedAt.IsZero() {
			r.OpenAtKill++
		}
	}
	began = time.Now()
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- k.engine.Serve(serving) }()
	for {
		left, _, err := k.store.List(ctx, runstore.Query{Active: true, Limit: 1})
		if err != nil || len(left) == 0 {
			break
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			stop()
			return r, errors.Join(ctx.Err(), <-served)
		}
	}
	r.FinishedSeconds = (opened + time.Since(began)).Seconds()
	if first := k.first.Load(); first > 0 {
		r.FirstStepSeconds = (opened + time.Unix(0, first).Sub(began)).Seconds()
	}
	stop()
	if err := <-served; err != nil {
		return r, err
	}
	all, err := keysOf(path)
	if err != nil {
		return r, err
	}
	for key, n := range all {
		if before[key] > 0 && n > before[key] {
			r.Repeated++
		}
	}
	r.RepeatedPerRun = float64(r.Repeated) / float64(max(r.OpenAtKill, 1))
	ended, _, err := k.store.List(ctx, runstore.Query{Phases: []runtype.Phase{runtype.Succeeded}, Limit: 1000})
	r.Succeeded = len(ended)
	return r, err
}

// firstLife runs the command until a number of steps were executed, and kills it.
func firstLife(ctx context.Context, command []string, path string, steps int) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); strings.TrimSpace(line) != "started" {
		_ = cmd.Process.Kill()
		return fmt.Errorf("the process to be killed did not start its runs: %q", line)
	}
	for {
		info, err := os.Stat(path + ".keys")
		if err == nil && info.Size() > int64(steps)*30 {
			break
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			_ = cmd.Process.Kill()
			return ctx.Err()
		}
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	_ = cmd.Wait() // it was killed: that is the error
	return nil
}

func keysOf(path string) (map[string]int, error) {
	data, err := os.ReadFile(path + ".keys")
	if err != nil {
		return nil, err
	}
	keys := map[string]int{}
	for line := range strings.Lines(string(data)) {
		keys[strings.TrimSpace(line)]++
	}
	return keys, nil
}
