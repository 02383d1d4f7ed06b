package server

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/server/rollouts"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// rolled is a source of one Rollout that keeps what it was asked.
type rolled struct {
	asked   []rollouts.Request
	changes chan struct{}
}

func (r *rolled) one() view.Rollout {
	return view.Rollout{Object: control.Ref{Kind: view.RolloutKind, Namespace: "prod", Name: "etcd"}, Position: rollout.Position{State: rollout.InBatch}}
}

func (r *rolled) List(context.Context, string, int, string) (view.Rollouts, error) {
	return view.Rollouts{Items: []view.Rollout{r.one()}}, nil
}

func (r *rolled) Get(_ context.Context, ref control.Ref) (view.Rollout, error) {
	if ref.Name != "etcd" {
		return view.Rollout{}, control.NotFoundError(ref)
	}
	return r.one(), nil
}

func (r *rolled) History(context.Context, control.Ref) ([]rollout.Record, error) { return nil, nil }

func (r *rolled) Plan(context.Context, control.Ref) (view.RolloutPlan, error) {
	return view.RolloutPlan{}, rollout.BudgetImpossible.Errorf("none may be away")
}

func (r *rolled) Ask(_ context.Context, _ control.Ref, ask rollouts.Request) error {
	r.asked = append(r.asked, ask)
	if ask.Verb == "resume" {
		return rollout.NotPaused.Errorf("the rollout is not paused")
	}
	return nil
}

func (r *rolled) Changes(context.Context, control.Ref) <-chan struct{} { return r.changes }

func TestRollouts(t *testing.T) {
	engine, err := workflow.New(runstore.NewMemory(), nil, workflow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	source := &rolled{changes: make(chan struct{}, 1)}
	s := build(Options{Engine: engine, Rollouts: source})
	without := build(Options{Engine: engine})
	call := func(s *Server, method, path, body string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	const one = "/v1/rollouts/prod/etcd"
	for _, test := range []struct {
		server             *Server
		method, path, body string
		status             int
		want               string
	}{
		{s, "GET", "/v1/rollouts", "", 200, `"rollingState":"rollingInBatches"`},
		{s, "GET", one, "", 200, `"name":"etcd"`},
		{s, "GET", "/v1/rollouts/prod/other", "", 404, "OBJECT_NOT_FOUND"},
		{s, "GET", one + "/history", "", 200, `"items":[]`},
		{s, "GET", one + "/plan", "", 409, "BUDGET_IMPOSSIBLE"},
		{s, "POST", one + "/approve", `{"batch":"2","reason":"seen"}`, 200, `"name":"etcd"`},
		{s, "POST", one + "/undo", "", 200, `"name":"etcd"`},
		{s, "POST", one + "/resume", `{}`, 422, "NOT_PAUSED"},
		{s, "POST", one + "/undo", `{"batch":"2"}`, 422, "batch is for approve"},
		{s, "POST", one + "/explode", `{}`, 404, "ROUTE_NOT_FOUND"},
		{s, "GET", "/v1/session", "", 200, `"parts":["rollouts","workers"]`},
		{s, "GET", "/v1/events?rollout=etcd", "", 400, "is not namespace/name"},
		{without, "GET", "/v1/rollouts", "", 501, "NOT_SERVED"},
		{without, "GET", "/v1/events?rollout=prod/etcd", "", 501, "NOT_SERVED"},
	} {
		if status, body := call(test.server, test.method, test.path, test.body); status != test.status || !strings.Contains(body, test.want) {
			t.Errorf("%s %s: %d %s, expected %d and %s", test.method, test.path, status, body, test.status, test.want)
		}
	}
	if len(source.asked) != 3 || source.asked[0] != (rollouts.Request{Verb: "approve", Batch: "2", Reason: "seen", By: source.asked[0].By}) || source.asked[0].By == "" {
		t.Errorf("it was asked %+v", source.asked)
	}

	live := httptest.NewServer(s)
	defer live.Close()
	defer s.EndStreams()
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, live.URL+"/v1/events?rollout=prod/etcd", nil)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	source.changes <- struct{}{}
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if lines.Text() == `data: {"id":"prod/etcd"}` {
			return
		}
	}
	t.Error("no event has come")
}
