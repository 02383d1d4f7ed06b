package objects_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/servertest"
)

const c1 = "/v1/objects/demo/default/c1"

func TestObjectFromApplyToDelete(t *testing.T) {
	h := servertest.New(t, nil)
	var o control.Object
	created := h.Do("PUT", c1, `{"kind":"demo","labels":{"tier":"gold"},"spec":{"readers":2}}`, "If-None-Match", "*")
	created.Into(t, &o)
	if created.Status != http.StatusOK || o.Generation != 1 || created.Header.Get("ETag") != route.ETag(o.Revision) {
		t.Fatalf("%d %s", created.Status, created.Body)
	}
	if again := h.Do("PUT", c1, `{"spec":{}}`, "If-None-Match", "*"); again.Status != http.StatusPreconditionFailed || again.Problem(t).Code != control.Exists.Code {
		t.Errorf("a second creation: %d %s", again.Status, again.Body)
	}
	if got := h.Do("GET", c1, nil, "If-None-Match", created.Header.Get("ETag")); got.Status != http.StatusNotModified {
		t.Errorf("If-None-Match: %d", got.Status)
	}
	changed := h.Do("PUT", c1, `{"spec":{"readers":3}}`, "If-Match", created.Header.Get("ETag"))
	changed.Into(t, &o)
	if o.Generation != 2 || o.Labels["tier"] != "gold" {
		t.Errorf("apply gave %s", changed.Body)
	}
	if old := h.Do("PUT", c1, `{"spec":{"readers":4}}`, "If-Match", created.Header.Get("ETag")); old.Status != http.StatusPreconditionFailed {
		t.Errorf("an old If-Match: %d %s", old.Status, old.Body)
	}

	for _, c := range []struct {
		name, match, body string
		status            int
		code              string
	}{
		{"without If-Match", "", `{"spec":{"readers":5}}`, 428, "REVISION_MISSING"},
		{"old If-Match", created.Header.Get("ETag"), `{"spec":{"readers":5}}`, 412, "WRITE_CONFLICT"},
		{"not a patch", "*", `[1]`, 422, "REQUEST_INVALID"},
		{"what is the server's", "*", `{"generation":7}`, 422, "REQUEST_INVALID"},
		{"wrong type", "*", `{"labels":{"a":1}}`, 422, "REQUEST_INVALID"},
		{"invalid label", "*", `{"labels":{"a b":"c"}}`, 422, "OBJECT_INVALID"},
	} {
		var header []string
		if c.match != "" {
			header = []string{"If-Match", c.match}
		}
		got := h.Do("PATCH", c1, c.body, append(header, "Content-Type", "application/merge-patch+json")...)
		if p := got.Problem(t); got.Status != c.status || string(p.Code) != c.code || p.Remedy == "" {
			t.Errorf("%s: %d %s", c.name, got.Status, got.Body)
		}
	}
	patched := h.Do("PATCH", c1, `{"spec":{"readers":null,"class":"big","n":9007199254740993},"labels":{"tier":null,"zone":"a"},"status":{"state":"Running"},"finalizers":["pawl.dev/guard"]}`,
		"If-Match", "*", "Content-Type", "application/merge-patch+json")
	o = control.Object{}
	patched.Into(t, &o)
	if string(o.Spec) != `{"class":"big","n":9007199254740993}` || o.Labels["tier"] != "" || o.Labels["zone"] != "a" || string(o.Status) != `{"state":"Running"}` {
		t.Errorf("the patch gave %s", patched.Body)
	}

	if got := h.Do("DELETE", c1, nil); got.Status != http.StatusPreconditionRequired {
		t.Errorf("delete without If-Match: %d %s", got.Status, got.Body)
	}
	marked := h.Do("DELETE", c1, nil, "If-Match", patched.Header.Get("ETag"))
	marked.Into(t, &o)
	if marked.Status != http.StatusOK || !o.Deleting() {
		t.Errorf("delete with a finalizer: %d %s", marked.Status, marked.Body)
	}
	if got := h.Do("PUT", c1, `{"spec":{"x":1}}`); got.Status != http.StatusConflict || got.Problem(t).Code != control.BeingDeleted.Code {
		t.Errorf("a spec while deleting: %d %s", got.Status, got.Body)
	}
	h.Do("PATCH", c1, `{"finalizers":null}`, "If-Match", "*", "Content-Type", "application/merge-patch+json")
	if got := h.Do("GET", c1, nil); got.Status != http.StatusNotFound || got.Problem(t).Code != control.NotFound.Code {
		t.Errorf("after the last finalizer: %d %s", got.Status, got.Body)
	}
	for _, method := range []string{"PATCH", "DELETE"} {
		if got := h.Do(method, c1, `{}`, "If-Match", "*"); got.Status != http.StatusNotFound {
			t.Errorf("%s of nothing: %d %s", method, got.Status, got.Body)
		}
	}
	if got := h.Do("PUT", c1, `{}`, "If-Match", "*"); got.Status != http.StatusNotFound {
		t.Errorf("PUT with If-Match: * of nothing: %d %s", got.Status, got.Body)
	}
}

func TestListOfObjects(t *testing.T) {
	h := servertest.New(t, nil)
	for i := range 5 {
		h.Do("PUT", fmt.Sprintf("/v1/objects/demo/ns%d/c%d", i%2, i), fmt.Sprintf(`{"labels":{"n":"%d"},"spec":{}}`, i))
	}
	h.Do("PUT", "/v1/objects/other/ns0/x", `{"spec":{}}`)
	for path, want := range map[string]string{
		"/v1/objects":                              "demo/ns0/c0 demo/ns0/c2 demo/ns0/c4 demo/ns1/c1 demo/ns1/c3 other/ns0/x",
		"/v1/objects/demo":                         "demo/ns0/c0 demo/ns0/c2 demo/ns0/c4 demo/ns1/c1 demo/ns1/c3",
		"/v1/objects/demo/ns1":                     "demo/ns1/c1 demo/ns1/c3",
		"/v1/objects/demo?selector=n=4":            "demo/ns0/c4",
		"/v1/objects/demo?selector=n,n!=0&limit=2": "demo/ns0/c2 demo/ns0/c4",
		"/v1/objects/none":                         "",
	} {
		var page control.Page
		answer := h.Do("GET", path, nil)
		answer.Into(t, &page)
		var got []string
		for _, o := range page.Items {
			got = append(got, o.Ref.String())
		}
		if strings.Join(got, " ") != want || page.Items == nil {
			t.Errorf("%s: got %s, want %s (%s)", path, got, want, answer.Body)
		}
	}
	var first, second control.Page
	h.Do("GET", "/v1/objects/demo?limit=3", nil).Into(t, &first)
	h.Do("GET", "/v1/objects/demo?limit=3&cursor="+first.Next, nil).Into(t, &second)
	if len(first.Items) != 3 || len(second.Items) != 2 || second.Next != "" {
		t.Errorf("two pages have %d and %d", len(first.Items), len(second.Items))
	}
	for path, want := range map[string]int{"/v1/objects?cursor=x": 400, "/v1/objects?selector=a%20b": 422, "/v1/objects/demo/UPPER/x": 404} {
		if got := h.Do("GET", path, nil); got.Status != want {
			t.Errorf("%s: %d, want %d: %s", path, got.Status, want, got.Body)
		}
	}
}
