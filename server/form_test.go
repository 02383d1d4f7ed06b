package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
)

func TestRefusals(t *testing.T) {
	h := newFixture(t, func(o *Options) { o.MaxBody = 4 << 10 })
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
		{"unknown field of an object", "PUT", c1, `{"spec":{},"status":{}}`, nil, 422, "REQUEST_INVALID", "body.status"},
		{"missing field", "POST", "/v1/runs", `{"flow":"Quick"}`, nil, 422, "REQUEST_INVALID", "subject"},
		{"wrong mode", "POST", "/v1/runs/x/cancel", `{"mode":"later"}`, nil, 422, "REQUEST_INVALID", "body.mode"},
		{"another name in the body", "PUT", c1, `{"name":"c2","spec":{}}`, nil, 422, "REQUEST_INVALID", "c2"},
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
			got := h.do(c.method, c.path, body, c.header...)
			p := got.problem(t)
			if got.status != c.status || string(p.Code) != c.code || p.Status != c.status || !strings.Contains(string(got.body), c.says) {
				t.Errorf("got %d %s", got.status, got.body)
			}
			path, _, _ := strings.Cut(c.path, "?")
			if p.Title == "" || p.Remedy == "" || p.Instance != path || p.Type != "/v1/faults/"+c.code {
				t.Errorf("the problem lacks title, remedy, instance or type: %s", got.body)
			}
		})
	}
	if got := h.do("DELETE", "/v1/runs", nil); got.header.Get("Allow") != "GET, POST" {
		t.Errorf("Allow: %q", got.header.Get("Allow"))
	}
}

// For faults of every class, the caller gets the texts and the right status.
func TestProblemOfEveryClass(t *testing.T) {
	var next error
	h := newFixture(t, func(o *Options) {
		o.PlanObject = func(context.Context, control.Object) (json.RawMessage, error) { return nil, next }
	})
	h.do("PUT", c1, `{"spec":{}}`)
	for _, kind := range fault.All() {
		next = kind.Errorf("it happened").With("node", "n1")
		got := h.do("POST", "/v1/plans", `{"object":{"kind":"demo","namespace":"default","name":"c1"}}`)
		p := got.problem(t)
		if p.Code != kind.Code || p.Class != kind.Class || p.Remedy != kind.Remedy || p.Detail != "it happened" || p.Details["node"] != "n1" || got.status != statusOf(kind) {
			t.Errorf("%s: %d %s", kind.Code, got.status, got.body)
		}
		if again := got.header.Get("Retry-After"); (again != "") != (got.status == 429 || got.status == 503 || kind == KeyBusy) {
			t.Errorf("%s: status %d, Retry-After %q", kind.Code, got.status, again)
		}
	}
	next = errors.New("plain")
	if got := h.do("POST", "/v1/plans", `{"object":{"kind":"demo","namespace":"default","name":"c1"}}`); got.status != 500 || got.problem(t).Code != "UNKNOWN" {
		t.Errorf("an undeclared error: %d %s", got.status, got.body)
	}
}

func TestPanicIsAProblem(t *testing.T) {
	h := newFixture(t, func(o *Options) {
		o.PlanObject = func(context.Context, control.Object) (json.RawMessage, error) { panic("the machine fell over") }
	})
	h.do("PUT", c1, `{"spec":{}}`)
	got := h.do("POST", "/v1/plans", `{"object":{"kind":"demo","namespace":"default","name":"c1"}}`, "Idempotency-Key", "k")
	if p := got.problem(t); got.status != 500 || p.Code != fault.Panic.Code || strings.Contains(string(got.body), "goroutine") {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if log := h.log.String(); !strings.Contains(log, "the machine fell over") || !strings.Contains(log, "form_test.go") {
		t.Errorf("the log lacks panic or stack: %s", log)
	}
	if again := h.do("POST", "/v1/plans", `{"object":{"kind":"demo","namespace":"default","name":"c1"}}`, "Idempotency-Key", "k"); again.status != 500 {
		t.Errorf("the key of a panicked request is not given back: %d %s", again.status, again.body)
	}
	if got := h.do("GET", "/v1/me", nil); got.status != 200 {
		t.Errorf("afterwards: %d", got.status)
	}
}

func TestObservations(t *testing.T) {
	h := newFixture(t, func(o *Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("pawl_x 1\n")) })
	})
	h.do("GET", "/v1/runs/abc", nil)
	h.do("GET", "/v1/runs?limit=1", nil)
	h.do("GET", "/v1/nothing", nil)
	if got := h.do("GET", "/metrics", nil); string(got.body) != "pawl_x 1\n" {
		t.Errorf("metrics: %d %s", got.status, got.body)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var got []string
	for _, o := range h.seen {
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
	h := newFixture(t, func(o *Options) {
		o.MaxFlight = 1
		o.PlanObject = func(context.Context, control.Object) (json.RawMessage, error) {
			close(entered)
			<-leave
			return json.RawMessage("{}"), nil
		}
	})
	h.do("PUT", c1, `{"spec":{}}`)
	first := make(chan reply)
	go func() {
		first <- h.do("POST", "/v1/plans", `{"object":{"kind":"demo","namespace":"default","name":"c1"}}`)
	}()
	<-entered
	if got := h.do("GET", "/v1/me", nil); got.status != 503 || got.problem(t).Code != Busy.Code || got.header.Get("Retry-After") == "" {
		t.Errorf("a second request: %d %s", got.status, got.body)
	}
	if got := h.do("GET", "/healthz", nil); got.status != 200 {
		t.Errorf("health under load: %d", got.status)
	}
	close(leave)
	if got := <-first; got.status != 200 {
		t.Errorf("the first request: %d %s", got.status, got.body)
	}
	if got := h.do("GET", "/v1/me", nil); got.status != 200 {
		t.Errorf("afterwards: %d %s", got.status, got.body)
	}
}

func TestHealth(t *testing.T) {
	var trouble error
	h := newFixture(t, func(o *Options) { o.Health = func(context.Context) error { return trouble } })
	for _, path := range []string{"/healthz", "/readyz"} {
		var v Health
		if got := h.do("GET", path, nil); got.status != 200 {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		} else if got.into(t, &v); v.Status != "ok" || v.Version != "test" {
			t.Errorf("%s: %s", path, got.body)
		}
	}
	trouble = workflow.StoreFull.Errorf("no space left")
	got := h.do("GET", "/readyz", nil)
	if p := got.problem(t); got.status != 503 || !strings.Contains(p.Detail, "STORE_FULL") {
		t.Errorf("not ready: %d %s", got.status, got.body)
	}
	if got := h.do("GET", "/healthz", nil); got.status != 200 {
		t.Errorf("alive: %d", got.status)
	}
}

// docs/openapi.yaml is the document that this code serves.
func TestOpenAPI(t *testing.T) {
	const path = "../docs/openapi.yaml"
	created, err := OpenAPI()
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
	h := newFixture(t, nil)
	if served := h.do("GET", "/v1/openapi.yaml", nil); string(served.body) != string(kept) {
		t.Error("the served document is another one")
	}
	var doc huma.OpenAPI
	h.do("GET", "/v1/openapi.json", nil).into(t, &struct {
		OpenAPI *string `json:"openapi"`
	}{&doc.OpenAPI})
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("openapi %q", doc.OpenAPI)
	}
}

