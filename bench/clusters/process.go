package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpuTime is what this process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident is the memory that this process has now, in MiB; 0 where the system
// does not tell.
func resident() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 1 {
		pages, _ := strconv.ParseFloat(fields[1], 64)
		return pages * float64(os.Getpagesize()) / (1 << 20)
	}
	return 0
}

// watchResident follows that memory; end gives the most that there was.
func watchResident() (end func() float64) {
	done, most := make(chan struct{}), make(chan float64)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		peak := resident()
		for {
			select {
			case <-done:
				most <- peak
				return
			case <-tick.C:
				peak = max(peak, resident())
			}
		}
	}()
	return func() float64 {
		close(done)
		return <-most
	}
}
