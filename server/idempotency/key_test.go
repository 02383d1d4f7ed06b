package idempotency_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/servertest"
)

// TestOddKeys: a key that not every store can hold is refused before the request is executed.
func TestOddKeys(t *testing.T) {
	h := servertest.New(t, nil)
	body := map[string]any{"flow": "Quick", "subject": "demo/default/c1"}
	for _, key := range []string{"\xff\xfe", "a\tb", "schlüssel", strings.Repeat("k", route.MaxKey+1)} {
		if r := h.Do("POST", "/v1/runs", body, "Idempotency-Key", key); r.Status != http.StatusBadRequest || r.Problem(t).Code != route.Malformed.Code {
			t.Errorf("%q: %d %s", key, r.Status, r.Body)
		}
	}
	if r := h.Do("POST", "/v1/runs", body, "Idempotency-Key", strings.Repeat("k", route.MaxKey)); r.Status != http.StatusAccepted {
		t.Errorf("the longest key: %d %s", r.Status, r.Body)
	}
	if runs := h.Do("GET", "/v1/runs", nil); strings.Count(string(runs.Body), `"subject"`) != 1 {
		t.Errorf("%s", runs.Body)
	}
}
