package measure

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// WorkersResult is what several workers on one store do together, each number
// of workers measured in turn with one.
type WorkersResult struct {
	Store          string         `json:"store"`
	Runs           int            `json:"runs"` // of all workers together
	Steps          int            `json:"steps"`
	Concurrency    int            `json:"concurrency"` // of all workers together
	Turns          []WorkersShare `json:"turns"`
	StepsPerSecond float64        `json:"stepsPerSecond"` // of the last number of workers
	ShareOfOne     float64        `json:"shareOfOne"`     // of the last number of workers
}

// WorkersShare is the median of one number of workers.
type WorkersShare struct {
	Workers        int     `json:"workers"`
	StepsPerSecond float64 `json:"stepsPerSecond"`  // of all together
	Share          float64 `json:"shareOfOne"`      // of what one worker does
	LatencyP50Ms   float64 `json:"latencyP50Ms"`    // the worst of the workers
	LatencyP99Ms   float64 `json:"latencyP99Ms"`    // the worst of the workers
	CommitsPerStep float64 `json:"commitsPerStep"`  // of the stores' writers
	WritesPerBatch float64 `json:"writesPerCommit"` // the size of a batch
	StatementsStep float64 `json:"statementsPerStep"`
	CPUMsPerStep   float64 `json:"cpuMsPerStep"` // of the workers, not of the server
}

// workerReport is the result that a worker's process sends to its parent.
type workerReport struct {
	P50, P99                    float64
	CPU                         time.Duration
	Writes, Commits, Statements int64
}

// WorkerChild is one worker: it opens the store, executes a run for each client,
// reports ready, waits for the start line, executes its part and reports.
func WorkerChild(ctx context.Context, store, dsn string, o Options, in io.Reader, out io.Writer) error {
	m, err := OpenBackend(ctx, store, dsn, "")
	if err != nil {
		return err
	}
	b, err := Open(m.Store, o, m.Counters)
	if err != nil {
		return err
	}
	if _, err := b.clients(ctx, fmt.Sprintf("warm-%d", os.Getpid()), o.Concurrency, o.Concurrency); err != nil { // opens the connections
		return err
	}
	fmt.Fprintln(out, "ready")
	if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
		return err
	}
	before, cpu := m.Counters(), CPU()
	r, err := b.Run(ctx, store, o)
	if err != nil {
		return err
	}
	after := m.Counters()
	report := workerReport{P50: r.LatencyP50Ms, P99: r.LatencyP99Ms, CPU: CPU() - cpu, Writes: after.Writes - before.Writes,
		Commits: after.Syncs - before.Syncs, Statements: after.Statements - before.Statements}
	if err := json.NewEncoder(out).Encode(report); err != nil {
		return err
	}
	if err := b.Close(); err != nil {
		return err
	}
	return m.Close()
}

// Workers measures one worker and each number of workers in turn, repeatedly,
// each worker in a process of its own (command, with its part appended), all on one database.
func Workers(ctx context.Context, store string, command []string, numbers []int, repeat int, o Options) (WorkersResult, error) {
	r := WorkersResult{Store: store, Runs: o.Runs, Steps: o.Steps, Concurrency: o.Concurrency}
	if !slices.Contains(numbers, 1) {
		numbers = append([]int{1}, numbers...)
	}
	taken := map[int][]WorkersShare{}
	for range repeat {
		for _, n := range numbers {
			share, err := runTogether(ctx, command, n, o)
			if err != nil {
				return r, fmt.Errorf("%d workers: %w", n, err)
			}
			taken[n] = append(taken[n], share)
		}
	}
	for _, n := range numbers {
		all := taken[n]
		slices.SortFunc(all, func(a, b WorkersShare) int { return int(a.StepsPerSecond - b.StepsPerSecond) })
		r.Turns = append(r.Turns, all[len(all)/2])
	}
	one := slices.IndexFunc(r.Turns, func(s WorkersShare) bool { return s.Workers == 1 })
	for i := range r.Turns {
		r.Turns[i].Share = r.Turns[i].StepsPerSecond / r.Turns[one].StepsPerSecond
		r.StepsPerSecond, r.ShareOfOne = r.Turns[i].StepsPerSecond, r.Turns[i].Share
	}
	return r, nil
}

// runTogether runs n workers from one start line to the end of the last one.
func runTogether(ctx context.Context, command []string, n int, o Options) (s WorkersShare, err error) {
	type process struct {
		cmd *exec.Cmd
		in  io.WriteCloser
		out *bufio.Reader
	}
	var all []process
	defer func() {
		for _, p := range all {
			if err != nil {
				_ = p.cmd.Process.Kill()
			}
			err = errors.Join(err, p.cmd.Wait())
		}
	}()
	part := func(of, i int) int { return of/n + min(1, max(0, of%n-i)) }
	for i := range n {
		args := slices.Concat(command[1:], []string{"--runs", fmt.Sprint(part(o.Runs, i)), "--steps", fmt.Sprint(o.Steps),
			"--concurrency", fmt.Sprint(max(1, part(o.Concurrency, i)))})
		cmd := exec.CommandContext(ctx, command[0], args...)
		cmd.Stderr = os.Stderr
		in, bad := cmd.StdinPipe()
		if bad != nil {
			return s, bad
		}
		out, bad := cmd.StdoutPipe()
		if bad != nil {
			return s, bad
		}
		if err := cmd.Start(); err != nil {
			return s, err
		}
		p := process{cmd, in, bufio.NewReader(out)}
		all = append(all, p)
		if line, _ := p.out.ReadString('\n'); strings.TrimSpace(line) != "ready" { // one after the other: they make the schema
			return s, fmt.Errorf("worker %d did not open its store: %q", i+1, line)
		}
	}
	began := time.Now()
	for _, p := range all {
		if _, err := io.WriteString(p.in, "go\n"); err != nil {
			return s, err
		}
	}
	var sum workerReport
	for i, p := range all {
		var r workerReport
		line, bad := p.out.ReadBytes('\n')
		if bad == nil {
			bad = json.Unmarshal(line, &r)
		}
		if bad != nil {
			return s, fmt.Errorf("worker %d: %w", i+1, bad)
		}
		sum.P50, sum.P99, sum.CPU = max(sum.P50, r.P50), max(sum.P99, r.P99), sum.CPU+r.CPU
		sum.Writes, sum.Commits, sum.Statements = sum.Writes+r.Writes, sum.Commits+r.Commits, sum.Statements+r.Statements
	}
	steps := float64(o.Runs * o.Steps)
	return WorkersShare{
		Workers: n, StepsPerSecond: steps / time.Since(began).Seconds(), LatencyP50Ms: sum.P50, LatencyP99Ms: sum.P99,
		CommitsPerStep: float64(sum.Commits) / steps, WritesPerBatch: float64(sum.Writes) / float64(max(sum.Commits, 1)),
		StatementsStep: float64(sum.Statements) / steps, CPUMsPerStep: float64(sum.CPU.Milliseconds()) / steps,
	}, nil
}
