package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/control"
)

const c1 = "/v1/objects/demo/default/c1"

func TestObjectFromApplyToDelete(t *testing.T) {
	h := newFixture(t, nil)
	var o control.Object
	created := h.do("PUT", c1, `{"kind":"demo","labels":{"tier":"gold"},"spec":{"readers":2}}`, "If-None-Match", "*")
	created.into(t, &o)
	if created.status != http.StatusOK || o.Generation != 1 || created.header.Get("ETag") != etag(o.Revision) {
		t.Fatalf("%d %s", created.status, created.body)
	}
	if again := h.do("PUT", c1, `{"spec":{}}`, "If-None-Match", "*"); again.status != http.StatusPreconditionFailed || again.problem(t).Code != control.Exists.Code {
		t.Errorf("a second creation: %d %s", again.status, again.body)
	}
	if got := h.do("GET", c1, nil, "If-None-Match", created.header.Get("ETag")); got.status != http.StatusNotModified {
		t.Errorf("If-None-Match: %d", got.status)
	}
	changed := h.do("PUT", c1, `{"spec":{"readers":3}}`, "If-Match", created.header.Get("ETag"))
	changed.into(t, &o)
	if o.Generation != 2 || o.Labels["tier"] != "gold" {
		t.Errorf("apply gave %s", changed.body)
	}
	if old := h.do("PUT", c1, `{"spec":{"readers":4}}`, "If-Match", created.header.Get("ETag")); old.status != http.StatusPreconditionFailed {
		t.Errorf("an old If-Match: %d %s", old.status, old.body)
	}

	for _, c := range []struct {
		name, match, body string
		status            int
		code              string
	}{
		{"without If-Match", "", `{"spec":{"readers":5}}`, 428, "REVISION_MISSING"},
		{"old If-Match", created.header.Get("ETag"), `{"spec":{"readers":5}}`, 412, "WRITE_CONFLICT"},
		{"not a patch", "*", `[1]`, 422, "REQUEST_INVALID"},
		{"what is the server's", "*", `{"generation":7}`, 422, "REQUEST_INVALID"},
		{"wrong type", "*", `{"labels":{"a":1}}`, 422, "REQUEST_INVALID"},
		{"invalid label", "*", `{"labels":{"a b":"c"}}`, 422, "OBJECT_INVALID"},
	} {
		var header []string
		if c.match != "" {
			header = []string{"If-Match", c.match}
		}
		got := h.do("PATCH", c1, c.body, append(header, "Content-Type", "application/merge-patch+json")...)
		if p := got.problem(t); got.status != c.status || string(p.Code) != c.code || p.Remedy == "" {
			t.Errorf("%s: %d %s", c.name, got.status, got.body)
		}
	}
	patched := h.do("PATCH", c1, `{"spec":{"readers":null,"class":"big","n":9007199254740993},"labels":{"tier":null,"zone":"a"},"status":{"state":"Running"},"finalizers":["pawl.dev/guard"]}`,
		"If-Match", "*", "Content-Type", "application/merge-patch+json")
	o = control.Object{}
	patched.into(t, &o)
	if string(o.Spec) != `{"class":"big","n":9007199254740993}` || o.Labels["tier"] != "" || o.Labels["zone"] != "a" || string(o.Status) != `{"state":"Running"}` {
		t.Errorf("the patch gave %s", patched.body)
	}

	if got := h.do("DELETE", c1, nil); got.status != http.StatusPreconditionRequired {
		t.Errorf("delete without If-Match: %d %s", got.status, got.body)
	}
	marked := h.do("DELETE", c1, nil, "If-Match", patched.header.Get("ETag"))
	marked.into(t, &o)
	if marked.status != http.StatusOK || !o.Deleting() {
		t.Errorf("delete with a finalizer: %d %s", marked.status, marked.body)
	}
	if got := h.do("PUT", c1, `{"spec":{"x":1}}`); got.status != http.StatusConflict || got.problem(t).Code != control.BeingDeleted.Code {
		t.Errorf("a spec while deleting: %d %s", got.status, got.body)
	}
	h.do("PATCH", c1, `{"finalizers":null}`, "If-Match", "*", "Content-Type", "application/merge-patch+json")
	if got := h.do("GET", c1, nil); got.status != http.StatusNotFound || got.problem(t).Code != control.NotFound.Code {
		t.Errorf("after the last finalizer: %d %s", got.status, got.body)
	}
	for _, method := range []string{"PATCH", "DELETE"} {
		if got := h.do(method, c1, `{}`, "If-Match", "*"); got.status != http.StatusNotFound {
			t.Errorf("%s of nothing: %d %s", method, got.status, got.body)
		}
	}
	if got := h.do("PUT", c1, `{}`, "If-Match", "*"); got.status != http.StatusNotFound {
		t.Errorf("PUT with If-Match: * of nothing: %d %s", got.status, got.body)
	}
}

