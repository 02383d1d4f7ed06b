package server_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/servertest"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

func TestRefusals(t *testing.T) {
	h := servertest.New(t, func(o *server.Options) { o.MaxBody = 4 << 10 })
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		code                     string
		says                     string // a part of the problem
	}{
		{"unknown path", "GET", "/v1/nothing", "", nil, 404, "ROUTE_NOT_FOUND", "/v1/nothing"},
		{"unknown path beside /v1", "GET", "/favicon.ico", "", nil, 404, "ROUTE_NOT_FOUND", ""},
		{"unknown method", "DELETE", "/v1/runs", "", nil, 405, "METHOD_REFUSED", "GET, POST"},
		{"unknown run", "GET", "/v1/runs/nosuchrun", "", nil, 404, "RUN_NOT_FOUND", "nosuchrun"},
		{"verb of an unknown run", "POST", "/v1/runs/nosuchrun/pause", "", nil, 404, "RUN_NOT_FOUND", ""},
		{"unknown verb", "POST", "/v1/runs/x/explode", "{}", nil, 404, "ROUTE_NOT_FOUND", ""},
		{"unknown flow", "POST", "/v1/runs", `{"flow":"None","subject":"a/b/c"}`, nil, 404, "FLOW_UNKNOWN", ""},
		{"not JSON", "POST", "/v1/runs", `{"flow":`, nil, 400, "REQUEST_MALFORMED", ""},
		{"no body", "POST", "/v1/runs", "", nil, 400, "REQUEST_MALFORMED", ""},
		{"no body of a verb that needs one", "POST", "/v1/runs/x/skip", "", nil, 400, "REQUEST_MALFORMED", ""},
		{"another media type", "POST", "/v1/runs", "a: b", []string{"Content-Type", "application/yaml"}, 415, "MEDIA_TYPE_UNKNOWN", ""},
		{"unknown field", "POST", "/v1/runs", `{"flow":"Quick","subject":"a/b/c","color":"red"}`, nil, 422, "REQUEST_INVALID", "body.color"},
		{"unknown field of a verb", "POST", "/v1/runs/x/pause", `{"color":"red"}`, nil, 422, "REQUEST_INVALID", "body.color"},
		{"unknown field of an object", "PUT", servertest.ObjectPath, `{"spec":{},"status":{}}`, nil, 422, "REQUEST_INVALID", "body.status"},
		{"missing field", "POST", "/v1/runs", `{"flow":"Quick"}`, nil, 422, "REQUEST_INVALID", "subject"},
		{"wrong mode", "POST", "/v1/runs/x/cancel", `{"mode":"later"}`, nil, 422, "REQUEST_INVALID", "body.mode"},
		{"another name in the body", "PUT", servertest.ObjectPath, `{"name":"c2","spec":{}}`, nil, 422, "REQUEST_INVALID", "c2"},
		{"invalid object", "PUT", "/v1/objects/demo/UPPER/c1", `{"spec":{}}`, nil, 422, "OBJECT_INVALID", "UPPER"},
		{"too large", "POST", "/v1/runs", `{"flow":"` + strings.Repeat("x", 5<<10) + `"}`, nil, 413, "REQUEST_TOO_LARGE", ""},
		{"too large with a key", "POST", "/v1/runs", `{"flow":"` + strings.Repeat("x", 5<<10) + `"}`, []string{"Idempotency-Key", "k"}, 413, "REQUEST_TOO_LARGE", ""},
		{"unknown parameter", "GET", "/v1/flows?verbose=1", "", nil, 422, "REQUEST_INVALID", "verbose"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var body any
			if c.body != "" {
				body = c.body
			}
			got := h.Do(c.method, c.path, body, c.header...)
			p := got.Problem(t)
			if got.Status != c.status || string(p.Code) != c.code || p.Status != c.status || !strings.Contains(string(got.Body), c.says) {
				t.Errorf("got %d %s", got.Status, got.Body)
			}
			path, _, _ := strings.Cut(c.path, "?")
			if p.Title == "" || p.Remedy == "" || p.Instance != path || p.Type != "/v1/faults/"+c.code {
				t.Errorf("the problem lacks title, remedy, instance or type: %s", got.Body)
			}
		})
	}
	if got := h.Do("DELETE", "/v1/runs", nil); got.Header.Get("Allow") != "GET, POST" {
		t.Errorf("Allow: %q", got.Header.Get("Allow"))
	}
}

