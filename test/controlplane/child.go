package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// child is one process of the plane that envtest does not start.
type child struct {
	name   string
	log    string
	cmd    *exec.Cmd
	exited chan struct{}
}

func startChild(name, path, dir string, args ...string) (*child, error) {
	c := &child{name: name, log: filepath.Join(dir, name+".log"), exited: make(chan struct{})}
	out, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	c.cmd = exec.Command(path, args...)
	c.cmd.Stdout, c.cmd.Stderr = out, out
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		_ = c.cmd.Wait() // its log has the exit reason
		close(c.exited)
	}()
	return c, nil
}

// check returns PlaneDead when the process has ended.
func (c *child) check() error {
	select {
	case <-c.exited:
		return PlaneDead.Errorf("%s: %s\n%s", c.name, c.cmd.ProcessState, tail(c.log, 12))
	default:
		return nil
	}
}

// Suspend stops the controllers of Kubernetes, the garbage collector among them, until resume is called:
// what happens meanwhile is nobody's work but that of the operator under test. All tests of a package share
// the plane: only a test that is not parallel to others may do it.
func (p *Plane) Suspend(t testing.TB) (resume func()) {
	t.Helper()
	for _, c := range p.children {
		if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	resume = sync.OnceFunc(func() {
		for _, c := range p.children {
			_ = c.cmd.Process.Signal(syscall.SIGCONT) // an ended process shows in Check
		}
	})
	t.Cleanup(resume)
	return resume
}

// stop ends the process with SIGTERM, after five seconds with SIGKILL.
func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // ignore the error of an ended process
	patience := time.NewTimer(5 * time.Second)
	defer patience.Stop()
	select {
	case <-c.exited:
	case <-patience.C:
		_ = c.cmd.Process.Kill()
		<-c.exited
	}
}

// tail returns the last lines of a file.
func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "no log: " + err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
