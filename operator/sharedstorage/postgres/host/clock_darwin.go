package host

import "golang.org/x/sys/unix"

// The monotonic clocks of macOS go on while the machine sleeps; nothing adjusts the raw one.
const bootClock = unix.CLOCK_MONOTONIC_RAW
