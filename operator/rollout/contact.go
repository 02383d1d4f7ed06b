package rollout

import (
	"net/http"
)

// contact reports requests of watches that the API server does not answer: a watch that has ended and
// does not come back is the first that shows it. The caches retry by themselves and tell nobody.
type contact struct {
	http.RoundTripper
	lost func()
}

// RoundTrip implements http.RoundTripper.
func (c contact) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(r)
	if r.Context().Err() == nil && (err != nil || response.StatusCode >= http.StatusInternalServerError) {
		c.lost()
	}
	return response, err
}
