package cluster

import (
	"hash/fnv"
	"time"
)

// Backoff is a pause that doubles with each try.
type Backoff struct{ Initial, Max time.Duration }

// The default pauses of the collector and of the recovery.
var (
	GCBackoff      = Backoff{5 * time.Minute, 6 * time.Hour}
	recoverBackoff = Backoff{time.Minute, time.Hour}
)

// After returns the pause after the n-th try in a row, n from 1; 0 for n <= 0. It
// adds up to a tenth, always the same share for one id, so that tries that failed
// at the same time are not repeated at the same time.
func (b Backoff) After(n int, id string) time.Duration {
	if n <= 0 {
		return 0
	}
	pause := min(b.Initial, b.Max)
	for i := 1; i < n && pause < b.Max; i++ {
		if pause > b.Max/2 {
			pause = b.Max
		} else {
			pause *= 2
		}
	}
	return pause + time.Duration(float64(pause)/10*stableFraction(id))
}

// stableFraction returns a number in [0, 1) that is always the same for one id. It
// spreads work that would otherwise start at the same time.
func stableFraction(id string) float64 {
	h := fnv.New32a()
	h.Write([]byte(id))
	return float64(h.Sum32()) / (1 << 32)
}