// Every documented operation has a route, every route is documented, and all document their errors.
func TestDocumentedIsRouted(t *testing.T) {
	s := build(Options{Metrics: http.NotFoundHandler()})
	ids := map[string]bool{}
	for path, item := range s.api.OpenAPI().Paths {
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "PUT": item.Put, "POST": item.Post, "PATCH": item.Patch, "DELETE": item.Delete} {
			if op == nil {
				continue
			}
			request := httptest.NewRequest(method, strings.NewReplacer("{", "", "}", "").Replace(path), nil)
			if _, pattern := s.mux.Handler(request); pattern != method+" "+path {
				t.Errorf("%s %s is documented and routed as %q", method, path, pattern)
			}
			if op.Summary == "" || op.OperationID == "" || ids[op.OperationID] {
				t.Errorf("%s %s: summary %q, id %q", method, path, op.Summary, op.OperationID)
			}
			ids[op.OperationID] = true
			key := false
			for _, p := range op.Parameters {
				key = key || p.Name == "Idempotency-Key"
			}
			if key != (method == "POST") {
				t.Errorf("%s %s: Idempotency-Key %v", method, path, key)
			}
			if strings.HasPrefix(path, "/v1/") && (op.Responses["401"] == nil || op.Responses["401"].Content["application/problem+json"] == nil) {
				t.Errorf("%s %s does not tell its problems", method, path)
			}
		}
	}
	for _, path := range strings.Fields("/v1/runs /v1/runs/{id} /v1/runs/{id}/pause /v1/runs/{id}/resume /v1/runs/{id}/cancel /v1/runs/{id}/skip /v1/runs/{id}/signal " +
		"/v1/runs/{id}/progress /v1/runs/{id}/history /v1/flows /v1/objects/{kind}/{namespace}/{name} /v1/plans /v1/events /v1/faults /v1/me /healthz /readyz /metrics") {
		if s.api.OpenAPI().Paths[path] == nil {
			t.Errorf("%s of the design is missing", path)
		}
	}
}

func TestFurtherRoutes(t *testing.T) {
	h := newFixture(t, func(o *Options) {
		o.Mount = map[string]http.Handler{"/client/api": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("query")) })}
		o.Console = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("console")) })
	})
	for path, want := range map[string]string{"/client/api": "query", "/": "console", "/runs/abc": "console"} {
		if got := h.do("GET", path, nil); string(got.body) != want {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	if got := h.do("POST", "/client/api", strings.Repeat("x", 3<<20)); string(got.body) != "query" {
		t.Errorf("a body that is too large is refused in the format of another API: %d %s", got.status, got.body)
	}
	if got := h.do("GET", "/v1/nothing", nil); got.status != 404 {
		t.Errorf("the console answered for /v1: %d", got.status)
	}
}

func TestEveryStatusIsDeclared(t *testing.T) {
	for status := 400; status < 600; status++ {
		p := libraryProblem("/x", status, "m", []error{errors.New("a"), &huma.ErrorDetail{Message: "b", Location: "body.c", Value: map[string]any{"secret": 1}}})
		if p.Code == "" || p.Remedy == "" || p.Status != status || len(p.Errors) != 2 || p.Errors[1].Value != nil {
			t.Errorf("%d: %+v", status, p)
		}
	}
}
