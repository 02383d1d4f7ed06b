package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawl-dev/pawl/workflow"
)

// newAPI returns the API on a mux. The version of its document is that of the API, not of the program.
func newAPI(mux *http.ServeMux) huma.API {
	config := huma.DefaultConfig("Pawl", "1")
	config.Info.Description = "Durable workflows, state machines and their objects. Errors are problem details with code, class and remedy."
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.CreateHooks = nil // no $schema in answers
	config.RejectUnknownQueryParameters = true
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token":   {Type: "http", Scheme: "bearer", Description: "Not needed on loopback as long as the server has neither token nor account."},
		"session": {Type: "apiKey", In: "cookie", Name: sessionCookie, Description: "Created from a token by POST /v1/session. All methods but GET need the header " + csrfHeader + " too."},
	}
	config.Security = []map[string][]string{{"token": {}}, {"session": {}}, {}}
	return humago.New(mux, config)
}

// registerRoute registers a route of /v1. It documents the required role and the
// common headers, records the pattern for metrics, and turns errors into problems.
func registerRoute[I, O any](s *Server, op huma.Operation, least Role, handle func(context.Context, *I) (*O, error)) {
	op.Errors = append(op.Errors, http.StatusUnauthorized, http.StatusForbidden)
	if op.Method == http.MethodPost {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: "Idempotency-Key", In: "header", Description: "The same key with the same request gives the same answer for 24 h.",
			Schema: &huma.Schema{Type: huma.TypeString, MaxLength: new(maxKey)},
		})
		op.Errors = append(op.Errors, http.StatusConflict, http.StatusUnprocessableEntity)
	}
	if op.Description != "" {
		op.Description += " "
	}
	op.Description += "For: " + least.String() + "."
	op.MaxBodyBytes = s.options.MaxBody
	slices.Sort(op.Errors)
	op.Errors = slices.Compact(op.Errors)
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		callOf(ctx).route = op.Path
		if err := allow(ctx, least); err != nil {
			return nil, fail(ctx, err)
		}
		out, err := handle(ctx, in)
		if err != nil {
			var finished huma.HeadersError
			if errors.As(err, &finished) { // returned by fail
				return nil, err
			}
			return nil, fail(ctx, err)
		}
		return out, nil
	})
}

// fallback answers requests without a route: with the console, or with a problem.
func (s *Server) fallback(w http.ResponseWriter, r *http.Request) {
	if methods := s.allowedMethods(r); len(methods) > 0 {
		w.Header().Set("Allow", strings.Join(methods, ", "))
		writeProblem(w, r, NoMethod.Errorf("%s takes %s", r.URL.Path, strings.Join(methods, ", ")))
		return
	}
	if s.options.Console != nil && requiredRole(r.URL.Path, true) == Anyone {
		callOf(r.Context()).route = "/"
		s.options.Console.ServeHTTP(w, r)
		return
	}
	writeProblem(w, r, NoRoute.Errorf("there is nothing at %s", r.URL.Path))
}

// allowedMethods returns the methods for which the path has a route.
func (s *Server) allowedMethods(r *http.Request) []string {
	var found []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := s.mux.Handler(probe); pattern != "/" && pattern != "" {
			found = append(found, method)
		}
	}
	return found
}

// serveDocument serves the OpenAPI document as JSON and as YAML.
func (s *Server) serveDocument() {
	form := func(path, contentType string, render func() ([]byte, error)) {
		s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			callOf(r.Context()).route = path
			data, err := render()
			if err != nil {
				writeProblem(w, r, err)
				return
			}
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write(data) // the caller may have disconnected
		})
	}
	form("/v1/openapi.json", "application/openapi+json", sync.OnceValues(func() ([]byte, error) { return json.Marshal(s.api.OpenAPI()) }))
	form("/v1/openapi.yaml", "application/openapi+yaml", sync.OnceValues(func() ([]byte, error) { return s.api.OpenAPI().YAML() }))
}

//go:generate go test . -run ^TestOpenAPI$ -update

// OpenAPI returns the document of the API in YAML, the content of docs/openapi.yaml.
func OpenAPI() ([]byte, error) { return build(Options{}).api.OpenAPI().YAML() }

// lister returns the run store's Lister. NOT_SERVED if it has none.
func (s *Server) lister() (workflow.Lister, error) {
	lister, ok := s.options.Engine.Store().(workflow.Lister)
	if !ok {
		return nil, NotServed.Errorf("the store of this server cannot list runs")
	}
	return lister, nil
}

// flow returns the loaded flow with a name that serves a subject; nil if there is none.
func (s *Server) flow(name, subject string) *workflow.Flow {
	return workflow.FlowFor(s.options.Engine.Flows(), name, subject)
}
