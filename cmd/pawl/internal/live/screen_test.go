package live_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

var update = flag.Bool("update", false, "write the golden file anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// terminal is a pseudo terminal whose other end is emulated.
type terminal struct {
	*testing.T
	tty    *os.File
	output chan struct{}

	mu    sync.Mutex
	shown *vt.Emulator
}

func newTerminal(t *testing.T, width, height int) *terminal {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	d := &terminal{T: t, tty: tty, shown: vt.NewEmulator(width, height), output: make(chan struct{}, 1)}
	d.setSize(width, height)
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		buffer := make([]byte, 64<<10)
		for {
			n, err := master.Read(buffer)
			if err != nil {
				return
			}
			d.mu.Lock()
			_, _ = d.shown.Write(buffer[:n])
			d.mu.Unlock()
			select {
			case d.output <- struct{}{}:
			default:
			}
		}
	}()
	t.Cleanup(func() {
		tty.Close()
		master.Close()
		<-copied
	})
	fmt.Fprint(tty, "$ pawl watch\r\n")
	return d
}

func (d *terminal) setSize(width, height int) {
	d.Helper()
	d.mu.Lock()
	d.shown.Resize(width, height)
	d.mu.Unlock()
	if err := pty.Setsize(d.tty, &pty.Winsize{Cols: uint16(width), Rows: uint16(height)}); err != nil {
		d.Fatal(err)
	}
}

// lines are what the terminal shows, without the empty lines at the end.
func (d *terminal) lines() []string {
	d.mu.Lock()
	lines := strings.Split(d.shown.String(), "\n")
	d.mu.Unlock()
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \r")
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// until waits until the terminal shows what is wanted.
func (d *terminal) until(what string, holds func(lines []string) bool) []string {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), 30*time.Second)
	defer cancel()
	for {
		if lines := d.lines(); holds(lines) {
			return lines
		}
		select {
		case <-d.output:
		case <-ctx.Done():
			d.Fatalf("%s; the terminal shows\n%s", what, strings.Join(d.lines(), "\n"))
		}
	}
}

func (d *terminal) shows(want []string) []string {
	d.Helper()
	return d.until(fmt.Sprintf("want %q below the command", want), func(lines []string) bool {
		return len(lines) > 0 && slices.Equal(lines[1:], want)
	})
}

var start = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// states are those of a run that is paused by a fault with a long remedy, and goes on.
func states() []view.Run {
	r := view.Run{ID: "gk3vaaaaaaaaaaaaaaaaaaaaaa", Flow: "Create", Subject: "demo/default/c1", Phase: runtype.Running, StartedAt: start,
		Steps: []view.Step{
			{Name: "Network", Phase: runtype.StepDone, StartedAt: start, EndedAt: start.Add(time.Second)},
			{Name: "Machines[a]/Start", Phase: runtype.StepRunning, StartedAt: start.Add(time.Second)},
		}}
	paused, done := r, r
	fault := &view.Fault{Code: "QUOTA_EXCEEDED", Message: "the account may have 20 machines and has 20", Remedy: "Raise the quota of the account with the provider, or delete machines that nobody needs any more; then resume the run."}
	paused.Phase, paused.Fault, paused.PausedAt = runtype.Paused, fault, start.Add(3*time.Second)
	paused.Steps = []view.Step{r.Steps[0], {Name: "Machines[a]/Start", Phase: runtype.StepFailed, StartedAt: start.Add(time.Second), EndedAt: start.Add(3 * time.Second), Attempts: 1, Fault: fault}}
	done.Phase, done.EndedAt = runtype.Succeeded, start.Add(9*time.Second)
	done.Steps = []view.Step{r.Steps[0], {Name: "Machines[a]/Start", Phase: runtype.StepDone, StartedAt: start.Add(5 * time.Second), EndedAt: start.Add(9 * time.Second), Attempts: 2}}
	return []view.Run{r, paused, done}
}

func tree(r view.Run) live.Drawing {
	return func(style view.Style) []string { return view.Tree(r, start.Add(3*time.Second), style) }
}

// A run is drawn over itself at every width: no line wraps, none stands there twice, and a remedy is whole.
func TestARunAtFourWidths(t *testing.T) {
	var golden strings.Builder
	for _, width := range []int{40, 60, 80, 200} {
		d := newTerminal(t, width, 24)
		screen := live.Open(d.tty, view.Style{Width: width, Height: 24})
		for _, r := range states() {
			screen.Show(tree(r))
			lines := d.shows(view.Tree(r, start.Add(3*time.Second), view.Style{Width: width, Height: 24}))
			fmt.Fprintf(&golden, "-- %d columns, %s\n%s\n\n", width, r.Phase, strings.Join(lines, "\n"))
			if text := strings.Join(strings.Fields(strings.Join(lines, " ")), " "); r.Fault != nil && !strings.Contains(text, "or delete machines that nobody needs any more, then: pawl resume gk3v") {
				t.Errorf("%d columns: the remedy is cut:\n%s", width, strings.Join(lines, "\n"))
			}
		}
		screen.Close()
		fmt.Fprint(d.tty, "$ ")
		d.until("the prompt stands below the drawing", func(lines []string) bool { return strings.HasPrefix(lines[len(lines)-1], "$") })
	}
	const file = "testdata/run.txt"
	if *update {
		if err := os.WriteFile(file, []byte(golden.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != golden.String() {
		t.Errorf("%v: %s differs (write it anew with -update):\n%s", err, file, golden.String())
	}
}

// A terminal that becomes narrower or wider shows the drawing of its new size, once.
func TestATerminalIsResized(t *testing.T) {
	d := newTerminal(t, 80, 24)
	screen := live.Open(d.tty, view.Style{Width: 80, Height: 24})
	defer screen.Close()
	paused := states()[1]
	screen.Show(tree(paused))
	d.shows(view.Tree(paused, start.Add(3*time.Second), view.Style{Width: 80, Height: 24}))
	for _, width := range []int{40, 200} {
		d.setSize(width, 24)
		if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
			t.Fatal(err)
		}
		want := view.Tree(paused, start.Add(3*time.Second), view.Style{Width: width, Height: 24})
		d.until(fmt.Sprintf("the drawing of %d columns", width), func(lines []string) bool {
			return len(lines) >= len(want) && slices.Equal(lines[len(lines)-len(want):], want) && strings.Count(strings.Join(lines, "\n"), "Network") == 1
		})
	}
}

// Of a drawing that is higher than the terminal the end is shown, and nothing is left of what was drawn before.
func TestADrawingHigherThanTheTerminal(t *testing.T) {
	d := newTerminal(t, 40, 6)
	screen := live.Open(d.tty, view.Style{Width: 40, Height: 6})
	defer screen.Close()
	for round := range 3 {
		screen.Show(func(view.Style) (lines []string) {
			for i := range 20 {
				lines = append(lines, fmt.Sprintf("round %d line %d", round, i))
			}
			return lines
		})
		d.until("the last lines", func(lines []string) bool {
			return len(lines) == 6 && lines[5] == fmt.Sprintf("round %d line 19", round) && lines[0] == fmt.Sprintf("round %d line 14", round)
		})
	}
}
