package tool

import (
	"context"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// process is a tool that runs. It leads a process group, of which nothing is left when it has ended.
type process struct {
	cmd      *exec.Cmd
	out, err *output
	done     chan struct{} // closed when it has ended and its exit code is known
	exit     int           // -1: ended by a signal

	mu    sync.Mutex
	ended bool // no signal may be sent any more: the number of the group may belong to others
	stop  func() bool
}

// outputGrace is how long output is waited for after all processes of the group have ended.
const outputGrace = time.Second

// start starts a command. Its group is ended when ctx ends, when it prints more than the limit on one of
// its streams, and when the command itself has ended.
func start(ctx context.Context, cmd *exec.Cmd, limit int) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	out, theirOut, err := newOutput(limit)
	if err != nil {
		return nil, err
	}
	defer theirOut.Close()
	errs, theirErr, err := newOutput(limit)
	if err != nil {
		out.file.Close()
		return nil, err
	}
	defer theirErr.Close()
	p.out, p.err = out, errs
	out.full, errs.full = p.kill, p.kill
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = theirOut, theirErr, attributes()
	started := make(chan error)
	go p.live(started)
	if err := <-started; err != nil {
		out.file.Close()
		errs.file.Close()
		return nil, err
	}
	go out.read()
	go errs.read()
	p.stop = context.AfterFunc(ctx, p.kill)
	return p, nil
}

// live is the life of the process. It stays on one thread, since the process ends with the thread that has
// started it (attributes).
func (p *process) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	reap(p.cmd, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended = true
		p.signal()
	})
	p.exit = p.cmd.ProcessState.ExitCode()
	close(p.done)
}

// kill ends all processes of the group.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.signal()
	}
}

func (p *process) signal() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it fails when nobody is left
}

// wait waits for the end of the process and of its output.
func (p *process) wait() {
	<-p.done
	p.stop()
	until := time.Now().Add(outputGrace)
	p.out.finish(until)
	p.err.finish(until)
}

// endWithin ends the process, which has this much time to do so by itself.
func (p *process) endWithin(grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.kill()
	}
	p.wait()
}
