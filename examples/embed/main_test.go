package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOperate: the cluster is created, healed, scaled by another process on the same
// store, and stops at a fault.
func TestOperate(t *testing.T) {
	w := toy{dir: t.TempDir()}
	count := func(want int) {
		t.Helper()
		if n, err := w.members(); n != want || err != nil {
			t.Errorf("%d members, want %d, %v", n, want, err)
		}
	}
	from := w.process(t, 3)
	from.until("Running create")
	count(3)
	if err := os.Remove(filepath.Join(w.dir, "member-2")); err != nil {
		t.Fatal(err)
	}
	from.until("Running lost")
	count(3)
	from.end()

	from = w.process(t, 5)
	from.until("Running scale")
	count(5)
	from.end()

	locked := filepath.Join(w.dir, "locked")
	if err := os.WriteFile(locked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	from = w.process(t, 1)
	from.until("Interrupted scale")
	count(5)
	from.end()
}

// process is the running program.
type process struct {
	t     *testing.T
	lines chan string
	stop  context.CancelFunc
	ended chan error
}

func (w toy) process(t *testing.T, members int) process {
	ctx, stop := context.WithCancel(t.Context())
	p := process{t, make(chan string, 1000), stop, make(chan error, 1)}
	w.tell = p
	go func() { p.ended <- operate(ctx, w, members) }()
	return p
}

// Write receives a line of the program's output.
func (p process) Write(line []byte) (int, error) {
	p.lines <- string(line)
	return len(line), nil
}

var _ io.Writer = process{}

func (p process) until(text string) {
	p.t.Helper()
	for {
		select {
		case line := <-p.lines:
			if strings.Contains(line, text) {
				return
			}
		case err := <-p.ended:
			p.t.Fatalf("it ended before it printed %q: %v", text, err)
		}
	}
}

func (p process) end() {
	p.t.Helper()
	p.stop()
	if err := <-p.ended; err != nil {
		p.t.Error(err)
	}
}
