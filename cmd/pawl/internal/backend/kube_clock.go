package backend

import (
	"net/http"
	"sync/atomic"
	"time"
)

// clock is that of the API server, as the header Date of its answers tells it. It is ours where both agree; that of a
// sandbox (pawl dev --fdb) may run faster, and that of this machine may be wrong.
type clock struct{ ahead atomic.Int64 } // nanoseconds

// agreed is how far two clocks that agree may be apart: Date has whole seconds.
const agreed = 5 * time.Second

func (c *clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// wrap reads the header of each answer.
func (c *clock) wrap(next http.RoundTripper) http.RoundTripper { return hearing{c, next} }

type hearing struct {
	clock *clock
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (h hearing) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := h.next.RoundTrip(r)
	if err != nil || a == nil {
		return a, err
	}
	if at, wrong := http.ParseTime(a.Header.Get("Date")); wrong == nil {
		ahead := time.Until(at)
		if ahead.Abs() < agreed {
			ahead = 0
		}
		h.clock.ahead.Store(int64(ahead))
	}
	return a, nil
}

// WrappedRoundTripper lets client-go find the transport below.
func (h hearing) WrappedRoundTripper() http.RoundTripper { return h.next }

// Now implements Databases: it is the time by the clock of the API server.
func (k *Kube) Now() time.Time { return k.clock.Now() }