// For faults of every class, the caller gets the texts and the right status.
func TestProblemOfEveryClass(t *testing.T) {
	var next error
	h := servertest.New(t, func(o *server.Options) {
		o.Kinds = servertest.Planning(func(context.Context, control.Object) (machine.Plan, error) { return machine.Plan{}, next })
	})
	h.Do("PUT", servertest.ObjectPath, `{"spec":{}}`)
	for _, kind := range fault.All() {
		next = kind.Errorf("it happened").With("node", "n1")
		got := h.Do("POST", "/v1/plans", `{"object":{"kind":"demo","namespace":"default","name":"c1"}}`)
		p := got.Problem(t)
		if p.Code != kind.Code || p.Class != kind.Class || p.Remedy != kind.Remedy || p.Detail != "it happened" || p.Details["node"] != "n1" || got.Status != route.StatusOf(kind) {
			t.Errorf("%s: %d %s", kind.Code, got.Status, got.Body)
		}
		if again := got.Header.Get("Retry-After"); (again != "") != (got.Status == 429 || got.Status == 503 || kind == route.KeyBusy) {
			t.Errorf("%s: status %d, Retry-After %q", kind.Code, got.Status, again)
		}
	}
	next = errors.New("plain")
	if got := h.Do("POST", "/v1/plans", `{"object":{"kind":"demo","namespace":"default","name":"c1"}}`); got.Status != 500 || got.Problem(t).Code != "UNKNOWN" {
		t.Errorf("an undeclared error: %d %s", got.Status, got.Body)
	}
}

