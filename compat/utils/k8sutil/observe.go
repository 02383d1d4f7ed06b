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
	at map[int]time.Time // when a status of trouble was answered last
}

// Observed gives a configuration whose clients note the trouble that the
// operator's own API server answers with: 408, 429 and 5xx. It becomes that of
// GetKubeClient. An operator that makes its manager and all its clients of the
// own API server from it,
//
//	config := k8sutil.Observed(ctrl.GetConfigOrDie())
//	mgr, err := ctrl.NewManager(config, options)
//
// is charged for such answers of other API servers, which look the same.
func Observed(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return observer{next} })
	SetConfig(c)
	observed.Lock()
	defer observed.Unlock()
	observed.on, observed.at = true, map[int]time.Time{}
	return c
}

// Answered reports whether the own API server has answered with a status within
// the time before now. known is false where nobody observes it: see Observed.
func Answered(status int, within time.Duration) (answered, known bool) {
	observed.Lock()
	defer observed.Unlock()
	at, ok := observed.at[status]
	return ok && time.Since(at) <= within, observed.on
}

// IsTrouble reports a status that tells of the server and not of the request.
func IsTrouble(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

// observer notes the answers of the own API server.
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

// WrappedRoundTripper lets client-go find the transport below.
func (o observer) WrappedRoundTripper() http.RoundTripper { return o.next }
