// Command bench measures Pawl's performance requirements, raw loops and a peer.
//
//	plan ─▶ pawl bench, river ─▶ medians ─▶ requirements, peers, growth
//	 (each several times, JSON)     │
//	                          results.json ─▶ README.md, growth.svg
//
// It builds pawl and the peer, starts a temporary PostgreSQL server, executes
// each command of the plan, and compares the medians with gates and aims. After a
// failed measure the others continue.
//
//	go -C bench run .                 # all, about ten minutes, on a quiet machine
//	go -C bench run . -write          # the same, into README.md
//	go -C bench run . -only sqlite,9  # one group of measures, and those of requirement 9
//	go -C bench run . -quick          # a tenth of it, once
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
)

type options struct {
	only, root, dir, pawl string
	repeat                int
	quick, write, render  bool
	strict, list          bool
}

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "measure only these: groups, measures or numbers of requirements, comma between them (-list names them)")
	flag.IntVar(&o.repeat, "repeat", 5, "repetitions of each measure; medians are shown")
	flag.BoolVar(&o.quick, "quick", false, "one repetition, a tenth of each size: shows that the programs work")
	flag.BoolVar(&o.write, "write", false, "write results.json, growth.svg and the generated parts of README.md")
	flag.BoolVar(&o.render, "render", false, "measure nothing: write README.md and growth.svg from results.json")
	flag.BoolVar(&o.strict, "strict", false, "exit with 1 when a gate is missed")
	flag.BoolVar(&o.list, "list", false, "name the measures and their commands")
	flag.StringVar(&o.root, "root", "..", "`folder` of Pawl's checkout; this program's own is its bench/")
	flag.StringVar(&o.dir, "dir", "", "`folder` on the disk to measure (default that of temporary files)")
	flag.StringVar(&o.pawl, "pawl", "", "`file` of a pawl to measure (default: it is built)")
	flag.Parse()
	os.Exit(code(o))
}

func code(o options) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := onDisk(&o)
	failed := false
	if err == nil {
		failed, err = run(ctx, o, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	if err != nil || failed {
		return 1
	}
	return 0
}

// onDisk makes all programs, PostgreSQL included, write to the chosen disk.
func onDisk(o *options) (err error) {
	if o.dir == "" {
		return nil
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return err
	}
	return os.Setenv("TMPDIR", o.dir)
}

// run measures, prints and writes. failed reports a failed measure or, with strict, a
// missed gate.
func run(ctx context.Context, o options, out, progress io.Writer) (failed bool, err error) {
	if _, err := os.Stat(filepath.Join(o.root, "cmd", "pawl")); err != nil {
		return false, fmt.Errorf("%w: call it as `go -C bench run .`, or name the checkout with -root", err)
	}
	chosen, err := choose(plan(o.quick), o.only)
	if err != nil {
		return false, err
	}
	folder := filepath.Join(o.root, "bench")
	stored, err := load(filepath.Join(folder, "results.json"))
	switch {
	case err != nil:
		return false, err
	case o.list:
		for _, m := range chosen {
			fmt.Fprintf(out, "%-10s %-30s %s\n", m.group, m.name, m.command())
		}
		return false, nil
	case o.render:
		return false, write(folder, stored)
	}
	fresh, err := measureAll(ctx, o, chosen, progress)
	if err != nil {
		return false, err
	}
	for _, s := range sections(fresh) {
		fmt.Fprintf(out, "\n%s\n\n%s", s.title, s.text)
	}
	if o.write {
		all := merge(stored, fresh)
		err = errors.Join(all.save(filepath.Join(folder, "results.json")), write(folder, all))
	}
	return failing(fresh, o.strict), err
}

func failing(r results, strict bool) bool {
	for _, s := range r.Measures {
		if s.Error != "" {
			return true
		}
	}
	for _, d := range requirements {
		if strict && d.verdict(r.requirementValue(d)) == missed {
			return true
		}
	}
	return false
}

func write(folder string, r results) error {
	return errors.Join(
		updateFile(filepath.Join(folder, "README.md"), sections(r)),
		os.WriteFile(filepath.Join(folder, "growth.svg"), []byte(growthPlot(r)), 0o644),
	)
}

func measureAll(ctx context.Context, o options, chosen []measure, progress io.Writer) (r results, err error) {
	dir, err := os.MkdirTemp(o.dir, "pawl-bench-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	programs, err := build(ctx, o, dir, progress)
	if err != nil {
		return r, err
	}
	r.Machine = describeMachine(dir)
	r.Machine.River = versionOf(programs["river"], "github.com/riverqueue/river")
	server := sync.OnceValues(func() (*postgres, error) { return startPostgres(ctx) })
	defer func() { err = errors.Join(err, stopPostgres()) }()
	work := runner{
		programs: programs, root: o.root, dir: dir, quick: o.quick, repetitions: max(o.repeat, 1), commit: commitOf(o.root), progress: progress,
		postgres: func(context.Context) (*postgres, error) {
			p, err := server()
			if p != nil {
				r.Machine.PostgreSQL = p.version
			}
			return p, err
		},
	}
	if o.quick {
		work.repetitions = 1
	}
	r.Measures = work.run(ctx, chosen)
	return r, ctx.Err()
}

// build builds the programs to measure.
func build(ctx context.Context, o options, dir string, progress io.Writer) (map[string]string, error) {
	programs := map[string]string{"pawl": o.pawl, "river": filepath.Join(dir, "river"), "clusters": filepath.Join(dir, "clusters"), "kubernetes": filepath.Join(dir, "kubernetes")}
	type target struct{ in, pkg, to string }
	folder := filepath.Join(o.root, "bench")
	targets := []target{{folder, "./river", programs["river"]}, {folder, "./clusters", programs["clusters"]}, {folder, "./kubernetes", programs["kubernetes"]}}
	if o.pawl == "" {
		programs["pawl"] = filepath.Join(dir, "pawl")
		targets = append(targets, target{o.root, "./cmd/pawl", programs["pawl"]})
	}
	for _, t := range targets {
		fmt.Fprintf(progress, "building %s\n", t.pkg)
		cmd := exec.CommandContext(ctx, "go", "build", "-C", t.in, "-o", t.to, t.pkg)
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go build -C %s %s: %w\n%s", t.in, t.pkg, err, text)
		}
	}
	return programs, nil
}
