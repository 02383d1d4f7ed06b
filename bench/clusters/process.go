package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpuTime returns the CPU time that this process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident returns the resident memory of this process in MiB; 0 where the system
// does not report it.
func resident() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 1 {
		pages, _ := strconv.ParseFloat(fields[1], 64)
		return pages * float64(os.Getpagesize()) / (1 << 20)
	}
	return 0
}

// watchResident samples the resident memory; end returns the maximum.
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
