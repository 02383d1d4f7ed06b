//go:build unix && !linux

package tool

import (
	"os/exec"
	"syscall"
)

// attributes: a process group of its own.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// reap waits until the command has ended, and calls ended.
func reap(cmd *exec.Cmd, ended func()) {
	_ = cmd.Wait() // cmd.ProcessState has the result
	ended()
}
