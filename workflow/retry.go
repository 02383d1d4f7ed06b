package workflow

import (
	"hash/fnv"
	"math"
	"time"
)

// Defaults of the policies of a step.
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

// delay returns the time between failure k and the next attempt: min(longest, first ×
// factor^(k−1)), with jitter. The same seed gives the same delay.
func (r Retry) delay(k int, seed uint64) time.Duration {
	r = r.filled()
	d := float64(r.First) * math.Pow(r.Factor, float64(max(k, 1)-1))
	d = min(d, float64(r.Longest))
	if r.Jitter > 0 {
		d *= 1 + r.Jitter*(2*float64(seed>>11)/(1<<53)-1)
	}
	return time.Duration(d)
}

// seed computes a seed from the identity of the attempt, not from a clock.
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
