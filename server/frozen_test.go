package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/servertest"
)

// After net/http has given up a connection while the process was suspended, one more
// request on it is answered, and no second one.
func TestRequestOnAnAbandonedConnection(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	seen := error(nil)
	h := servertest.New(t, func(o *server.Options) {
		o.Mount = map[string]http.Handler{"/seen": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Context().Err() })}
	})
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/seen", nil)
	r.Host = "127.0.0.1"
	h.Server.ServeHTTP(w, r)
	if w.Code != http.StatusOK || w.Header().Get("Connection") != "close" || seen != nil {
		t.Fatalf("%d, Connection: %s, %v", w.Code, w.Header().Get("Connection"), seen)
	}
}
