package cluster

import "time"

// Backoff is a pause that doubles with each try and never shrinks.
type Backoff struct{ First, Longest time.Duration }

// The backoffs of the specification.
var (
	GCBackoff      = Backoff{5 * time.Minute, 6 * time.Hour}
	RecoverBackoff = Backoff{time.Minute, time.Hour}
)

// After is the pause behind the n-th try in a row, n from 1; 0 behind none.
// Up to a tenth is added, always the same for one id.
func (b Backoff) After(n int, id string) time.Duration { return 0 }
