package tool

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// short are options with which a call is ended after a tenth of a second.
var short = Options{Timeout: 50 * ms, MaxTimeout: 50 * ms}

func TestADeadlineEndsATool(t *testing.T) {
	for name, p := range map[string]play{
		"it hangs and ignores signals":           {Hang: true, IgnoreSignals: true},
		"it has said what is good and hangs":     {Hang: true, Stdout: "Configuration changed\n"},
		"its grandchild hangs with it":           {Hang: true, Grandchild: true},
		"it prints half a line and hangs":        {Hang: true, Stderr: "ERROR: The confi"},
		"a pipe of a refusal, and then it hangs": {Hang: true, Stderr: "ERROR: Database is locked (1038)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, p, short)
			a := s.Run(t.Context(), endpoint(), fdb.Configure(fdb.Configuration{}, false))
			if a.Outcome != fdb.Unknown {
				t.Errorf("it is %s, of a tool that was ended", a.Result)
			}
			if p.Stderr == "" && (a.Reason != fdb.TimedOut || !strings.Contains(a.Text, "fdbcli was ended after 100ms")) {
				t.Errorf("it is %s, and not that it was ended after 100ms", a.Result)
			}
			noneLeft(t, s)
		})
	}
}

func noneLeft(t *testing.T, s *stage) {
	t.Helper()
	for _, r := range s.records() {
		eventually(t, "the process group is gone", func() bool { return len(group(r.Pid)) == 0 })
	}
	if left := zombies(); len(left) > 0 {
		t.Errorf("nobody has waited for %v", left)
	}
	if left, _ := os.ReadDir(s.root); len(left) > 0 {
		t.Errorf("%d folders are left", len(left))
	}
}

func TestACallerEndsATool(t *testing.T) {
	s := newStage(t, play{Hang: true, IgnoreSignals: true, Grandchild: true}, Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	because := errors.New("the lock is lost")
	answer := make(chan fdb.Result)
	go func() { answer <- s.Run(ctx, endpoint(), fdb.MaintenanceOff()).Result }()
	eventually(t, "tool and grandchild run", func() bool { return len(s.records()) == 2 })
	cancel(because)
	if r := <-answer; r.Outcome != fdb.Unknown || r.Reason != fdb.ToolEnded || r.Text != because.Error() {
		t.Errorf("it is %s", r)
	}
	noneLeft(t, s)
}

func TestCloseEndsAllTools(t *testing.T) {
	s := newStage(t, play{Hang: true, IgnoreSignals: true, Grandchild: true}, Options{Processes: 3})
	var calls sync.WaitGroup
	outcomes := make(chan fdb.ResultOutcome, 5)
	for range 5 { // three run, two wait
		calls.Go(func() { outcomes <- s.Run(t.Context(), endpoint(), fdb.MaintenanceOff()).Outcome })
	}
	eventually(t, "three tools and their grandchildren run", func() bool { return len(s.records()) == 6 })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	calls.Wait()
	close(outcomes)
	count := map[fdb.ResultOutcome]int{}
	for o := range outcomes {
		count[o]++
	}
	if count[fdb.Unknown] != 3 || count[fdb.Refused] != 2 {
		t.Errorf("%v: three were running and may have had their effect, two were not", count)
	}
	if r := s.Run(t.Context(), endpoint(), fdb.MaintenanceOff()); r.Outcome != fdb.Refused {
		t.Errorf("after Close it is %s", r.Result)
	}
	noneLeft(t, s)
	if _, err := os.Stat(s.root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is left: %v", err)
	}
}

func TestAGrandchildDoesNotOutliveItsTool(t *testing.T) {
	s := newStage(t, play{Grandchild: true}, Options{})
	begun := time.Now()
	a := s.Run(t.Context(), endpoint(), fdb.MaintenanceOff())
	if a.Outcome != fdb.Ok {
		t.Errorf("it is %s", a.Result)
	}
	if took := time.Since(begun); took > 9*time.Second {
		t.Errorf("the grandchild, which holds the output open, was waited for: %s", took)
	}
	eventually(t, "the group is gone", func() bool { return len(group(s.records()[0].Pid)) == 0 })
	noneLeft(t, s)
}

func TestAToolThatASignalEndsIsUnknown(t *testing.T) {
	s := newStage(t, play{Stdout: "Configuration changed\n", Signal: syscall.SIGSEGV}, Options{})
	a := s.Run(t.Context(), endpoint(), fdb.Configure(fdb.Configuration{}, false))
	if a.Outcome != fdb.Unknown {
		t.Errorf("it is %s", a.Result)
	}
}

func TestOutputIsBounded(t *testing.T) {
	for _, stream := range []string{"stdout", "stderr"} {
		t.Run(stream, func(t *testing.T) {
			s := newStage(t, play{Endless: stream, IgnoreSignals: true}, Options{MaxStatus: 2 << 20})
			a := s.Run(t.Context(), endpoint(), fdb.MaintenanceOff())
			if a.Outcome != fdb.Unknown || a.Reason != fdb.UnknownText || !strings.Contains(a.Text, "without end") || a.Stdout != "" {
				t.Errorf("it is %s, with %d bytes", a.Result, len(a.Stdout))
			}
			if _, err := s.Status(t.Context(), endpoint(), 0); !errors.Is(err, fdb.StatusUnreadable) {
				t.Errorf("the status fails with %v", err)
			}
			noneLeft(t, s)
		})
	}
}

// At most so many tools run at the same time; the others wait, and may give up.
func TestToolsWaitForEachOther(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStage(t, play{Await: gate}, Options{Processes: 2})
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() {
			if a := s.Run(t.Context(), endpoint(), fdb.MaintenanceOff()); a.Outcome != fdb.Ok {
				t.Errorf("it is %s", a.Result)
			}
		})
	}
	eventually(t, "two tools run", func() bool { return len(s.records()) == 2 })
	ctx, cancel := context.WithCancel(t.Context())
	third := make(chan fdb.Result)
	go func() { third <- s.Run(ctx, endpoint(), fdb.MaintenanceOff()).Result }()
	cancel()
	if r := <-third; r.Outcome != fdb.Refused || r.Reason != fdb.ToolEnded {
		t.Errorf("the third is %s", r)
	}
	if _, err := s.Status(ctx, endpoint(), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("a status fails with %v", err)
	}
	f, err := os.OpenFile(gate, os.O_WRONLY, 0) // opens the gate for those who wait
	if err != nil {
		t.Fatal(err)
	}
	calls.Wait()
	f.Close()
	if n := len(s.records()); n != 2 {
		t.Errorf("%d tools were started", n)
	}
}

// A tool does not outlive an operator that is killed: what it has begun must not take effect when another
// instance works already.
func TestAToolEndsWithItsOperator(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a process that its parent has ended")
	}
	s := newStage(t, play{}, Options{})
	dir := t.TempDir()
	tools, operator := filepath.Join(dir, "tools"), filepath.Join(dir, "operator")
	if err := errors.Join(
		store(tools, play{Hang: true, IgnoreSignals: true, Record: s.record}),
		store(operator, play{Operate: s.folder, Tools: tools}),
	); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(s.folder, "7.3", "fdbcli")) // the test binary
	cmd.Env = []string{"PAWL_PLAY=" + operator, "HOME=" + dir}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tool runs", func() bool { return len(s.records()) == 1 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the operator has ended by itself")
	}
	eventually(t, "the tool is gone", func() bool { return len(group(s.last().Pid)) == 0 })
}
