package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/server/idempotencytest"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
)

// The same request sent twice is one run.
func TestSameKeySameAnswer(t *testing.T) {
	kept := NewMemoryIdempotency()
	h := newFixture(t, func(o *Options) { o.Idempotency = kept })
	const body = `{"flow":"Waits","subject":"demo/default/c1"}`
	first := h.do("POST", "/v1/runs", body, "Idempotency-Key", "k1")
	var r view.Run
	first.into(t, &r)
	h.until(r.ID, workflow.Waiting)
	again := h.do("POST", "/v1/runs", body, "Idempotency-Key", "k1")
	if again.status != first.status || string(again.body) != string(first.body) || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the same request got %d %s", again.status, again.body)
	}
	for _, name := range []string{"Location", "ETag", "Content-Type"} {
		if again.header.Get(name) != first.header.Get(name) || first.header.Get(name) == "" {
			t.Errorf("%s: %q, then %q", name, first.header.Get(name), again.header.Get(name))
		}
	}
	if other := h.do("POST", "/v1/runs", `{"flow":"Quick","subject":"demo/default/c1"}`, "Idempotency-Key", "k1"); other.status != 422 || other.problem(t).Code != KeyReused.Code {
		t.Errorf("another body: %d %s", other.status, other.body)
	}
	if other := h.do("POST", "/v1/plans", body, "Idempotency-Key", "k1"); other.status != 422 {
		t.Errorf("another path: %d %s", other.status, other.body)
	}

	// Another server with the same stored answers simulates a restart.
	next := newFixture(t, func(o *Options) { o.Idempotency = kept })
	if restarted := next.do("POST", "/v1/runs", body, "Idempotency-Key", "k1"); string(restarted.body) != string(first.body) {
		t.Errorf("after a restart: %d %s", restarted.status, restarted.body)
	}

	// The answer was lost before it was stored: the engine knows the request by the key.
	if err := kept.Release(t.Context(), "operator", "k1"); err != nil {
		t.Fatal(err)
	}
	var same view.Run
	h.do("POST", "/v1/runs", body, "Idempotency-Key", "k1").into(t, &same)
	if same.ID != r.ID {
		t.Errorf("a second run %s in addition to %s", same.ID, r.ID)
	}
}

func TestKeyOfASignalCountsOnce(t *testing.T) {
	h := newFixture(t, nil)
	r := h.start("Waits", "demo/default/c1")
	for range 2 {
		if got := h.do("POST", "/v1/runs/"+r.ID+"/signal", `{"name":"other"}`, "Idempotency-Key", "s1"); got.status != http.StatusAccepted {
			t.Fatalf("%d %s", got.status, got.body)
		}
		if err := h.server.options.Idempotency.Release(t.Context(), "operator", "s1"); err != nil {
			t.Fatal(err)
		}
	}
	_, signals, err := h.store.Load(t.Context(), r.ID)
	if err != nil || len(signals) != 1 {
		t.Errorf("%d signals, %v", len(signals), err)
	}
}

func TestKeyIsBusy(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	h := newFixture(t, func(o *Options) {
		o.PlanObject = func(context.Context, control.Object) (json.RawMessage, error) {
			close(entered)
			<-leave
			return json.RawMessage("{}"), nil
		}
	})
	h.do("PUT", c1, `{"spec":{}}`)
	const body = `{"object":{"kind":"demo","namespace":"default","name":"c1"}}`
	first := make(chan reply)
	go func() { first <- h.do("POST", "/v1/plans", body, "Idempotency-Key", "k") }()
	<-entered
	got := h.do("POST", "/v1/plans", body, "Idempotency-Key", "k")
	if p := got.problem(t); got.status != 409 || p.Code != KeyBusy.Code || got.header.Get("Retry-After") == "" {
		t.Errorf("while the first is under way: %d %s", got.status, got.body)
	}
	close(leave)
	if got := <-first; got.status != 200 {
		t.Errorf("the first: %d %s", got.status, got.body)
	}
	if got := h.do("POST", "/v1/plans", body, "Idempotency-Key", "k"); got.status != 200 {
		t.Errorf("afterwards: %d %s", got.status, got.body)
	}
}

func TestOnlyAnswersThatStayAreKept(t *testing.T) {
	calls, fails := 0, true
	h := newFixture(t, func(o *Options) {
		o.PlanObject = func(context.Context, control.Object) (json.RawMessage, error) {
			calls++
			if fails {
				return nil, workflow.StoreUnavailable.Errorf("away")
			}
			return json.RawMessage("{}"), nil
		}
	})
	h.do("PUT", c1, `{"spec":{}}`)
	const body = `{"object":{"kind":"demo","namespace":"default","name":"c1"}}`
	for range 2 {
		if got := h.do("POST", "/v1/plans", body, "Idempotency-Key", "k"); got.status != 503 {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	fails = false
	for range 2 {
		if got := h.do("POST", "/v1/plans", body, "Idempotency-Key", "k"); got.status != 200 {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	if calls != 3 {
		t.Errorf("%d calls, want two that failed and one that is kept", calls)
	}
	refused := `{"flow":"None"}`
	first := h.do("POST", "/v1/plans", refused, "Idempotency-Key", "k2")
	if again := h.do("POST", "/v1/plans", refused, "Idempotency-Key", "k2"); again.status != 404 || string(again.body) != string(first.body) {
		t.Errorf("a refusal is not kept: %d %s", again.status, again.body)
	}
	if got := h.do("POST", "/v1/plans", refused, "Idempotency-Key", strings.Repeat("k", 256)); got.status != 400 {
		t.Errorf("a key of 256 characters: %d %s", got.status, got.body)
	}
}

func TestMemoryIdempotency(t *testing.T) {
	idempotencytest.Run(t, func(*testing.T) idempotencytest.Keys { return Idempotency(NewMemoryIdempotency()) })
}

func TestClaimFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ctx := NewMemoryIdempotency(), t.Context()
		claim := func(account, key, hash string, want bool) (string, string) {
			t.Helper()
			taken, old, answer, err := m.Claim(ctx, account, key, hash, keepAnswers, staleClaim)
			if err != nil || taken != want {
				t.Errorf("claim %s/%s: taken %v, %v", account, key, taken, err)
			}
			return old, string(answer)
		}
		claim("a", "k", "h1", true)
		claim("b", "k", "h9", true) // keys belong to accounts
		claim("a", "k", "h1", false)
		time.Sleep(staleClaim)
		claim("a", "k", "h2", false) // another request does not take a stale claim
		claim("a", "k", "h1", true)  // the same one does: its first server died
		if err := m.Answer(ctx, "a", "k", []byte("answer")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(keepAnswers - time.Second)
		if old, answer := claim("a", "k", "h1", false); old != "h1" || answer != "answer" {
			t.Errorf("kept %q %q", old, answer)
		}
		time.Sleep(time.Second)
		claim("a", "k", "h2", true) // a day later the key is free
		time.Sleep(2 * keepAnswers)
		claim("c", "k", "h", true)
		if len(m.entries) != 1 {
			t.Errorf("%d entries are left", len(m.entries))
		}
	})
}
