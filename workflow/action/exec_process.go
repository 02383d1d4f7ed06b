package action

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// command is a process to start.
type command struct {
	path      string
	argv      []string
	script    string // the last element of argv, if the shell executes it
	dir       string
	env       []string
	stdin     string
	okCodes   []int // none: 0
	maxOutput int
	killGrace time.Duration
	log       [2]io.Writer // get what it prints while it prints: stdout and stderr
}

// exitState is the end of a command and its output.
type exitState struct {
	exit           int    // -1 if a signal ended it
	signal         string // name of the signal that ended it, else empty
	stdout, stderr *capture
}

// ok reports whether the exit code is a success.
func (e exitState) ok(codes []int) bool {
	if len(codes) == 0 {
		return e.exit == 0
	}
	return e.signal == "" && slices.Contains(codes, e.exit)
}

const (
	// pipeGrace is the time to wait for output after the command has ended. A grandchild may hold
	// the pipes for ever.
	pipeGrace = 500 * time.Millisecond
	// killTimeout is the time that the kernel may need to end a killed process.
	killTimeout = 2 * time.Second
)

// run starts the command in its own process group and waits for its end. If ctx ends first, or the
// command fails, it ends the whole group: with SIGTERM, and after killGrace with SIGKILL. It does
// not end processes that a successful command has left behind.
func (c command) run(ctx context.Context, lock *runLock) (exitState, error) {
	cmd := &exec.Cmd{
		Path: c.path, Args: c.argv, Dir: c.dir, Env: c.env,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		ExtraFiles:  []*os.File{lock.file}, // descriptor 3
	}
	pipes, err := c.connect(cmd)
	if err != nil {
		return exitState{}, CommandFailed.Errorf("%w", err)
	}
	defer pipes.close()
	if ctx.Err() != nil {
		return exitState{}, context.Cause(ctx)
	}
	if err := cmd.Start(); err != nil {
		return exitState{}, c.startError(err)
	}
	group := cmd.Process.Pid
	lock.note(group)
	defer lock.note(0)
	pipes.flow()

	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // cmd.ProcessState contains the result
	}()
	stopped := false
	select {
	case <-exited:
	case <-ctx.Done():
		stopped = !ended(exited)
	}
	if stopped || !exitStateOf(cmd.ProcessState).ok(c.okCodes) {
		endGroup(group, c.killGrace)
	}
	<-exited
	pipes.finish(pipeGrace)
	if stopped {
		return exitState{}, fmt.Errorf("the command was ended: %w", context.Cause(ctx))
	}
	got := exitStateOf(cmd.ProcessState)
	got.stdout, got.stderr = pipes.stdout, pipes.stderr
	return got, nil
}

func exitStateOf(state *os.ProcessState) exitState {
	e := exitState{exit: state.ExitCode()}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.signal = status.Signal().String()
	}
	return e
}

func ended(exited <-chan struct{}) bool {
	select {
	case <-exited:
		return true
	default:
		return false
	}
}

// startError distinguishes a temporary lack of resources from a missing command. It names the
// directory if that is missing, because the error of the kernel does not.
func (c command) startError(err error) error {
	for _, passing := range []syscall.Errno{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY} {
		if errors.Is(err, passing) {
			return CommandFailed.Errorf("%s was not started: %w", c.argv[0], err)
		}
	}
	if c.dir != "" {
		if info, statErr := os.Stat(c.dir); statErr != nil {
			err = fmt.Errorf("dir: %w", statErr)
		} else if !info.IsDir() {
			err = fmt.Errorf("dir: %s is not a directory", c.dir)
		}
	}
	return CommandMissing.Errorf("%s: %w", c.argv[0], err)
}

// pipes holds stdin, stdout and stderr. exec.Cmd does not own them, so that they can be closed
// while a grandchild still holds the other ends.
type pipes struct {
	in             *os.File // our ends
	out            [2]*os.File
	theirs         []*os.File
	input          string
	stdout, stderr *capture
	log            [2]io.Writer
	read, wrote    chan struct{}
}

