package idempotency_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/idempotency"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/servertest"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The same request sent twice is one run.
func TestSameKeySameAnswer(t *testing.T) {
	kept := idempotency.NewMemory()
	h := servertest.New(t, func(o *server.Options) { o.Idempotency = kept })
	const body = `{"flow":"Waits","subject":"demo/default/c1"}`
	first := h.Do("POST", "/v1/runs", body, "Idempotency-Key", "k1")
	var r view.Run
	first.Into(t, &r)
	h.Until(r.ID, runtype.Waiting)
	again := h.Do("POST", "/v1/runs", body, "Idempotency-Key", "k1")
	if again.Status != first.Status || string(again.Body) != string(first.Body) || again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the same request got %d %s", again.Status, again.Body)
	}
	for _, name := range []string{"Location", "ETag", "Content-Type"} {
		if again.Header.Get(name) != first.Header.Get(name) || first.Header.Get(name) == "" {
			t.Errorf("%s: %q, then %q", name, first.Header.Get(name), again.Header.Get(name))
		}
	}
	if other := h.Do("POST", "/v1/runs", `{"flow":"Quick","subject":"demo/default/c1"}`, "Idempotency-Key", "k1"); other.Status != 422 || other.Problem(t).Code != route.KeyReused.Code {
		t.Errorf("another body: %d %s", other.Status, other.Body)
	}
	if other := h.Do("POST", "/v1/plans", body, "Idempotency-Key", "k1"); other.Status != 422 {
		t.Errorf("another path: %d %s", other.Status, other.Body)
	}

	// Another server with the same stored answers simulates a restart.
	next := servertest.New(t, func(o *server.Options) { o.Idempotency = kept })
	if restarted := next.Do("POST", "/v1/runs", body, "Idempotency-Key", "k1"); string(restarted.Body) != string(first.Body) {
		t.Errorf("after a restart: %d %s", restarted.Status, restarted.Body)
	}

	// The answer was lost before it was stored: the engine knows the request by the key.
	if err := kept.Release(t.Context(), "operator", "k1"); err != nil {
		t.Fatal(err)
	}
	var same view.Run
	h.Do("POST", "/v1/runs", body, "Idempotency-Key", "k1").Into(t, &same)
	if same.ID != r.ID {
		t.Errorf("a second run %s in addition to %s", same.ID, r.ID)
	}
}

func TestKeyOfASignalCountsOnce(t *testing.T) {
	keys := idempotency.NewMemory()
	h := servertest.New(t, func(o *server.Options) { o.Idempotency = keys })
	r := h.Start("Waits", "demo/default/c1")
	for range 2 {
		if got := h.Do("POST", "/v1/runs/"+r.ID+"/signal", `{"name":"other"}`, "Idempotency-Key", "s1"); got.Status != http.StatusAccepted {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		if err := keys.Release(t.Context(), "operator", "s1"); err != nil {
			t.Fatal(err)
		}
	}
	_, signals, err := h.Store.Load(t.Context(), r.ID)
	if err != nil || len(signals) != 1 {
		t.Errorf("%d signals, %v", len(signals), err)
	}
}

func TestKeyIsBusy(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	h := servertest.New(t, func(o *server.Options) {
		o.Kinds = servertest.Planning(func(context.Context, control.Object) (machine.Plan, error) {
			close(entered)
			<-leave
			return machine.Plan{}, nil
		})
	})
	h.Do("PUT", servertest.ObjectPath, `{"spec":{}}`)
	const body = `{"object":{"kind":"demo","namespace":"default","name":"c1"}}`
	first := make(chan servertest.Reply)
	go func() { first <- h.Do("POST", "/v1/plans", body, "Idempotency-Key", "k") }()
	<-entered
	got := h.Do("POST", "/v1/plans", body, "Idempotency-Key", "k")
	if p := got.Problem(t); got.Status != 409 || p.Code != route.KeyBusy.Code || got.Header.Get("Retry-After") == "" {
		t.Errorf("while the first is under way: %d %s", got.Status, got.Body)
	}
	close(leave)
	if got := <-first; got.Status != 200 {
		t.Errorf("the first: %d %s", got.Status, got.Body)
	}
	if got := h.Do("POST", "/v1/plans", body, "Idempotency-Key", "k"); got.Status != 200 {
		t.Errorf("afterwards: %d %s", got.Status, got.Body)
	}
}

func TestOnlyAnswersThatStayAreKept(t *testing.T) {
	calls, fails := 0, true
	h := servertest.New(t, func(o *server.Options) {
		o.Kinds = servertest.Planning(func(context.Context, control.Object) (machine.Plan, error) {
			calls++
			if fails {
				return machine.Plan{}, runstore.StoreUnavailable.Errorf("away")
			}
			return machine.Plan{}, nil
		})
	})
	h.Do("PUT", servertest.ObjectPath, `{"spec":{}}`)
	const body = `{"object":{"kind":"demo","namespace":"default","name":"c1"}}`
	for range 2 {
		if got := h.Do("POST", "/v1/plans", body, "Idempotency-Key", "k"); got.Status != 503 {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	}
	fails = false
	for range 2 {
		if got := h.Do("POST", "/v1/plans", body, "Idempotency-Key", "k"); got.Status != 200 {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	}
	if calls != 3 {
		t.Errorf("%d calls, want two that failed and one that is kept", calls)
	}
	refused := `{"flow":"None"}`
	first := h.Do("POST", "/v1/plans", refused, "Idempotency-Key", "k2")
	if again := h.Do("POST", "/v1/plans", refused, "Idempotency-Key", "k2"); again.Status != 404 || string(again.Body) != string(first.Body) {
		t.Errorf("a refusal is not kept: %d %s", again.Status, again.Body)
	}
	if got := h.Do("POST", "/v1/plans", refused, "Idempotency-Key", strings.Repeat("k", 256)); got.Status != 400 {
		t.Errorf("a key of 256 characters: %d %s", got.Status, got.Body)
	}
}
