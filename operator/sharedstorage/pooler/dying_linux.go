package pooler

import "syscall"

// dying makes a process end with the thread that has started it.
func dying(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: as}
}
