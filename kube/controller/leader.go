package controller

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pawl-dev/pawl/fault"
)

// LeaderLost is what a manager ends with that is no leader any more, and what
// its writes are refused with from then on.
var LeaderLost = fault.Declare(fault.Kind{
	Code: "LEADER_LOST", Class: fault.Transient,
	Title:  "this process is not the leader any more",
	Remedy: "None: another one goes on, and this one waits for its turn when it is started again. If it happens often, look at the load of the API server and of this process.",
})

// fence keeps one who was the leader from writing after the end of its lease,
// however long it was frozen: it counts from the moment at which it asked for
// the renewal, and those who wait count from a later one. A request is looked at
// when it is made and again when its body is taken, as it may wait for a
// connection between; what was on its way then still arrives.
//
//	renewed    |----- lease -----|  refused
//	           ^ asked                ^ thawed
type fence struct {
	lease time.Duration

	mu    sync.Mutex
	asked time.Time // for the last renewal that was granted; zero: never the leader
}

// guard lets the clients of a configuration write until the lease has ended. It
// hears of renewals from the clients that the election makes of it. They are
// refused too: one who is late writes a Lease that may be another's by now, as
// when it gives back what it takes for its own.
func (f *fence) guard(config *rest.Config) { config.Wrap(f.before) }

// before lets through what may be sent.
func (f *fence) before(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if reads(r) {
			return next.RoundTrip(r)
		}
		if err := f.refuse(r); err != nil {
			if r.Body != nil {
				_ = r.Body.Close() // as the contract of RoundTripper asks for
			}
			return nil, err
		}
		if elects(r) {
			return f.elect(next, f.dated(r))
		}
		return next.RoundTrip(f.dated(r))
	})
}

// refuse is why a request may not be sent. nil: it may.
func (f *fence) refuse(r *http.Request) error {
	if late := f.late(); late > 0 {
		return LeaderLost.Errorf("%s %s is not sent: the lease ended %s ago", r.Method, r.URL.Path, late.Round(time.Millisecond))
	}
	return nil
}

// dated is a request whose body cannot be taken after the lease.
func (f *fence) dated(r *http.Request) *http.Request {
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	check := func(body io.ReadCloser) io.ReadCloser {
		return datedBody{body, func() error { return f.refuse(r) }}
	}
	of := *r // whoever sends it may read the rest of what the caller gave
	of.Body = check(r.Body)
	if r.GetBody != nil {
		of.GetBody = func() (io.ReadCloser, error) {
			body, err := r.GetBody()
			if err != nil {
				return nil, err
			}
			return check(body), nil
		}
	}
	return &of
}

type datedBody struct {
	io.ReadCloser
	refuse func() error
}

// Read implements io.Reader.
func (b datedBody) Read(p []byte) (int, error) {
	if err := b.refuse(); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}

// elect writes the Lease, as only one does who holds it or takes it.
func (f *fence) elect(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	asked := time.Now()
	answer, err := next.RoundTrip(r)
	if err == nil && answer.StatusCode/100 == 2 {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asked = asked
	}
	return answer, err
}

// elects reports a request for the leader's Lease, by the name that
// controller-runtime gives the clients of its election.
func elects(r *http.Request) bool {
	return strings.HasSuffix(r.UserAgent(), "/leader-election") && strings.Contains(r.URL.Path, "/leases")
}

// late is how long ago the lease has ended. Of the two clocks the one that went
// further counts: one stands still while the machine sleeps, one is set back.
func (f *fence) late() time.Duration {
	f.mu.Lock()
	asked := f.asked
	f.mu.Unlock()
	if asked.IsZero() {
		return 0
	}
	now := time.Now()
	return max(now.Sub(asked), now.Round(0).Sub(asked.Round(0))) - f.lease
}

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
