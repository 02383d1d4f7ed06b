package server

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/view/fdbview"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// planDiffers is the conflict of a source.
var planDiffers = fault.Kind{Code: "TEST_PLAN_DIFFERS", Class: fault.Blocked, Title: "another plan"}

// databases is a source of one cluster with one group that keeps what it was asked.
type databases struct {
	asked   []string
	changes chan struct{}
}

func (d *databases) one() fdbview.Cluster {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	group := fdbview.Group{ID: "storage-17", Addresses: []string{"10.0.0.1"}, State: fdbview.Wrong, Conditions: []fdbview.Condition{{Type: "MissingProcesses", Since: since}}, Plan: []string{"UpdatePods waits: Held"}}
	return fdbview.Cluster{
		Kind: "FoundationDBCluster", Namespace: "prod", Name: "orders", State: "Progressing", Version: "7.3.79", RunningVersion: "7.3.69", Problems: 1, Coordinators: []fdbview.Coordinator{},
		Classes: []fdbview.Class{{Name: "storage", Desired: 1, Zones: []fdbview.Zone{{Name: "rack-1", Groups: []fdbview.Group{group}}}}},
		Plan:    fdbview.Plan{Cluster: "prod/orders", Hash: "4be1a02c9d77", Entries: []fdbview.Entry{{Link: "UpdatePods", Action: "recreate", Targets: []string{"orders-storage-17"}, Reason: "Held", Since: since}}},
	}
}

func (d *databases) List(context.Context, string, int, string) (fdbview.Clusters, error) {
	c := d.one()
	c.Classes, c.Plan.Entries = []fdbview.Class{}, []fdbview.Entry{}
	return fdbview.Clusters{Items: []fdbview.Cluster{c}}, nil
}

func (d *databases) Get(_ context.Context, ref control.Ref) (fdbview.Detail, error) {
	if ref.Name != "orders" {
		return fdbview.Detail{}, control.NotFoundError(ref)
	}
	return fdbview.Detail{Cluster: d.one(), Conditions: []view.Condition{}, Stages: []string{"triple"}, Backups: []fdbview.Backup{}, Restores: []fdbview.Restore{}, Links: []string{"UpdatePods"}, Held: []string{}}, nil
}

func (d *databases) Explain(_ context.Context, ref control.Ref, group string, database bool) (fdbview.Explanation, error) {
	if group != "storage-17" {
		return fdbview.Explanation{}, control.NotFound.Errorf("%s has no group %s", ref.Name, group)
	}
	v := fdbview.Explanation{Cluster: "prod/orders", Group: d.one().Classes[0].Zones[0].Groups[0], Servers: []fdbview.Server{}, Gates: []fdbview.Gate{}}
	if !database {
		v.Silence = "the database was not read"
	}
	return v, nil
}

func (d *databases) Hold(_ context.Context, _ control.Ref, links []string) error {
	d.asked = append(d.asked, "hold "+strings.Join(links, ","))
	return nil
}

func (d *databases) Release(_ context.Context, _ control.Ref, links []string) error {
	d.asked = append(d.asked, "release "+strings.Join(links, ","))
	return nil
}

func (d *databases) Approve(_ context.Context, _ control.Ref, hash string) error {
	if hash != "4be1a02c9d77" {
		return planDiffers.Errorf("it has another plan")
	}
	d.asked = append(d.asked, "approve "+hash)
	return nil
}

func (d *databases) Changes(context.Context, control.Ref) <-chan struct{} { return d.changes }

const oneCluster = `{"kind":"FoundationDBCluster","namespace":"prod","name":"orders","generation":0,"state":"Progressing","version":"7.3.79","runningVersion":"7.3.69",` +
	`"ready":false,"reconciled":false,"configured":false,"available":false,"fullReplication":false,"desiredGroups":0,"reconciledGroups":0,"problems":1,"coordinators":[],` +
	`"classes":[{"name":"storage","desired":1,"zones":[{"name":"rack-1","groups":[{"id":"storage-17","addresses":["10.0.0.1"],"state":"Wrong",` +
	`"conditions":[{"type":"MissingProcesses","since":"2026-01-02T03:04:05Z"}],"plan":["UpdatePods waits: Held"]}]}]}],` +
	`"plan":{"cluster":"prod/orders","hash":"4be1a02c9d77","entries":[{"link":"UpdatePods","action":"recreate","targets":["orders-storage-17"],"now":false,"reason":"Held","since":"2026-01-02T03:04:05Z"}]},` +
	`"conditions":[],"stages":["triple"],"backups":[],"restores":[],"links":["UpdatePods"],"held":[]}`

