package workflow

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is the time since the machine has booted, its sleep included.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
