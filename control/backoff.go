package control

import (
	"cmp"
	"time"
)

// backoff doubles a delay with each failure.
type backoff struct{ first, longest time.Duration }

func newBackoff(first, longest time.Duration) backoff {
	return backoff{cmp.Or(first, 5*time.Millisecond), cmp.Or(longest, 5*time.Minute)}
}

// after returns the delay after n earlier failures.
func (b backoff) after(n int) time.Duration {
	d := b.first
	for range n {
		if d >= b.longest/2 {
			return b.longest
		}
		d *= 2
	}
	return min(d, b.longest)
}

// bucket is a token bucket with rate tokens per second and at most burst tokens. take returns how long to wait for a token.
type bucket struct {
	rate, burst, tokens float64
	last                time.Time
}

func newBucket(rate float64, burst int) bucket {
	rate, burst = cmp.Or(rate, 50), cmp.Or(burst, 300)
	return bucket{rate: rate, burst: float64(burst), tokens: float64(burst)}
}

func (b *bucket) take(now time.Time) time.Duration {
	if passed := now.Sub(b.last); passed > 0 {
		if !b.last.IsZero() {
			b.tokens = min(b.burst, b.tokens+passed.Seconds()*b.rate)
		}
		b.last = now
	}
	b.tokens--
	if b.tokens >= 0 {
		return 0
	}
	return time.Duration(-b.tokens / b.rate * float64(time.Second))
}

// breakDelay returns the pause after the n-th break of a watch in a row, n from 1:
// between half and all of 0.4 s × 2ⁿ⁻¹, at most 30 s. r is a random number in [0, 1).
func breakDelay(n int, r float64) time.Duration {
	whole := backoff{400 * time.Millisecond, 30 * time.Second}.after(n - 1)
	return whole/2 + time.Duration(r*float64(whole/2))
}
