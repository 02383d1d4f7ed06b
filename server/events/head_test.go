package events_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/servertest"
)

// TestHeadOfEvents: a HEAD request holds no stream.
func TestHeadOfEvents(t *testing.T) {
	h := servertest.New(t, func(o *server.Options) { o.MaxEvents = 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 3 {
		r, err := http.NewRequestWithContext(ctx, http.MethodHead, h.URL+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%d %v", answer.StatusCode, answer.Header)
		}
	}
	h.Listen("/v1/events", "").Close() // the only stream is free
}
