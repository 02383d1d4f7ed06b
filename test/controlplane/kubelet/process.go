package kubelet

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// setup holds the common properties of a container's processes.
type setup struct {
	root, dir string
	env       []string
	path      string
	mapping   mapping
	cred      *syscall.Credential
	mounts    []bindMount // at fixed paths
}

// process is the first process of a running container.
type process struct {
	setup
	cmd    *exec.Cmd
	log    string // the file of its output
	exited chan struct{}
	once   sync.Once // of the end
}

// launch starts a process in a new session; its output goes to log.
func (s setup) launch(argv []string, log string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd, err := s.command(context.Background(), argv)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = out, out
	p := &process{setup: s, cmd: cmd, log: log, exited: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // its state has the exit code
		close(p.exited)
	}()
	return p, nil
}

func (s setup) command(ctx context.Context, argv []string) (*exec.Cmd, error) {
	if len(argv) == 0 {
		return nil, errors.New("no command: neither the container nor its image gives one")
	}
	path, err := find(argv[0], s.path)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path)
	cmd.Args = argv
	cmd.Dir, cmd.Env = s.dir, s.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Credential: s.cred}
	if len(s.mounts) > 0 {
		return cmd, withMounts(cmd, s.mounts)
	}
	return cmd, nil
}

// exec runs a command in the container, until the context ends.
func (s setup) exec(ctx context.Context, argv []string) ([]byte, error) {
	cmd, err := s.command(ctx, s.mapping.all(argv))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for children that keep its output open
	err = cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return out.Bytes(), err
}

// tree returns all processes of the container.
func (p *process) tree() []Proc {
	found := map[int]Proc{}
	if first, ok := FindProcess(p.cmd.Process.Pid); ok {
		found[first.PID] = first
	}
	for _, other := range Procs() {
		if other.Group == p.cmd.Process.Pid || other.Environ(RootVariable) == p.root {
			found[other.PID] = other
		}
	}
	for _, other := range descendants(p.cmd.Process.Pid) {
		found[other.PID] = other
	}
	all := make([]Proc, 0, len(found))
	for _, other := range found {
		all = append(all, other)
	}
	return all
}

// kill ends all processes of the container at once.
func (p *process) kill() { p.signal(syscall.SIGKILL) }

// signal sends a signal to all processes of the container.
func (p *process) signal(sig syscall.Signal) {
	all := p.tree()
	_ = syscall.Kill(-p.cmd.Process.Pid, sig) // ignore the error of an ended process
	for _, other := range all {
		if !other.Gone() {
			_ = syscall.Kill(other.PID, sig)
		}
	}
}

// stop sends SIGTERM to the first process, and kills all after the grace period, or when
// hurry is closed. It returns when the first process has ended.
func (p *process) stop(grace time.Duration, hurry <-chan struct{}) {
	p.once.Do(func() {
		_ = syscall.Kill(p.cmd.Process.Pid, syscall.SIGTERM) // ignore the error of an ended process
		patience := time.NewTimer(grace)
		defer patience.Stop()
		select {
		case <-p.exited:
		case <-patience.C:
		case <-hurry:
		}
	})
	select {
	case <-p.exited:
	default:
		p.kill()
		<-p.exited
	}
}

// sweep kills the processes that the first process has left.
func (p *process) sweep() error {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // usually there is none
	return End(processesOfRoot(p.root))
}

// link creates a symlink to a target at a path of a container's root.
func link(root, path, target string) error {
	path = filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
		os.Remove(path)
	}
	return os.Symlink(target, path)
}
