package cluster

import (
	"hash/fnv"
	"time"
)

// Backoff is a pause that doubles with each try and never shrinks.
type Backoff struct{ Initial, Max time.Duration }

// The backoffs of the specification.
var (
	GCBackoff      = Backoff{5 * time.Minute, 6 * time.Hour}
	RecoverBackoff = Backoff{time.Minute, time.Hour}
)

// After is the pause behind the n-th try in a row, n from 1; 0 behind none.
// Up to a tenth is added, always the same share for one id: whatever failed at
// one moment is not tried again at one moment, and the pause never shrinks.
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
	return pause + time.Duration(float64(pause)/10*StableFraction(id))
}

// Share is a number in [0, 1) that is always the same for one id: it spreads
// what would otherwise happen at one moment.
func StableFraction(id string) float64 {
	h := fnv.New32a()
	h.Write([]byte(id))
	return float64(h.Sum32()) / (1 << 32)
}
