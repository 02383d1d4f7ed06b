package server

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestOddKeys: a key that not every store can hold is refused before the request is executed.
func TestOddKeys(t *testing.T) {
	h := newFixture(t, nil)
	body := map[string]any{"flow": "Quick", "subject": "demo/default/c1"}
	for _, key := range []string{"\xff\xfe", "a\tb", "schlüssel", strings.Repeat("k", maxKey+1)} {
		if r := h.do("POST", "/v1/runs", body, "Idempotency-Key", key); r.status != http.StatusBadRequest || r.problem(t).Code != Malformed.Code {
			t.Errorf("%q: %d %s", key, r.status, r.body)
		}
	}
	if r := h.do("POST", "/v1/runs", body, "Idempotency-Key", strings.Repeat("k", maxKey)); r.status != http.StatusAccepted {
		t.Errorf("the longest key: %d %s", r.status, r.body)
	}
	if runs := h.do("GET", "/v1/runs", nil); strings.Count(string(runs.body), `"subject"`) != 1 {
		t.Errorf("%s", runs.body)
	}
}

// TestHeadOfEvents: a HEAD request holds no stream.
func TestHeadOfEvents(t *testing.T) {
	h := newFixture(t, func(o *Options) { o.MaxEvents = 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 3 {
		r, err := http.NewRequestWithContext(ctx, http.MethodHead, h.url+"/v1/events", nil)
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
	h.listen("/v1/events", "").close() // the only stream is free
}
