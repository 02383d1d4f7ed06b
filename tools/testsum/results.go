package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// event is one line of `go test -json` (go doc test2json); build events name
// their package ImportPath.
type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
}

// Result is the result of a test; the largest of several results counts.
type Result int

// The results, the least important first.
const (
	Skipped Result = iota
	Passed
	Failed
)

var resultNames = [...]string{"skip", "pass", "fail"}

// Results holds the result of each test by "package test", and a failure of a
// package that no test explains (it did not build, or it died) by "package ".
type Results map[string]Result

func (r Results) note(result Result, pkg, test string) {
	key := pkg + " " + test
	if old, seen := r[key]; !seen || result > old {
		r[key] = result
	}
}

func (r Results) merge(e event) {
	switch {
	case e.Action == "fail" && e.Test == "":
		if e.FailedBuild != "" || !r.failedIn(e.Package) {
			r.note(Failed, e.Package, "")
		}
	case e.Test == "":
	case e.Action == "pass":
		r.note(Passed, e.Package, e.Test)
	case e.Action == "fail":
		r.note(Failed, e.Package, e.Test)
	case e.Action == "skip":
		r.note(Skipped, e.Package, e.Test)
	}
}

func (r Results) failedIn(pkg string) bool {
	for key, result := range r {
		if result == Failed && strings.HasPrefix(key, pkg+" ") {
			return true
		}
	}
	return false
}

// Sum returns the last line: "N passed, N failed, N skipped".
func (r Results) Sum() string {
	var n [3]int
	for _, result := range r {
		n[result]++
	}
	return fmt.Sprintf("%d passed, %d failed, %d skipped", n[Passed], n[Failed], n[Skipped])
}

// Good reports that tests ran and none failed.
func (r Results) Good() bool { return r.any(Passed) && !r.anyFailed() }

func (r Results) anyFailed() bool { return r.any(Failed) }

func (r Results) any(wanted Result) bool {
	for _, result := range r {
		if result == wanted {
			return true
		}
	}
	return false
}

func (r Results) add(other Results) {
	for key, result := range other {
		pkg, test, _ := strings.Cut(key, " ")
		r.note(result, pkg, test)
	}
}

func (r Results) save(path string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("the tally: %w", err)
	}
	w := bufio.NewWriter(f)
	for key, result := range r {
		fmt.Fprintf(w, "%s %s\n", resultNames[result], key)
	}
	return errors.Join(w.Flush(), f.Close())
}

func (r Results) load(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no suite has left results in %s", path)
	}
	if err != nil {
		return fmt.Errorf("the tally: %w", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, key, _ := strings.Cut(lines.Text(), " ")
		pkg, test, _ := strings.Cut(key, " ")
		for result, known := range resultNames {
			if name == known {
				r.note(Result(result), pkg, test)
			}
		}
	}
	return nil
}

// printer buffers the output of each test until the test fails, and prints the output of
// packages directly.
type printer struct {
	out  io.Writer
	held map[string]*strings.Builder
}

func (p *printer) fold(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(p.out, e.Output)
	case "output":
		if e.Test == "" {
			p.pkgLine(e.Output)
			return
		}
		if p.held[key] == nil {
			p.held[key] = &strings.Builder{}
		}
		p.held[key].WriteString(e.Output)
	case "fail":
		if b := p.held[key]; e.Test != "" && b != nil {
			fmt.Fprint(p.out, b.String())
		}
		if e.Test == "" { // the package died: print the output of its unfinished tests
			for k, b := range p.held {
				if strings.HasPrefix(k, key) {
					fmt.Fprint(p.out, b.String())
					delete(p.held, k)
				}
			}
		}
		delete(p.held, key)
	case "pass", "skip":
		delete(p.held, key)
	}
}

func (p *printer) pkgLine(line string) {
	switch {
	case line == "PASS\n",
		strings.HasPrefix(line, "coverage:"),
		strings.HasPrefix(line, "testing: warning: no tests to run"),
		strings.HasSuffix(line, "[no test files]\n"),
		strings.HasSuffix(line, "[no tests to run]\n"):
	default:
		fmt.Fprint(p.out, line)
	}
}
