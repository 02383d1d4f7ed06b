package workflow

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sinceBoot is the time since the machine has booted, its sleep included.
func sinceBoot() time.Duration {
	var t unix.Timespec
	// Raw: it never blocks, and each step asks it.
	if _, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		return 0
	}
	return time.Duration(t.Nano())
}
