//go:build !linux

package pooler

import "syscall"

// dying returns the attributes of a process that outlives a killed supervisor: this system cannot tie
// them together.
func dying(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: as}
}