func TestFoundationDB(t *testing.T) {
	engine, err := workflow.New(runstore.NewMemory(), nil, workflow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	source := &databases{changes: make(chan struct{}, 1)}
	s := build(Options{Engine: engine, FoundationDB: source})
	without := build(Options{Engine: engine})
	call := func(s *Server, method, path, body, key string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	const one = "/v1/foundationdb/prod/orders"
	for _, test := range []struct {
		server             *Server
		method, path, body string
		key                string
		status             int
		want               string
	}{
		{s, "GET", "/v1/foundationdb", "", "", 200, `"problems":1,"coordinators":[],"classes":[]`},
		{s, "GET", one, "", "", 200, oneCluster},
		{s, "GET", "/v1/foundationdb/prod/other", "", "", 404, "OBJECT_NOT_FOUND"},
		{s, "GET", one + "/groups/storage-17", "", "", 200, `"silence":"the database was not read"`},
		{s, "GET", one + "/groups/storage-17?database=true", "", "", 200, `"gates":[]}`},
		{s, "GET", one + "/groups/storage-18", "", "", 404, "orders has no group storage-18"},
		{s, "POST", one + "/hold", `{"links":["UpdatePods"]}`, "key-of-the-hold-1", 200, `"name":"orders"`},
		{s, "POST", one + "/hold", `{"links":["UpdatePods"]}`, "key-of-the-hold-1", 200, `"name":"orders"`}, // the same request: not carried out again
		{s, "POST", one + "/hold", `{"links":[]}`, "key-of-the-hold-1", 422, "IDEMPOTENCY_KEY_REUSED"},
		{s, "POST", one + "/release", "", "", 200, `"name":"orders"`},
		{s, "POST", one + "/approve", `{"hash":"4be1a02c9d77"}`, "", 200, `"name":"orders"`},
		{s, "POST", one + "/approve", `{"hash":"0"}`, "", 409, "TEST_PLAN_DIFFERS"},
		{s, "POST", one + "/approve", `{}`, "", 422, "expected required property hash"},
		{s, "POST", one + "/explode", `{}`, "", 404, "ROUTE_NOT_FOUND"},
		{s, "GET", "/v1/session", "", "", 200, `"parts":["foundationdb","workers"]`},
		{s, "GET", "/v1/events?foundationdb=orders", "", "", 400, "is not namespace/name"},
		{without, "GET", "/v1/foundationdb", "", "", 501, "NOT_SERVED"},
		{without, "POST", one + "/release", "", "", 501, "NOT_SERVED"},
		{without, "GET", "/v1/events?foundationdb=prod/orders", "", "", 501, "NOT_SERVED"},
	} {
		if status, body := call(test.server, test.method, test.path, test.body, test.key); status != test.status || !strings.Contains(body, test.want) {
			t.Errorf("%s %s: %d %s, expected %d and %s", test.method, test.path, status, body, test.status, test.want)
		}
	}
	if want := []string{"hold UpdatePods", "release ", "approve 4be1a02c9d77"}; !slices.Equal(source.asked, want) {
		t.Errorf("it was asked %q, want %q", source.asked, want)
	}

	live := httptest.NewServer(s)
	defer live.Close()
	defer s.EndStreams()
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, live.URL+"/v1/events?foundationdb=prod/orders", nil)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	source.changes <- struct{}{}
	event := ""
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if kind, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			event = kind
		}
		if lines.Text() == `data: {"id":"prod/orders"}` {
			if event != "foundationdb" {
				t.Errorf("the event is %q", event)
			}
			return
		}
	}
	t.Error("no event has come")
}
