package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// runner executes measures.
type runner struct {
	programs    map[string]string // name to path
	root        string            // folder of Pawl's checkout
	dir         string            // directory of all output
	repetitions int
	quick       bool
	commit      string
	progress    io.Writer

	postgres func(context.Context) (*postgres, error) // starts it at the first call
	files    map[string]prepared                      // SQLite files with finished runs
	began    time.Time
	done     int
	total    int
}

// prepared is a SQLite file of which measures get copies.
type prepared struct {
	path string
	err  error
}

// attempts holds the results of one measure.
type attempts struct {
	measure
	values []map[string]float64
	err    error
}

// run executes all measures. It ends early only if ctx does.
func (r *runner) run(ctx context.Context, all []measure) map[string]series {
	r.began, r.total, r.files = time.Now(), len(all)*r.repetitions, map[string]prepared{}
	taken := map[string]series{}
	for _, group := range groups(all) {
		var turn []*attempts
		for _, m := range all {
			if m.group == group {
				turn = append(turn, &attempts{measure: m})
			}
		}
		r.runInTurns(ctx, turn)
		for _, a := range turn {
			taken[a.name] = r.series(a)
		}
		for name, f := range r.files {
			os.RemoveAll(filepath.Dir(f.path))
			delete(r.files, name)
		}
	}
	return taken
}

// runInTurns executes each measure once, then each again. It skips measures that have
// failed.
func (r *runner) runInTurns(ctx context.Context, turn []*attempts) {
	for i := range r.repetitions {
		for _, a := range turn {
			r.done++
			if a.err != nil || ctx.Err() != nil || a.optIn && i > 0 {
				continue
			}
			values, err := r.runOnce(ctx, a.measure)
			if err != nil {
				a.err = err
				r.logf("%s: %v", a.name, err)
				continue
			}
			a.values = append(a.values, values)
			r.logf("%s %d/%d: %s", a.name, i+1, r.repetitions, headline(values))
		}
	}
}

func (r *runner) logf(format string, args ...any) {
	fmt.Fprintf(r.progress, "[%3d/%d %6s] %s\n", r.done, r.total, time.Since(r.began).Round(time.Second), fmt.Sprintf(format, args...))
}

// headline returns the figure to show as progress.
func headline(values map[string]float64) string {
	for _, h := range []struct{ key, format, unit string }{
		{"stepsPerSecond", "%.0f", "steps/s"}, {"signalP99Ms", "%.2f", "ms for a signal, p99"}, {"firstStepSeconds", "%.3f", "s to the first step"},
		{"pageP99Ms", "%.2f", "ms for a page, p99"}, {"passSeconds", "%.2f", "s for a pass"}, {"vmsPerSecond", "%.0f", "VMs/s"},
		{"bareSeconds", "%.2f", "s by the bare API server"}, {"operatorCallsPerMinute", "%.1f", "calls a minute"}, {"storeBytesPerRun", "%.0f", "bytes a run"},
		{"listPerSecond", "%.0f", "requests/s"}, {"idleCPU", "%.4f", "cores"}, {"claimedSeconds", "%.2f", "s until all are claimed"},
	} {
		if v, ok := values[h.key]; ok {
			return number(h.format, v) + " " + h.unit
		}
	}
	return "done"
}

func (r *runner) series(a *attempts) series {
	s := series{Command: a.command(), Taken: r.began.UTC().Format(time.DateOnly), Commit: r.commit, Quick: r.quick, Repetitions: len(a.values), Values: summarise(a.values)}
	if a.err != nil {
		s.Error = a.err.Error()
	}
	return s
}

// runOnce executes a measure once.
func (r *runner) runOnce(ctx context.Context, m measure) (values map[string]float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	args := slices.Clone(m.args)
	if m.needs(dsnVar) {
		p, err := r.postgres(ctx)
		if err != nil {
			return nil, fmt.Errorf("PostgreSQL: %w", err)
		}
		dsn, drop, err := p.database()
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, drop()) }()
		replace(args, dsnVar, dsn)
	}
	if m.needs(fileVar) {
		path, remove, err := r.file(ctx, m)
		if err != nil {
			return nil, err
		}
		defer remove()
		replace(args, fileVar, path)
	}
	if m.program == "go" {
		return r.benchmarks(ctx, args)
	}
	return r.execute(ctx, m.program, args)
}

// benchmarks executes go test in the folder of Pawl.
func (r *runner) benchmarks(ctx context.Context, args []string) (map[string]float64, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, lastLines(string(out), 5))
	}
	return parseBenchmarks(string(out))
}

func replace(args []string, variable, value string) {
	for i, arg := range args {
		if arg == variable {
			args[i] = value
		}
	}
}

// file returns a copy of the measure's SQLite file. The first use creates the file.
func (r *runner) file(ctx context.Context, m measure) (path string, remove func(), err error) {
	origin, ok := r.files[m.file]
	if !ok {
		origin = r.prepare(ctx, m)
		r.files[m.file] = origin
	}
	if origin.err != nil {
		return "", nil, fmt.Errorf("making its file: %w", origin.err)
	}
	folder, err := os.MkdirTemp(r.dir, "copy-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(folder) }
	path = filepath.Join(folder, "bench.db")
	for _, suffix := range []string{"", "-wal"} {
		if err := copyFile(path+suffix, origin.path+suffix); err != nil && (suffix == "" || !errors.Is(err, os.ErrNotExist)) {
			remove()
			return "", nil, err
		}
	}
	return path, remove, nil
}

func (r *runner) prepare(ctx context.Context, m measure) prepared {
	folder, err := os.MkdirTemp(r.dir, "former-")
	if err != nil {
		return prepared{err: err}
	}
	p := prepared{path: filepath.Join(folder, "bench.db")}
	r.logf("%s: making a file with finished runs", m.name)
	args := slices.Clone(m.prepare)
	replace(args, fileVar, p.path)
	_, p.err = r.execute(ctx, m.program, args)
	return p
}

// copyFile copies a file and syncs the copy, so that the measure does not wait for it.
func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// execute runs a program and reads the figures it prints. The peak of its
// memory is added as residentPeakMiB.
func (r *runner) execute(ctx context.Context, program string, args []string) (map[string]float64, error) {
	args = append(slices.Clone(args), "--dir", r.dir)
	if program == "pawl" {
		args = append([]string{"bench", "-o", "json"}, args...)
	}
	cmd := exec.CommandContext(ctx, r.programs[program], args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a process group: its children are killed with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	peak := make(chan float64, 1)
	go func() { peak <- watchMemory(cmd.Process.Pid, ended) }()
	err := cmd.Wait()
	close(ended)
	resident := <-peak
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", program, context.Cause(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", program, err, lastLines(stderr.String(), 5))
	}
	values, err := parse(stdout.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	if resident > 0 {
		values["residentPeakMiB"] = resident
	}
	return values, nil
}

// watchMemory returns the peak of a process's resident memory in MiB. The peak that Wait
// reports would include the memory of this process, which a child shares until exec.
func watchMemory(pid int, ended <-chan struct{}) (peak float64) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		text := strings.TrimSuffix(fieldOf("/proc/"+strconv.Itoa(pid)+"/status", "VmHWM"), " kB")
		if kib, err := strconv.ParseFloat(text, 64); err == nil {
			peak = kib / 1024
		}
		select {
		case <-ended:
			return peak
		case <-tick.C:
		}
	}
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(len(lines)-n, 0):], "; ")
}
