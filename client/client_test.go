package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/events"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Each operation of the document has a method, but for those of browsers and of metrics.
func TestOperations(t *testing.T) {
	document, err := os.ReadFile("../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	methods := reflect.TypeFor[*client.Client]()
	found := 0
	for _, m := range regexp.MustCompile(`operationId: (\w+)`).FindAllStringSubmatch(string(document), -1) {
		if slices.Contains([]string{"metrics", "openSession", "getSession", "endSession"}, m[1]) {
			continue
		}
		found++
		if _, ok := methods.MethodByName(strings.ToUpper(m[1][:1]) + m[1][1:]); !ok {
			t.Errorf("there is no method for %s: run make generate", m[1])
		}
	}
	if found < 60 {
		t.Errorf("%d operations: the document was not read", found)
	}
}

// server answers each request by a function and returns a client of it.
func clientOf(t *testing.T, answer http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	c, err := client.New(client.Options{URL: s.URL, Token: "t0ken"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A parameter reaches the server as it is, and one that is not set is not sent.
func TestRequests(t *testing.T) {
	var got *http.Request
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		_, _ = w.Write([]byte(`{"items": []}`))
	})
	if _, err := c.ListRuns(t.Context(), client.ListRunsParams{Flow: "a b&c", Active: true}); err != nil {
		t.Fatal(err)
	}
	if q := got.URL.Query(); q.Get("flow") != "a b&c" || q.Get("active") != "true" || len(q) != 2 {
		t.Errorf("the query is %s", got.URL.RawQuery)
	}
	if got.Header.Get("Authorization") != "Bearer t0ken" {
		t.Error("the token was not sent")
	}
	if _, err := c.GetObject(t.Context(), "Site", "a/b", "c?d"); err != nil {
		t.Fatal(err)
	}
	if got.URL.EscapedPath() != "/v1/objects/Site/a%2Fb/c%3Fd" {
		t.Errorf("the path is %s", got.URL.EscapedPath())
	}
}

// A problem document is a fault with its remedy. What is no problem document is no Pawl server.
func TestProblems(t *testing.T) {
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		if strings.HasSuffix(r.URL.Path, "/known") {
			_, _ = w.Write([]byte(`{"code": "RUN_NOT_FOUND", "title": "no such run", "remedy": "List the runs.", "status": 404}`))
		}
	})
	_, err := c.GetRun(t.Context(), "known")
	if kind := fault.Of(err); kind.Code != "RUN_NOT_FOUND" {
		t.Errorf("%v is %s", err, kind.Code)
	}
	if _, err = c.GetRun(t.Context(), "other"); fault.Of(err) != client.Unreachable {
		t.Errorf("another server: %v", err)
	}
	for _, url := range []string{"", "ftp://host", "http://", "http://%zz"} {
		if _, err := client.New(client.Options{URL: url}); fault.Of(err) != runtype.InputInvalid {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// A request that fails for a reason that may pass is repeated under the same key.
func TestRepeats(t *testing.T) {
	var keys []string
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		if keys = append(keys, r.Header.Get("Idempotency-Key")); len(keys) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"code": "STORE_UNAVAILABLE", "status": 503}`))
			return
		}
		_, _ = w.Write([]byte(`{"id": "r1"}`))
	})
	run, err := c.StartRun(t.Context(), client.StartRunRequest{Flow: "Backup"}, client.StartRunParams{})
	if err != nil || run.ID != "r1" {
		t.Fatalf("%+v, %v", run, err)
	}
	if len(keys) != 3 || keys[0] == "" || keys[0] != keys[1] || keys[1] != keys[2] {
		t.Errorf("sent under %q", keys)
	}
}

// All reads page after page.
func TestAll(t *testing.T) {
	pages := map[string]client.Items[int]{"": {Items: []int{1, 2}, Next: "b"}, "b": {Items: []int{3}}}
	all, err := client.All(func(cursor string) (client.Items[int], error) { return pages[cursor], nil })
	if err != nil || !slices.Equal(all, []int{1, 2, 3}) {
		t.Errorf("%v, %v", all, err)
	}
}

// A stream begins with an event without type, and says where to go on when it breaks off.
func TestEvents(t *testing.T) {
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Last-Event-ID") != "6" || r.URL.Query().Get("run") != "r1" {
			t.Errorf("asked for %s after %s", r.URL, r.Header.Get("Last-Event-ID"))
		}
		_, _ = w.Write([]byte(": comment\n\nid: 7\nevent: run\ndata: {\"n\":1}\n\nid: 8\nevent: run\ndata: {\"n\":2}\n\n"))
	})
	var seen []string
	for e, err := range c.Events(t.Context(), client.EventsParams{Run: "r1", After: "6"}) {
		if err != nil {
			seen = append(seen, string(fault.Of(err).Code)+" after "+e.ID)
			break
		}
		seen = append(seen, e.ID+e.Type+string(e.Data))
	}
	if want := []string{"6", `7run{"n":1}`, `8run{"n":2}`, "SERVER_UNREACHABLE after 8"}; !slices.Equal(seen, want) {
		t.Errorf("%q", seen)
	}
}

// Start a run on a server and read it until it has ended.
func Example() {
	flow := workflow.Flow{Name: "Hello", Steps: []workflow.Step{
		{Name: "Greet", Do: func(_ context.Context, t *workflow.Task) outcome.Outcome {
			var input struct{ Name string }
			if err := t.Input(&input); err != nil {
				return outcome.Fail(err)
			}
			if err := t.Set("hello " + input.Name); err != nil {
				return outcome.Fail(err)
			}
			return outcome.Done()
		}},
	}}
	notifier := &control.Notifier{}
	engine, err := workflow.New(runstore.NewMemory(), []workflow.Flow{flow}, workflow.Options{Hooks: []workflow.Hook{events.Hook(notifier)}})
	if err != nil {
		panic(err)
	}
	pawl, err := server.New(server.Options{Engine: engine, Objects: control.NewMemory(), Notifier: notifier})
	if err != nil {
		panic(err)
	}
	listener := httptest.NewServer(pawl)
	defer listener.Close()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	go func() { _ = engine.Serve(ctx) }()

	c, err := client.New(client.Options{URL: listener.URL})
	if err != nil {
		panic(err)
	}
	run, err := c.StartRun(ctx, client.StartRunRequest{Flow: "Hello", Subject: "demo/default/c1", Input: json.RawMessage(`{"name": "Uma"}`)}, client.StartRunParams{})
	if err != nil {
		panic(err)
	}
	for range c.Events(ctx, client.EventsParams{Run: run.ID}) {
		if run, err = c.GetRun(ctx, run.ID); err != nil || run.Phase.Final() {
			break
		}
	}
	fmt.Println(run.Phase, err)
	// Output: Succeeded <nil>
}