func TestListOfObjects(t *testing.T) {
	h := newFixture(t, nil)
	for i := range 5 {
		h.do("PUT", fmt.Sprintf("/v1/objects/demo/ns%d/c%d", i%2, i), fmt.Sprintf(`{"labels":{"n":"%d"},"spec":{}}`, i))
	}
	h.do("PUT", "/v1/objects/other/ns0/x", `{"spec":{}}`)
	for path, want := range map[string]string{
		"/v1/objects":                              "demo/ns0/c0 demo/ns0/c2 demo/ns0/c4 demo/ns1/c1 demo/ns1/c3 other/ns0/x",
		"/v1/objects/demo":                         "demo/ns0/c0 demo/ns0/c2 demo/ns0/c4 demo/ns1/c1 demo/ns1/c3",
		"/v1/objects/demo/ns1":                     "demo/ns1/c1 demo/ns1/c3",
		"/v1/objects/demo?selector=n=4":            "demo/ns0/c4",
		"/v1/objects/demo?selector=n,n!=0&limit=2": "demo/ns0/c2 demo/ns0/c4",
		"/v1/objects/none":                         "",
	} {
		var page control.Page
		answer := h.do("GET", path, nil)
		answer.into(t, &page)
		var got []string
		for _, o := range page.Items {
			got = append(got, o.Ref.String())
		}
		if strings.Join(got, " ") != want || page.Items == nil {
			t.Errorf("%s: got %s, want %s (%s)", path, got, want, answer.body)
		}
	}
	var first, second control.Page
	h.do("GET", "/v1/objects/demo?limit=3", nil).into(t, &first)
	h.do("GET", "/v1/objects/demo?limit=3&cursor="+first.Next, nil).into(t, &second)
	if len(first.Items) != 3 || len(second.Items) != 2 || second.Next != "" {
		t.Errorf("two pages have %d and %d", len(first.Items), len(second.Items))
	}
	for path, want := range map[string]int{"/v1/objects?cursor=x": 400, "/v1/objects?selector=a%20b": 422, "/v1/objects/demo/UPPER/x": 404} {
		if got := h.do("GET", path, nil); got.status != want {
			t.Errorf("%s: %d, want %d: %s", path, got.status, want, got.body)
		}
	}
}

func TestPlanOfAnObject(t *testing.T) {
	h := newFixture(t, func(o *Options) {
		o.PlanObject = func(_ context.Context, object control.Object) (json.RawMessage, error) {
			return json.Marshal(map[string]any{"of": object.Ref.String(), "spec": object.Spec, "generation": object.Generation})
		}
	})
	h.do("PUT", c1, `{"spec":{"readers":2}}`)
	for body, want := range map[string]string{
		`{"object":{"kind":"demo","namespace":"default","name":"c1"}}`:           `{"generation":1,"of":"demo/default/c1","spec":{"readers":2}}`,
		`{"manifest":{"kind":"demo","name":"c1","spec":{"readers":3}}}`:          `{"generation":2,"of":"demo/default/c1","spec":{"readers":3}}`,
		`{"manifest":{"kind":"demo","namespace":"other","name":"c9","spec":{}}}`: `{"generation":1,"of":"demo/other/c9","spec":{}}`,
	} {
		var answer struct{ Machine json.RawMessage }
		got := h.do("POST", "/v1/plans", body)
		got.into(t, &answer)
		if string(answer.Machine) != want {
			t.Errorf("%s: got %s", body, got.body)
		}
	}
	var o control.Object
	h.do("GET", c1, nil).into(t, &o)
	if o.Generation != 1 {
		t.Error("a plan changed the object")
	}
}

// RFC 7396, appendix A.
func TestMerge(t *testing.T) {
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		var target, change any
		if json.Unmarshal([]byte(c[0]), &target) != nil || json.Unmarshal([]byte(c[1]), &change) != nil {
			t.Fatal(c)
		}
		if got, _ := json.Marshal(merge(target, change)); string(got) != c[2] {
			t.Errorf("%s with %s: got %s, want %s", c[0], c[1], got, c[2])
		}
	}
}
