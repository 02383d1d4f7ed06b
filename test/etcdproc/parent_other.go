//go:build unix && !linux

package etcdproc

import "syscall"

// dieWithParent does nothing here: a killed test leaves its processes.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
