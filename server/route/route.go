// Package route declares the routes of the server: each says on one row who may call it,
// what it takes and how it answers. The stages before a route (package server) read its
// row; none knows a path.
package route

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// MaxKey is the longest Idempotency-Key.
const MaxKey = 255

// Route is one route of the server.
type Route struct {
	Method, Path string
	ID           string // of the operation in the document
	Summary      string
	More         string // description, after the summary
	Role         Role   // the lowest that may call it
	Status       int    // of its answer; 0: 200, or 204 without a body
	Errors       []int  // statuses of its problems, besides those that Role and Idempotent bring

	NeedsBody  bool       // a body that its type leaves optional is required
	IfMatch    *Condition // nil: the header has no meaning here
	Idempotent bool       // takes an Idempotency-Key
	ReadOnly   bool       // changes nothing, whatever its method: it leaves no audit entry
	Responses  map[string]*huma.Response

	// What the stages before it do with its requests.
	Probe     bool  // a health check: it is answered for any host, and needs no slot
	Stream    bool  // holds a slot of event streams
	Late      bool  // only the body says who calls: the route identifies the caller, then calls Admit
	OwnFormat bool  // answers in a format of its own, also when its body cannot be read
	MaxBody   int64 // bytes, if less than the server's limit

	Handle  Handler
	decoded bool // Do handles it
}

// EntryRole is the role that a caller needs before its request is read. A route of Do
// checks its own role on the decoded request: who may not call it learns first that a
// request is malformed.
func (r *Route) EntryRole() Role {
	if r.decoded {
		return min(r.Role, User)
	}
	return r.Role
}

// Condition is the declaration of If-Match.
type Condition struct {
	For      string // description
	Required bool   // REVISION_MISSING without it
}

// Table declares the routes of one resource.
type Table struct {
	Tag    string
	Errors []int // of all its routes
	Routes []Route
}

// Handler executes a route. Do and Raw make one.
type Handler func(m *Mux, tag string, r *Route)

// Mux finds the route of a request.
type Mux struct {
	mux      *http.ServeMux
	api      huma.API
	maxBody  int64
	declared map[string]*Route // by pattern
}

// NewMux returns a Mux on an API and its ServeMux. maxBody is the limit of bodies in bytes.
func NewMux(mux *http.ServeMux, api huma.API, maxBody int64) *Mux {
	return &Mux{mux: mux, api: api, maxBody: maxBody, declared: map[string]*Route{}}
}

// Add adds the routes of a table. It panics at a route of the API that declares no role,
// unless the route identifies the caller itself: nobody opens one by leaving a word out.
func (m *Mux) Add(t Table) {
	for i := range t.Routes {
		r := &t.Routes[i]
		if InAPI(r.Path) && r.Role == Anyone && !r.Late {
			panic(r.Method + " " + r.Path + " declares no role")
		}
		r.Errors = slices.Concat(r.Errors, t.Errors)
		m.declared[strings.TrimSpace(r.Method+" "+r.Path)] = r
		r.Handle(m, t.Tag, r)
	}
}

// undeclared are the routes of what no table declares: of unknown paths, and of the
// routes that Options.Routes adds.
var undeclared = struct{ api, apiPost, other *Route }{&Route{Role: User}, &Route{Role: User, Idempotent: true}, &Route{}}

// Find returns the route of a request; its Path is empty if no table declares it.
func (m *Mux) Find(r *http.Request) *Route {
	_, pattern := m.mux.Handler(r)
	if found := m.declared[pattern]; found != nil {
		return found
	}
	switch {
	case !InAPI(r.URL.Path):
		return undeclared.other
	case r.Method == http.MethodPost:
		return undeclared.apiPost
	}
	return undeclared.api
}

// InAPI reports whether a path belongs to the API.
func InAPI(path string) bool { return path == "/v1" || strings.HasPrefix(path, "/v1/") }

// Raw handles a route that the document does not describe.
func Raw(h http.HandlerFunc) Handler {
	return func(m *Mux, _ string, r *Route) { m.mux.HandleFunc(strings.TrimSpace(r.Method+" "+r.Path), h) }
}

// Do handles a route by a function from the decoded request to the answer. Errors
// become problems; with If-Match, a write conflict is status 412 instead of 409.
func Do[I, O any](handle func(context.Context, *I) (*O, error)) Handler {
	return func(m *Mux, tag string, r *Route) {
		r.decoded = true
		huma.Register(m.api, r.operation(tag, m.maxBody), func(ctx context.Context, in *I) (*O, error) {
			if err := Allow(ctx, r.Role); err != nil {
				return nil, fail(ctx, err)
			}
			c := CallOf(ctx)
			if err := c.readIfMatch(r.IfMatch); err != nil {
				return nil, fail(ctx, err)
			}
			out, err := handle(ctx, in)
			if err != nil {
				return nil, fail(ctx, c.conflict(err))
			}
			return out, nil
		})
		r.documentIfMatch(m.api.OpenAPI().Paths[r.Path])
	}
}

// operation returns the route as the document describes it.
func (r *Route) operation(tag string, maxBody int64) huma.Operation {
	op := huma.Operation{OperationID: r.ID, Method: r.Method, Path: r.Path, Summary: r.Summary, Description: r.More, Tags: []string{tag},
		DefaultStatus: r.Status, Errors: r.Errors, Responses: r.Responses, MaxBodyBytes: maxBody}
	if r.NeedsBody {
		op.RequestBody = &huma.RequestBody{Required: true}
	}
	if r.Idempotent {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: "Idempotency-Key", In: "header", Description: "The same key with the same request gives the same answer for 24 h.",
			Schema: &huma.Schema{Type: huma.TypeString, MaxLength: new(MaxKey)},
		})
		op.Errors = append(op.Errors, http.StatusConflict, http.StatusUnprocessableEntity)
	}
	if r.Role == Anyone {
		op.Security = []map[string][]string{}
	} else {
		op.Errors = append(op.Errors, http.StatusUnauthorized, http.StatusForbidden)
		op.Description = strings.TrimSpace(op.Description + " For: " + r.Role.String() + ".")
	}
	slices.Sort(op.Errors)
	op.Errors = slices.Compact(op.Errors)
	return op
}

// documentIfMatch documents the header behind the parameters of the path.
func (r *Route) documentIfMatch(item *huma.PathItem) {
	if r.IfMatch == nil {
		return
	}
	op := map[string]*huma.Operation{http.MethodPost: item.Post, http.MethodPut: item.Put, http.MethodPatch: item.Patch, http.MethodDelete: item.Delete}[r.Method]
	at := 0
	for i, p := range op.Parameters {
		if p.In == "path" {
			at = i + 1
		}
	}
	op.Parameters = slices.Insert(op.Parameters, at, &huma.Param{Name: "If-Match", In: "header", Description: r.IfMatch.For,
		Schema: &huma.Schema{Type: huma.TypeString, Description: r.IfMatch.For}})
}