func TestPanicIsAProblem(t *testing.T) {
	h := servertest.New(t, func(o *server.Options) {
		o.Kinds = servertest.Planning(func(context.Context, control.Object) (machine.Plan, error) { panic("the machine fell over") })
	})
	h.Do("PUT", servertest.ObjectPath, `{"spec":{}}`)
	got := h.Do("POST", "/v1/plans", `{"object":{"kind":"demo","namespace":"default","name":"c1"}}`, "Idempotency-Key", "k")
	if p := got.Problem(t); got.Status != 500 || p.Code != fault.Panic.Code || strings.Contains(string(got.Body), "goroutine") {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
	if log := h.Log.String(); !strings.Contains(log, "the machine fell over") || !strings.Contains(log, "form_test.go") {
		t.Errorf("the log lacks panic or stack: %s", log)
	}
	if again := h.Do("POST", "/v1/plans", `{"object":{"kind":"demo","namespace":"default","name":"c1"}}`, "Idempotency-Key", "k"); again.Status != 500 {
		t.Errorf("the key of a panicked request is not given back: %d %s", again.Status, again.Body)
	}
	if got := h.Do("GET", "/v1/me", nil); got.Status != 200 {
		t.Errorf("afterwards: %d", got.Status)
	}
}

func TestObservations(t *testing.T) {
	h := servertest.New(t, func(o *server.Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("pawl_x 1\n")) })
	})
	h.Do("GET", "/v1/runs/abc", nil)
	h.Do("GET", "/v1/runs?limit=1", nil)
	h.Do("GET", "/v1/nothing", nil)
	if got := h.Do("GET", "/metrics", nil); string(got.Body) != "pawl_x 1\n" {
		t.Errorf("metrics: %d %s", got.Status, got.Body)
	}
	var got []string
	for _, o := range h.Seen() {
		got = append(got, o.Method+" "+o.Route+" "+http.StatusText(o.Status))
		if o.Took <= 0 || o.Bytes <= 0 {
			t.Errorf("%+v has no time or no bytes", o)
		}
	}
	want := []string{"GET /v1/runs/{id} Not Found", "GET /v1/runs OK", "GET  Not Found", "GET /metrics OK"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLimitOfRequestsAtOnce(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	h := servertest.New(t, func(o *server.Options) {
		o.MaxFlight = 1
		o.Kinds = servertest.Planning(func(context.Context, control.Object) (machine.Plan, error) {
			close(entered)
			<-leave
			return machine.Plan{}, nil
		})
	})
	h.Do("PUT", servertest.ObjectPath, `{"spec":{}}`)
	first := make(chan servertest.Reply)
	go func() {
		first <- h.Do("POST", "/v1/plans", `{"object":{"kind":"demo","namespace":"default","name":"c1"}}`)
	}()
	<-entered
	if got := h.Do("GET", "/v1/me", nil); got.Status != 503 || got.Problem(t).Code != route.Busy.Code || got.Header.Get("Retry-After") == "" {
		t.Errorf("a second request: %d %s", got.Status, got.Body)
	}
	if got := h.Do("GET", "/healthz", nil); got.Status != 200 {
		t.Errorf("health under load: %d", got.Status)
	}
	close(leave)
	if got := <-first; got.Status != 200 {
		t.Errorf("the first request: %d %s", got.Status, got.Body)
	}
	if got := h.Do("GET", "/v1/me", nil); got.Status != 200 {
		t.Errorf("afterwards: %d %s", got.Status, got.Body)
	}
}

func TestHealth(t *testing.T) {
	var trouble error
	h := servertest.New(t, func(o *server.Options) { o.Health = func(context.Context) error { return trouble } })
	for _, path := range []string{"/healthz", "/readyz"} {
		var v server.Health
		if got := h.Do("GET", path, nil); got.Status != 200 {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		} else if got.Into(t, &v); v.Status != "ok" || v.Version != "test" {
			t.Errorf("%s: %s", path, got.Body)
		}
	}
	trouble = runstore.StoreFull.Errorf("no space left")
	got := h.Do("GET", "/readyz", nil)
	if p := got.Problem(t); got.Status != 503 || !strings.Contains(p.Detail, "STORE_FULL") {
		t.Errorf("not ready: %d %s", got.Status, got.Body)
	}
	if got := h.Do("GET", "/healthz", nil); got.Status != 200 {
		t.Errorf("alive: %d", got.Status)
	}
}

// docs/openapi.yaml is the document that this code serves.
func TestOpenAPI(t *testing.T) {
	const path = "../docs/openapi.yaml"
	created, err := server.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, created, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(kept), string(created)); diff != "" {
		t.Errorf("docs/openapi.yaml is not what the server routes; write it anew with: go generate ./server\n%s", diff)
	}
	h := servertest.New(t, nil)
	if served := h.Do("GET", "/v1/openapi.yaml", nil); string(served.Body) != string(kept) {
		t.Error("the served document is another one")
	}
	var doc huma.OpenAPI
	h.Do("GET", "/v1/openapi.json", nil).Into(t, &struct {
		OpenAPI *string `json:"openapi"`
	}{&doc.OpenAPI})
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("openapi %q", doc.OpenAPI)
	}
}

func TestFurtherRoutes(t *testing.T) {
	h := servertest.New(t, func(o *server.Options) {
		o.Mount = map[string]http.Handler{"/client/api": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("query")) })}
		o.Console = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("console")) })
	})
	for path, want := range map[string]string{"/client/api": "query", "/": "console", "/runs/abc": "console"} {
		if got := h.Do("GET", path, nil); string(got.Body) != want {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	if got := h.Do("POST", "/client/api", strings.Repeat("x", 3<<20)); string(got.Body) != "query" {
		t.Errorf("a body that is too large is refused in the format of another API: %d %s", got.Status, got.Body)
	}
	if got := h.Do("GET", "/v1/nothing", nil); got.Status != 404 {
		t.Errorf("the console answered for /v1: %d", got.Status)
	}
}
