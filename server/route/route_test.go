package route

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

func newTestMux(routes ...Route) (*Mux, huma.API) {
	mux := http.NewServeMux()
	api := humago.New(mux, huma.DefaultConfig("test", "1"))
	m := NewMux(mux, api, 1<<10)
	m.Add(Table{Tag: "test", Errors: []int{501}, Routes: routes})
	return m, api
}

func answerNothing(context.Context, *struct {
	ID string `path:"id"`
	Q  string `query:"q"`
}) (*struct{}, error) {
	return nil, nil //nolint:nilnil // no answer
}

// A route of the API without a role is a mistake, not an open route.
func TestRouteWithoutRole(t *testing.T) {
	raw := Raw(func(http.ResponseWriter, *http.Request) {})
	for name, c := range map[string]struct {
		r      Route
		panics bool
	}{
		"forgotten":      {Route{Method: "GET", Path: "/v1/x", Handle: raw}, true},
		"declared":       {Route{Method: "GET", Path: "/v1/x", Role: User, Handle: raw}, false},
		"knows its own":  {Route{Method: "POST", Path: "/v1/x", Late: true, Handle: raw}, false},
		"beside the API": {Route{Method: "GET", Path: "/x", Handle: raw}, false},
	} {
		func() {
			defer func() {
				if p := recover(); (p != nil) != c.panics {
					t.Errorf("%s: %v", name, p)
				}
			}()
			newTestMux(c.r)
		}()
	}
}

// The row of a route is found by any request to it; what no table declares needs a
// caller below /v1, and none elsewhere.
func TestFind(t *testing.T) {
	m, _ := newTestMux(Route{Method: "GET", Path: "/v1/x/{id}", ID: "x", Role: Operator, Handle: Do(answerNothing)},
		Route{Path: "/own", Late: true, OwnFormat: true, Handle: Raw(func(http.ResponseWriter, *http.Request) {})})
	for _, c := range []struct {
		method, target, path string
		role, entry          Role
		idempotent           bool
	}{
		{"GET", "/v1/x/7", "/v1/x/{id}", Operator, User, false},
		{"HEAD", "/v1/x/7", "/v1/x/{id}", Operator, User, false},
		{"POST", "/own", "/own", Anyone, Anyone, false},
		{"POST", "/v1/x/7", "", User, User, true},
		{"GET", "/v1/other", "", User, User, false},
		{"GET", "/v1", "", User, User, false},
		{"GET", "/v1x", "", Anyone, Anyone, false},
	} {
		got := m.Find(httptest.NewRequestWithContext(t.Context(), c.method, c.target, nil))
		if got.Path != c.path || got.Role != c.role || got.EntryRole() != c.entry || got.Idempotent != c.idempotent {
			t.Errorf("%s %s: %+v", c.method, c.target, got)
		}
	}
}

// The document tells what the row declares, the condition behind the path.
func TestRowIsDocumented(t *testing.T) {
	_, api := newTestMux(Route{Method: "POST", Path: "/v1/x/{id}", ID: "x", Role: DomainAdmin, Idempotent: true, IfMatch: &Condition{For: "the revision"}, More: "More.",
		Errors: []int{404}, Handle: Do(answerNothing)})
	op := api.OpenAPI().Paths["/v1/x/{id}"].Post
	var names []string
	for _, p := range op.Parameters {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, " "); got != "Idempotency-Key id If-Match q" || op.Description != "More. For: domain-admin." {
		t.Errorf("%s, %q", got, op.Description)
	}
	for _, status := range []string{"401", "403", "404", "409", "422", "501"} {
		if op.Responses[status] == nil {
			t.Errorf("%s is not documented", status)
		}
	}
}
