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

// LeaderLost is the fault of a manager that is not the leader any more, and of its writes
// after that.
var LeaderLost = fault.Declare(fault.Kind{
	Code: "LEADER_LOST", Class: fault.Transient,
	Title:  "this process is not the leader any more",
	Remedy: "None: another process takes over, and this one is a candidate again after a restart. If it happens often, look at the load of the API server and of this process.",
})

// fence prevents a former leader from writing after the end of its lease, also if the
// process was frozen. The lease counts from the moment when the renewal was sent; the other
// candidates count from a later one. A request is checked when it is made, and again when
// its body is read, because it may wait for a connection in between. A request that is on
// its way at the end of the lease still arrives.
//
//	renewed    |----- lease -----|  refused
//	           ^ renewedAt            ^ process continues
type fence struct {
	lease time.Duration

	mu        sync.Mutex
	renewedAt time.Time // when the last granted renewal was sent; zero: never the leader
}

// guard checks the writes of all clients of a configuration. It learns of renewals from the
// clients of the leader election. It refuses their late writes too: by then the Lease may
// belong to another process, for example when this one releases it.
func (f *fence) guard(config *rest.Config) { config.Wrap(f.wrap) }

// wrap returns a transport that checks writes before it passes them to next.
func (f *fence) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if reads(r) {
			return next.RoundTrip(r)
		}
		if err := f.check(r); err != nil {
			if r.Body != nil {
				_ = r.Body.Close() // required by the contract of RoundTripper
			}
			return nil, err
		}
		if isElection(r) {
			return f.sendElection(next, f.withCheckedBody(r))
		}
		return next.RoundTrip(f.withCheckedBody(r))
	})
}

// check returns LEADER_LOST if the lease has ended, else nil.
func (f *fence) check(r *http.Request) error {
	if ago := f.expiredFor(); ago > 0 {
		return LeaderLost.Errorf("%s %s is not sent: the lease ended %s ago", r.Method, r.URL.Path, ago.Round(time.Millisecond))
	}
	return nil
}

// withCheckedBody returns a request whose body cannot be read after the end of the lease.
func (f *fence) withCheckedBody(r *http.Request) *http.Request {
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	check := func(body io.ReadCloser) io.ReadCloser {
		return checkedBody{body, func() error { return f.check(r) }}
	}
	of := *r // a shallow copy: RoundTripper must not change the caller's request
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

type checkedBody struct {
	io.ReadCloser
	check func() error
}

// Read implements io.Reader.
func (b checkedBody) Read(p []byte) (int, error) {
	if err := b.check(); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}

// sendElection sends a write of the Lease and notes the time if it succeeds: only the
// holder, old or new, writes the Lease.
func (f *fence) sendElection(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	asked := time.Now()
	answer, err := next.RoundTrip(r)
	if err == nil && answer.StatusCode/100 == 2 {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.renewedAt = asked
	}
	return answer, err
}

// isElection reports whether a request is for the leader's Lease, by the user agent of
// controller-runtime's election client.
func isElection(r *http.Request) bool {
	return strings.HasSuffix(r.UserAgent(), "/leader-election") && strings.Contains(r.URL.Path, "/leases")
}

// expiredFor returns how long ago the lease ended. It uses the monotonic and the wall clock
// and takes the larger value: the first may stop while the machine sleeps, the second may
// be set back.
func (f *fence) expiredFor() time.Duration {
	f.mu.Lock()
	asked := f.renewedAt
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
