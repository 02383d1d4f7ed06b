package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pawl-dev/pawl/client"
)

// A stream that breaks off before an event had an id is continued where it began, and not at its beginning.
func TestStreamBreaksOffEarly(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: cluster\ndata: {}\n\n")
	}))
	defer server.Close()
	c, err := client.New(client.Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	events, last := 0, error(nil)
	for e, err := range c.ClusterEvents(t.Context(), "c1", client.EventsParams{After: "17"}) {
		events, last = events+1, err
		if e.ID != "17" {
			t.Errorf("event %d (%q, %v) goes on behind %q, want 17", events, e.Type, err, e.ID)
		}
	}
	if events != 3 || !errors.Is(last, io.ErrUnexpectedEOF) { // it has begun, one event, it broke off
		t.Errorf("%d events, then %v", events, last)
	}
}
