package k8sutil

import (
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

var observed struct {
	sync.Mutex
	on bool
	at map[int]time.Time // time of the newest answer with such a status
}

// Observed returns a configuration whose clients record when the operator's own API server answers
// with 408, 429 or 5xx. GetKubeClient uses it from then on. An operator should create its manager
// and all its clients of the own API server from it:
//
//	config := k8sutil.Observed(ctrl.GetConfigOrDie())
//	mgr, err := ctrl.NewManager(config, options)
//
// Then such answers of other API servers, which look the same, count as failures of the step.
func Observed(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return observer{next} })
	SetConfig(c)
	observed.Lock()
	defer observed.Unlock()
	observed.on, observed.at = true, map[int]time.Time{}
	return c
}

// Answered reports whether the own API server has answered with a status within the given time.
// known is false without an observed configuration: see Observed.
func Answered(status int, within time.Duration) (answered, known bool) {
	observed.Lock()
	defer observed.Unlock()
	at, ok := observed.at[status]
	return ok && time.Since(at) <= within, observed.on
}

// IsTrouble reports whether a status is a problem of the server and not of the request.
func IsTrouble(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

// observer records the answers of the own API server.
type observer struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o observer) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := o.next.RoundTrip(r)
	if err == nil && IsTrouble(answer.StatusCode) {
		observed.Lock()
		defer observed.Unlock()
		if observed.on {
			observed.at[answer.StatusCode] = time.Now()
		}
	}
	return answer, err
}

// WrappedRoundTripper gives client-go access to the wrapped transport.
func (o observer) WrappedRoundTripper() http.RoundTripper { return o.next }