func (c command) connect(cmd *exec.Cmd) (*pipes, error) {
	p := &pipes{input: c.stdin, log: c.log, stdout: newCapture(c.maxOutput), stderr: newCapture(execStderr), read: make(chan struct{}), wrote: make(chan struct{})}
	for i, to := range []*io.Writer{&cmd.Stdout, &cmd.Stderr} {
		ours, theirs, err := os.Pipe()
		if err != nil {
			p.close()
			return nil, err
		}
		*to = theirs
		p.out[i], p.theirs = ours, append(p.theirs, theirs)
	}
	if c.stdin != "" {
		theirs, ours, err := os.Pipe()
		if err != nil {
			p.close()
			return nil, err
		}
		cmd.Stdin = theirs
		p.in, p.theirs = ours, append(p.theirs, theirs)
	}
	return p, nil
}

// flow starts the copying after the command has its ends.
func (p *pipes) flow() {
	for _, f := range p.theirs {
		f.Close()
	}
	p.theirs = nil
	go func() {
		defer close(p.wrote)
		if p.in != nil {
			_, _ = io.WriteString(p.in, p.input) // a command may ignore its input
			p.in.Close()
		}
	}()
	go func() {
		defer close(p.read)
		second := make(chan struct{})
		go func() {
			defer close(second)
			_, _ = io.Copy(io.MultiWriter(p.stderr, p.log[1]), p.out[1])
		}()
		_, _ = io.Copy(io.MultiWriter(p.stdout, p.log[0]), p.out[0])
		<-second
	}()
}

// finish waits for the end of the output for a limited time and then closes the pipes.
func (p *pipes) finish(grace time.Duration) {
	end := time.Now().Add(grace)
	for _, f := range p.out {
		_ = f.SetReadDeadline(end)
	}
	<-p.read
	if p.in != nil {
		_ = p.in.SetWriteDeadline(time.Now())
	}
	<-p.wrote
}

func (p *pipes) close() {
	for _, f := range append([]*os.File{p.in, p.out[0], p.out[1]}, p.theirs...) {
		if f != nil {
			f.Close()
		}
	}
}

// endGroup ends a process group: with SIGTERM, and after grace with SIGKILL. It returns when no
// process of the group lives, or soon after SIGKILL.
func endGroup(group int, grace time.Duration) {
	signalGroup(group, syscall.SIGTERM)
	if !gone(grace, func() bool { return !groupLives(group) }) {
		signalGroup(group, syscall.SIGKILL)
		gone(killTimeout, func() bool { return !groupLives(group) })
	}
}

func signalGroup(group int, signal syscall.Signal) {
	if group > 1 {
		_ = syscall.Kill(-group, signal)
	}
}

// gone polls with growing intervals until the condition is true or the time is over.
func gone(within time.Duration, holds func() bool) bool {
	end := time.Now().Add(within)
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		if holds() {
			return true
		}
		left := time.Until(end)
		if left <= 0 {
			return false
		}
		time.Sleep(min(pause, left))
	}
}

// lookPath searches a program in the PATH of the command, not in that of the server.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := execPath
	for _, variable := range env {
		if v, ok := strings.CutPrefix(variable, "PATH="); ok {
			path = v
		}
	}
	var denied error
	for _, folder := range filepath.SplitList(path) {
		if folder == "" {
			continue
		}
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		candidate := filepath.Join(folder, name)
		info, err := os.Stat(candidate)
		switch {
		case err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0:
			return candidate, nil
		case err == nil || errors.Is(err, fs.ErrPermission):
			denied = fmt.Errorf("%s is not executable", candidate)
		}
	}
	if denied != nil {
		return "", CommandMissing.Errorf("%w", denied)
	}
	return "", CommandMissing.Errorf("there is no program %q in %s", name, path)
}
