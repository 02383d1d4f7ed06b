package etcdproc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Member is one etcd process: its addresses and data stay, processes come and go.
type Member struct {
	Name                 string
	ClientURL, PeerURL   string
	Dir                  string // data, and etcd.log
	binary               string
	initial, initialMode string
	cmd                  *exec.Cmd
	exited               chan struct{}
}

// Start starts the process; it does not wait until the member is ready.
func (m *Member) Start(t testing.TB) {
	t.Helper()
	if m.Running() {
		t.Fatalf("%s runs already", m.Name)
	}
	log, err := os.OpenFile(m.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	m.cmd = exec.Command(m.binary,
		"--name", m.Name, "--data-dir", filepath.Join(m.Dir, "data"),
		"--listen-client-urls", m.ClientURL, "--advertise-client-urls", m.ClientURL,
		"--listen-peer-urls", m.PeerURL, "--initial-advertise-peer-urls", m.PeerURL,
		"--initial-cluster", m.initial, "--initial-cluster-state", m.initialMode,
		"--logger", "zap", "--log-level", "warn")
	m.cmd.Stdout, m.cmd.Stderr = log, log
	m.cmd.SysProcAttr = dieWithParent()
	if err := m.cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", m.Name, err)
	}
	cmd, exited := m.cmd, make(chan struct{})
	m.exited = exited
	go func() {
		_ = cmd.Wait() // its log has the exit reason
		close(exited)
	}()
}

// Running reports whether the process is there.
func (m *Member) Running() bool {
	if m.exited == nil {
		return false
	}
	select {
	case <-m.exited:
		return false
	default:
		return true
	}
}

// Kill ends the process with SIGKILL and waits for its end.
func (m *Member) Kill() { m.end(syscall.SIGKILL) }

func (m *Member) end(sig syscall.Signal) {
	if !m.Running() {
		return
	}
	_ = m.cmd.Process.Signal(sig) // ignore the error of an ended process
	select {
	case <-m.exited:
	case <-time.After(10 * time.Second):
		_ = m.cmd.Process.Kill()
		<-m.exited
	}
}

// WaitReady waits until the member answers a linearizable read, and fails the
// test with the end of its log when that takes longer than 30 seconds.
func (m *Member) WaitReady(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		err := m.ready(ctx)
		if err == nil {
			return
		}
		select {
		case <-look.C:
		case <-m.exited:
			t.Fatalf("%s has ended\n%s", m.Name, m.logTail())
		case <-ctx.Done():
			t.Fatalf("%s is not ready: %v\n%s", m.Name, err, m.logTail())
		}
	}
}

func (m *Member) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.ClientURL+"/readyz", nil)
	if err != nil {
		return err
	}
	req.Close = true // a kept connection would outlive the member
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New("/readyz says " + resp.Status)
	}
	return nil
}

func (m *Member) log() string { return filepath.Join(m.Dir, "etcd.log") }

func (m *Member) logTail() string {
	text, err := os.ReadFile(m.log())
	if err != nil {
		return fmt.Sprintf("no log: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}
