package program

import (
	"os"
	"syscall"
	"unsafe"
)

// isTerminal tells whether a file is a terminal, as isatty does.
func isTerminal(f *os.File) bool {
	var state syscall.Termios
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TCGETS, uintptr(unsafe.Pointer(&state))) //nolint:gosec // the kernel fills it
	return errno == 0
}

// dieWithParent ends a child when this process is killed.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGHUP} }
