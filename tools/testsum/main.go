// Command testsum runs `go test -json` in one or more modules and prints a short
// report: the closing line of every package, the full output of failed tests, and
// a last line:
//
//	ok  	github.com/pawl-dev/pawl/fault	0.012s
//	FAIL	github.com/pawl-dev/pawl/lock	0.004s
//	211 passed, 1 failed, 3 skipped
//
// Arguments after -- are passed to `go test`. With -tally FILE the results are also
// added to FILE; -total FILE prints the last line for all results in FILE. Each test
// counts once, however many suites ran it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	dirs := flag.String("in", ".", "comma-separated folders of the modules to test")
	counts := flag.String("tally", "", "file that the results are added to")
	total := flag.String("total", "", "print the sum of the results in this file and end")
	flag.Parse()

	results := Results{}
	var err error
	if *total != "" {
		err = results.load(*total)
	} else {
		err = run(results, strings.Split(*dirs, ","), flag.Args(), *counts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
	}
	fmt.Println(results.Sum())
	if err != nil || !results.Good() {
		os.Exit(1)
	}
}

func run(results Results, dirs, args []string, counts string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var errs []error
	for _, dir := range dirs {
		if ctx.Err() != nil {
			break
		}
		part := Results{}
		err := goTest(ctx, dir, args, part, os.Stdout)
		exit, refused := errors.AsType[*exec.ExitError](err)
		switch {
		case err != nil && !refused && ctx.Err() == nil:
			errs = append(errs, err)
		case refused && ctx.Err() == nil && !part.anyFailed():
			// A module that does not load has no failed test to report.
			errs = append(errs, fmt.Errorf("go test in %s: %w", dir, exit))
			part.note(Failed, dir, "")
		}
		results.add(part)
	}
	if counts != "" {
		errs = append(errs, results.save(counts))
	}
	if ctx.Err() != nil {
		errs = append(errs, errors.New("stopped before the end"))
	}
	return errors.Join(errs...)
}

func goTest(ctx context.Context, dir string, args []string, results Results, out io.Writer) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("go test in %s: %w", dir, err)
	}
	readErr := Read(ctx, events, results, out)
	return errors.Join(cmd.Wait(), readErr)
}

// Read merges the events of `go test -json` into results and prints the closing line of
// each package and the output of failed tests. It ignores events after ctx is done: those
// tests were stopped.
func Read(ctx context.Context, events io.Reader, results Results, out io.Writer) error {
	printer := printer{out: out, held: map[string]*strings.Builder{}}
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			switch {
			case ctx.Err() != nil:
			case json.Unmarshal(line, &e) != nil:
				fmt.Fprintf(out, "%s", line) // output of the go command
			default:
				results.merge(e)
				printer.fold(e)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading the events of go test: %w", err)
		}
	}
}
