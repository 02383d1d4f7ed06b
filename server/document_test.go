package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

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
