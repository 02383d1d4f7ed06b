package workflow

import (
	"hash/fnv"
	"math"
	"time"
)

// Defaults of a step's policy (workflow.md 2.3).
const (
	defaultAttempts = 10
	defaultFirst    = time.Second
	defaultFactor   = 2
	defaultLongest  = time.Minute
	defaultJitter   = 0.2
	defaultTimeout  = 15 * time.Minute
	defaultGrace    = 10 * time.Second
)

func (r Retry) filled() Retry {
	if r.Attempts == 0 {
		r.Attempts = defaultAttempts
	}
	if r.First == 0 {
		r.First = defaultFirst
	}
	if r.Factor == 0 {
		r.Factor = defaultFactor
	}
	if r.Longest == 0 {
		r.Longest = defaultLongest
	}
	if r.Jitter == 0 {
		r.Jitter = defaultJitter
	}
	return r
}

// delay is the time between failure k and the attempt that follows it:
// min(longest, first × factor^(k−1)), spread by the jitter. The seed makes it
// the same in every execution of a test.
func (r Retry) delay(k int, seed uint64) time.Duration {
	r = r.filled()
	d := float64(r.First) * math.Pow(r.Factor, float64(max(k, 1)-1))
	d = min(d, float64(r.Longest))
	if r.Jitter > 0 {
		d *= 1 + r.Jitter*(2*float64(seed>>11)/(1<<53)-1)
	}
	return time.Duration(d)
}

// seed is drawn from what names the attempt, not from a clock.
func seed(run, step string, attempt int) uint64 {
	h := fnv.New64a()
	h.Write([]byte(run))
	h.Write([]byte{0})
	h.Write([]byte(step))
	h.Write([]byte{byte(attempt), byte(attempt >> 8)})
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}
