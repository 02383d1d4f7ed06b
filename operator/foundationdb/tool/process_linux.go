package tool

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes: a process group of its own, which an operator that is killed takes with it. What an operator
// has begun must not take effect when another one works already.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// reap waits until the command has ended, and calls ended while the number of its group is still its own.
func reap(cmd *exec.Cmd, ended func()) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	ended()
	_ = cmd.Wait() // cmd.ProcessState has the result
}
