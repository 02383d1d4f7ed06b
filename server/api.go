package server

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawl-dev/pawl/bulk"
	"github.com/pawl-dev/pawl/server/auth"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view/fdbview"
)

// newAPI returns the API on a mux. The version of its document is that of the API, not of the program.
func newAPI(mux *http.ServeMux) huma.API {
	config := huma.DefaultConfig("Pawl", "1")
	config.Info.Description = "Durable workflows, state machines and their objects. Errors are problem details with code, class and remedy."
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.CreateHooks = nil // no $schema in answers
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", nameSchema)
	config.RejectUnknownQueryParameters = true
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token":   {Type: "http", Scheme: "bearer", Description: "Not needed on loopback as long as the server has neither token nor account."},
		"session": {Type: "apiKey", In: "cookie", Name: auth.SessionCookie, Description: "Created from a token by POST /v1/session. All methods but GET need the header " + auth.CSRFHeader + " too."},
	}
	config.Security = []map[string][]string{{"token": {}}, {"session": {}}, {}}
	return humago.New(mux, config)
}

// nameSchema names the schema of a type after the type; those of FoundationDB are told apart from those of Pawl's own
// clusters, and those of bulks from those of all that has a spec.
func nameSchema(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.PkgPath() {
	case reflect.TypeFor[fdbview.Cluster]().PkgPath():
		return "FoundationDB" + name
	case reflect.TypeFor[bulk.Spec]().PkgPath():
		return "Bulk" + name
	}
	return name
}

// fallback answers requests without a route: with the console, or with a problem.
func (s *Server) fallback(w http.ResponseWriter, r *http.Request) {
	if methods := s.allowedMethods(r); len(methods) > 0 {
		w.Header().Set("Allow", strings.Join(methods, ", "))
		route.WriteProblem(w, r, route.NoMethod.Errorf("%s takes %s", r.URL.Path, strings.Join(methods, ", ")))
		return
	}
	if s.options.Console != nil && !route.InAPI(r.URL.Path) {
		route.CallOf(r.Context()).Route = &route.Route{Path: "/"}
		s.options.Console.ServeHTTP(w, r)
		return
	}
	route.WriteProblem(w, r, route.NoRoute.Errorf("there is nothing at %s", r.URL.Path))
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

// documentRoutes are the routes of the OpenAPI document, as JSON and as YAML.
func (s *Server) documentRoutes() route.Table {
	document := func(path, contentType string, render func() ([]byte, error)) route.Route {
		return route.Route{Method: http.MethodGet, Path: path, Role: route.User, Handle: route.Raw(func(w http.ResponseWriter, r *http.Request) {
			data, err := render()
			if err != nil {
				route.WriteProblem(w, r, err)
				return
			}
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write(data) // the caller may have disconnected
		})}
	}
	return route.Table{Routes: []route.Route{
		document("/v1/openapi.json", "application/openapi+json", sync.OnceValues(func() ([]byte, error) { return json.Marshal(s.api.OpenAPI()) })),
		document("/v1/openapi.yaml", "application/openapi+yaml", sync.OnceValues(func() ([]byte, error) { return s.api.OpenAPI().YAML() })),
	}}
}

//go:generate go test . -run ^TestOpenAPI$ -update

// OpenAPI returns the document of the API in YAML, the content of docs/openapi.yaml.
func OpenAPI() ([]byte, error) { return build(Options{}).api.OpenAPI().YAML() }
