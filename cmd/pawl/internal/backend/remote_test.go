package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// answering is a server of scripted answers and a client of it.
func answering(t *testing.T, handle http.HandlerFunc) *Remote {
	t.Helper()
	s := httptest.NewServer(handle)
	r, err := OpenRemote(client.Options{URL: s.URL, Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Close()
		s.Close()
	})
	return r
}

func problem(w http.ResponseWriter, p view.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// A request is repeated with the same key while the server is not ready.
func TestRepeated(t *testing.T) {
	var keys []string
	r := answering(t, func(w http.ResponseWriter, req *http.Request) {
		keys = append(keys, req.Header.Get("Idempotency-Key"))
		if req.Header.Get("Authorization") != "Bearer secret" {
			t.Error("the token is missing")
		}
		if len(keys) < 3 {
			problem(w, view.Problem{Status: http.StatusServiceUnavailable, Code: "SERVER_BUSY"})
			return
		}
		fmt.Fprint(w, `{"id":"gk3v"}`)
	})
	run, err := r.Start(t.Context(), workflow.Request{Flow: "F", Subject: "a/b/c"})
	if err != nil || run.ID != "gk3v" || len(keys) != 3 || keys[0] == "" || keys[0] != keys[2] {
		t.Errorf("run %q, keys %q, %v", run.ID, keys, err)
	}
}

// Problems keep their code and remedy; a refusal is not repeated.
func TestProblems(t *testing.T) {
	calls := 0
	r := answering(t, func(w http.ResponseWriter, req *http.Request) {
		calls++
		if req.URL.EscapedPath() != "/v1/runs/a%2Fb/skip" || req.Header.Get("If-Match") != `"7"` {
			t.Errorf("%s, If-Match %s", req.URL.EscapedPath(), req.Header.Get("If-Match"))
		}
		problem(w, view.Problem{Status: http.StatusConflict, Code: "SKIP_REFUSED", Detail: "no", Remedy: "mend it"})
	})
	err := r.Request(t.Context(), "a/b", runtype.VerbSkip, workflow.RunRequest{Step: "A", Actor: workflow.Actor{Revision: 7}})
	if fault.Of(err) != workflow.SkipRefused || view.ProblemOf(err).Remedy != "mend it" || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// Who answers without a problem document is no pawl server; a redirect gets no token.
func TestStrangers(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusFound, http.StatusBadGateway} {
		r := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(status)
		})
		if _, err := r.Run(t.Context(), "gk3v"); fault.Of(err) != client.Unreachable {
			t.Errorf("%d: %v", status, err)
		}
	}
	if _, err := OpenRemote(client.Options{URL: "ftp://x"}); fault.Of(err) != runtype.InputInvalid {
		t.Errorf("ftp: %v", err)
	}
}

// An event stream that breaks is taken up behind the last event.
func TestChangesGoOn(t *testing.T) {
	asked := make(chan string, 10)
	r := answering(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Query().Get("run") != "gk3v" {
			t.Errorf("run %q", req.URL.Query().Get("run"))
		}
		asked <- req.Header.Get("Last-Event-ID")
		fmt.Fprint(w, "retry: 1000\n\nid: 41\nevent: run\ndata: {}\n\nid: 42\nevent: step\ndata: {}\n\n")
	})
	ctx, cancel := context.WithCancel(t.Context())
	changes := r.Changes(ctx, "gk3v")
	<-changes
	if first, second := <-asked, <-asked; first != "" || second != "42" {
		t.Errorf("asked behind %q, then %q", first, second)
	}
	cancel()
	for range changes { // closed when all has ended
	}
}

// Objects are written with their revision.
func TestRemoteObjects(t *testing.T) {
	var seen []string
	r := answering(t, func(w http.ResponseWriter, req *http.Request) {
		seen = append(seen, req.Method+" "+req.URL.Path+" "+req.Header.Get("If-Match")+req.Header.Get("If-None-Match"))
		if req.Method == http.MethodPatch {
			var body struct{ Labels map[string]*string }
			err := json.NewDecoder(req.Body).Decode(&body)
			if gone, ok := body.Labels["gone"]; err != nil || !ok || gone != nil || body.Labels["kept"] == nil {
				t.Errorf("an update takes away what is not in it: %v %v", body.Labels, err)
			}
		}
		fmt.Fprint(w, `{"kind":"thing","namespace":"default","name":"a","revision":3,"labels":{"gone":"1"}}`)
	})
	objects, _ := r.Objects()
	ref := control.Ref{Kind: "thing", Namespace: "default", Name: "a"}
	ctx := t.Context()
	_, errA := objects.Apply(ctx, control.Object{Ref: ref})
	_, errB := objects.Apply(ctx, control.Object{Ref: ref, Revision: control.MustNotExist})
	_, errC := objects.Update(ctx, control.Object{Ref: ref, Revision: 3, Labels: map[string]string{"kept": "1"}})
	_, errD := objects.Delete(ctx, ref, 0)
	for _, err := range []error{errA, errB, errC, errD} {
		if err != nil {
			t.Error(err)
		}
	}
	want := []string{"PUT /v1/objects/thing/default/a ", "PUT /v1/objects/thing/default/a *", "GET /v1/objects/thing/default/a ", `PATCH /v1/objects/thing/default/a "3"`, "DELETE /v1/objects/thing/default/a *"}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", seen, want)
	}
}
