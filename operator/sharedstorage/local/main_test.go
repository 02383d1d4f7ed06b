package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/operator/sharedstorage/pooler"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
)

// The test binary also serves as agent and cluster manager, as pawl does: the clusters of these
// tests are real processes.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "instance" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		log := slog.New(slog.NewTextHandler(os.Stderr, nil))
		guard := len(os.Args) > 4 && os.Args[4] == "--guard"
		if err := (postgres.InstanceCommand{Dir: os.Args[3], Guard: guard, Log: log}).Run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 3 && os.Args[1] == "cluster-manager" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := (postgres.WatchCommand{Dir: os.Args[3], Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}).Run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 3 && os.Args[1] == "pooler" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := (pooler.Command{Dir: os.Args[3], Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}).Run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// folder returns a folder that the user of PostgreSQL can enter. At the end of the test no process
// may be left that has it in its command line.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(memory(), "pawl-ss-")
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left := processesIn(dir)
		for deadline := time.Now().Add(15 * time.Second); len(left) > 0 && time.Now().Before(deadline); left = processesIn(dir) {
			time.Sleep(20 * time.Millisecond) // the processes are not children, so the test polls for their end
		}
		for pid, line := range left {
			t.Errorf("process %d is left: %s", pid, line)
			_ = syscall.Kill(pid, syscall.SIGKILL) // the process belongs to this test
		}
		races(t, dir)
		if t.Failed() {
			t.Logf("kept for you: %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}

// races looks for reports of the race detector in the logs of other processes.
func races(t *testing.T, dir string) {
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error { // a folder that is gone has no log
		if filepath.Ext(path) != ".log" {
			return nil
		}
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte("DATA RACE")) {
			t.Errorf("a data race is told of in %s", path)
		}
		return nil
	})
}

// memory returns a folder in memory if there is room, because the tests end processes, not
// machines. PAWL_SHAREDSTORAGE_DISK=1 tests on the disk.
func memory() string {
	const shared = "/dev/shm"
	var stat unix.Statfs_t
	if os.Getenv("PAWL_SHAREDSTORAGE_DISK") != "" || unix.Statfs(shared, &stat) != nil || stat.Bavail*uint64(stat.Bsize) < 4<<30 {
		return ""
	}
	return shared
}

func processesIn(dir string) map[int]string {
	found := map[int]string{}
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		line, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(line), dir) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(name, "/proc/%d/cmdline", &pid); err == nil && pid != os.Getpid() {
			found[pid] = strings.ReplaceAll(string(line), "\x00", " ")
		}
	}
	return found
}

// open returns a Placement whose clusters are removed at the end of the test. It skips the test if
// PostgreSQL is missing.
func open(t *testing.T, o Options) *Placement {
	t.Helper()
	if versions, err := installedVersions(); err != nil || len(versions) == 0 {
		t.Skip("PostgreSQL's server programs are missing: apt-get install postgresql")
	}
	t.Parallel() // the tests mostly wait; run one alone to measure it
	o.Dir = folder(t)
	o.Env = append(o.Env, "GORACE=atexit_sleep_ms=0") // under -race a process waits for a second at its end
	if program := os.Getenv("PAWL_SHAREDSTORAGE_PROGRAM"); program != "" {
		o.Program = []string{program} // use pawl itself instead of this test binary
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { clear(t, s) })
	return s
}

// clear kills all processes.
func clear(t *testing.T, s *Placement) {
	t.Helper()
	if err := s.locked(func() error {
		all, err := s.all()
		for _, r := range all {
			s.crash(r.folder)
		}
		return errors.Join(err, s.managersOn(""))
	}); err != nil {
		t.Error(err)
	}
	s.reap()
}

// eventually polls until holds returns nil.
func eventually(t *testing.T, limit time.Duration, what string, holds func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(limit); ; {
		if err = holds(); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

var c1 = port.Ref{Namespace: "default", Name: "c1", UID: "uid-1"}

func (b *fixture) agentOf(name string) host.Process {
	return postgres.AgentOf(b.folder(c1, "instances", name))
}

func (b *fixture) engineOf(name string) host.Process {
	return postgres.EngineOf(b.folder(c1, "instances", name))
}

func (b *fixture) managerOf() host.Process {
	b.t.Helper()
	var h managerRecord
	b.must(host.ReadJSON(b.folder(c1, "manager", managerRecordName), &h))
	return h.Process
}

func (b *fixture) watchState() postgres.WatchState {
	b.t.Helper()
	s, err := postgres.FileWatchStateStore{Path: b.folder(c1, "manager", "state.json")}.Load(b.t.Context())
	b.must(err)
	return s
}

// promoteBehindTheAgent promotes an engine without a grant.
func (b *fixture) promoteBehindTheAgent(name string) {
	b.t.Helper()
	b.exec(name, "SELECT pg_promote(false)")
}

func childrenOf(parent int) []int {
	var children []int
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		var pid, ppid int
		var state string
		if _, err := fmt.Sscanf(string(text[strings.LastIndexByte(string(text), ')')+1:]), " %s %d", &state, &ppid); err == nil && ppid == parent {
			if _, err := fmt.Sscanf(name, "/proc/%d/stat", &pid); err == nil {
				children = append(children, pid)
			}
		}
	}
	return children
}
