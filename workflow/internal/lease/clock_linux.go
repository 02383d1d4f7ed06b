package lease

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sinceBoot returns the time since the boot of the machine, including its sleep.
func sinceBoot() time.Duration {
	var t unix.Timespec
	// RawSyscall: the call never blocks, and it is made in each step.
	if _, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		return 0
	}
	return time.Duration(t.Nano())
}
