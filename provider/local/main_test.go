package local

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/local/node"
)

// The test binary is its own node program, like pawl: its VMs are real processes.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "node" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if os.Getenv("STUBBORN") != "" {
			signal.Ignore(syscall.SIGTERM)
			ctx = context.Background()
		}
		if err := node.Run(ctx, os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "server" {
		serve(os.Args[2])
	}
	goleak.VerifyTestMain(m)
}

// serve runs a server that creates a VM and waits to be killed.
func serve(dir string) {
	p, err := New(Options{Dir: dir, Installation: installation, Times: quick})
	if err == nil {
		var call cluster.Call
		if call, err = p.Create(context.Background(), want("a")); err == nil {
			fmt.Println(call.Ref.ID)
			time.Sleep(time.Hour)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func itoa(n int) string { return strconv.Itoa(n) }

const installation = "exam"

// quick are short intervals for tests.
var quick = node.Times{Heartbeat: 100 * time.Millisecond, Renew: 50 * time.Millisecond, Silence: time.Second, Watch: 50 * time.Millisecond, Retry: 20 * time.Millisecond}

// folder creates a data directory. At the end of the test no process may have it in its
// command line, and no resource directory may remain.
func folder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "local")
	t.Cleanup(func() {
		left := processesIn(dir)
		for deadline := time.Now().Add(10 * time.Second); len(left) > 0 && time.Now().Before(deadline); left = processesIn(dir) {
			time.Sleep(20 * time.Millisecond)
		}
		for pid, line := range left {
			t.Errorf("process %d is left: %s", pid, line)
			_ = syscall.Kill(pid, syscall.SIGKILL) // a process of the test
		}
		for _, kind := range folders {
			entries, _ := os.ReadDir(filepath.Join(dir, kind))
			for _, entry := range entries {
				t.Errorf("%s/%s is left", kind, entry.Name())
			}
		}
	})
	return dir
}

// processesIn finds running processes by their command line.
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

// open returns a provider whose resources are removed at the end of the test.
func open(t *testing.T, o Options) *Provider {
	t.Helper()
	if o.Dir == "" {
		o.Dir = folder(t)
	}
	if o.Times == (node.Times{}) {
		o.Times = quick
	}
	o.Installation = installation
	o.Env = append(o.Env, "GORACE=atexit_sleep_ms=0") // under -race a process otherwise sleeps for a second at its end
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { purge(t, p) })
	return p
}

// purge destroys all remaining resources.
func purge(t *testing.T, p *Provider) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	defer cancel()
	for _, kind := range []cluster.Kind{cluster.VM, cluster.Network} {
		all, err := p.data.list(kind, "")
		if err != nil {
			t.Errorf("clean-up: %v", err)
		}
		for _, r := range all {
			j := job{act: cluster.Destroy, id: r.ID, identity: r.Identity, at: time.Now()}
			for {
				progress, err := p.step(ctx, j)
				if err != nil {
					t.Errorf("clean-up of %s: %v", r.ID, err)
				}
				if progress.Done || err != nil {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
		}
	}
	p.reapChildren()
}
