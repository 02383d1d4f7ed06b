package notification

import (
	"net/http"
	"strconv"
	"time"
)

// Limits of retries.
const (
	DefaultAttempts = 12 // some nine hours
	MaxAttempts     = 30
	firstDelay      = 5 * time.Second
	longestDelay    = 2 * time.Hour
)

// Delay is how long to wait after a number of failed attempts, at least 1: it doubles from 5 s to 2 h.
// random, from 0 to 1, takes up to a quarter off, so that what failed together does not come
// together again. asked is what the receiver asked for; it is honoured up to 2 h.
func Delay(attempts int, random float64, asked time.Duration) time.Duration {
	d := longestDelay
	if n := attempts - 1; n < 12 {
		d = min(d, firstDelay<<n)
	}
	d -= time.Duration(float64(d) * random / 4)
	return max(d, min(asked, longestDelay))
}

// retryAfter reads the header Retry-After: seconds, or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return max(0, time.Duration(n)*time.Second)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
