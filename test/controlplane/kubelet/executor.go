package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// executor executes commands of kubectl exec in a container.
type executor struct {
	ctx context.Context // of the kubelet
	p   *process
}

// ExecInContainer implements remotecommand.Executor.
func (e executor) ExecInContainer(_ context.Context, _, _, _ string, argv []string, in io.Reader, out, errs io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	cmd, err := e.p.command(e.ctx, e.p.mapping.all(argv))
	if err != nil {
		return err
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for children that keep its output open
	if tty {
		err = onTerminal(cmd, in, out, resize)
	} else {
		err = piped(cmd, in, out, errs)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code := exit.ExitCode()
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			code = 128 + int(status.Signal())
		}
		return utilexec.CodeExitError{Err: exit, Code: code}
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil // it ended well, and a child of it still runs
	}
	return err
}

// piped runs a command with its streams. Its end does not wait for the end of in.
func piped(cmd *exec.Cmd, in io.Reader, out, errs io.WriteCloser) error {
	if out != nil {
		cmd.Stdout = out
	}
	if errs != nil {
		cmd.Stderr = errs
	}
	if in != nil {
		pipe, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(pipe, in) // it ends with the command or its client
			pipe.Close()
		}()
	}
	return cmd.Run()
}

// onTerminal runs a command on a terminal of its own.
func onTerminal(cmd *exec.Cmd, in io.Reader, out io.Writer, resize <-chan remotecommand.TerminalSize) error {
	terminal, device, err := openTerminal()
	if err != nil {
		return fmt.Errorf("a terminal: %w", err)
	}
	defer terminal.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = device, device, device
	cmd.SysProcAttr.Setctty = true // of its first descriptor
	cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], "TERM=xterm")
	err = cmd.Start()
	device.Close()
	if err != nil {
		return err
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		if out != nil {
			_, _ = io.Copy(out, terminal) // it ends with an error when the last process closes the device
		}
	}()
	if in != nil {
		go func() { _, _ = io.Copy(terminal, in) }() // it ends with the command or its client
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case size, ok := <-resize:
				if !ok {
					return
				}
				if raw, err := terminal.SyscallConn(); err == nil {
					_ = raw.Control(func(fd uintptr) {
						_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Height, Col: size.Width}) // a matter of looks
					})
				}
			case <-ended:
				return
			}
		}
	}()
	err = cmd.Wait()
	select {
	case <-copied:
	case <-time.After(cmd.WaitDelay):
	}
	return err
}

// openTerminal opens a pseudo-terminal: its own end and the device of its processes.
func openTerminal() (terminal, device *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	terminal = os.NewFile(uintptr(fd), "/dev/ptmx") // not blocking: Close ends a Read
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		device, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		terminal.Close()
		return nil, nil, err
	}
	return terminal, device, nil
}
