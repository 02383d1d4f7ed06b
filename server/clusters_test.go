package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/machine"
)

// clusterService is a provider with a catalog and free capacity that creates nothing.
type clusterService struct{ cluster.Provider }

func (clusterService) Capabilities() cluster.Capabilities {
	return cluster.Capabilities{Kinds: []cluster.Kind{cluster.VM}}
}
func (clusterService) Check(context.Context, cluster.Need) ([]cluster.Finding, error) {
	return nil, nil
}
func (clusterService) Catalog(_ context.Context, _ cluster.Owner, kind cluster.Kind) ([]cluster.Entry, error) {
	return []cluster.Entry{{Kind: kind, ID: "one", Name: "one", Cores: 2, MemoryMB: 2048, Default: true}}, nil
}
func (clusterService) List(context.Context, cluster.Filter, cluster.Cursor) (cluster.Page, error) {
	return cluster.Page{}, nil
}
func (clusterService) Get(context.Context, cluster.Ref) (cluster.Resource, error) {
	return cluster.Resource{}, cluster.ErrGone
}

// clustersFixture is a fixture with accounts and a cluster service that accepts requests.
type clustersFixture struct {
	*fixture
	records *cluster.Memory
	token   map[string]string
	shapes  *jsonschema.Compiler
}

func newClustersFixture(t *testing.T, change ...func(*Options)) *clustersFixture {
	m := &clustersFixture{records: cluster.NewMemory()}
	accounts := &account.Service{Store: account.NewMemory()}
	s, err := service.New(service.Options{Records: m.records, Installation: "test", Directory: Directory{Store: accounts.Store},
		Providers: []service.NamedProvider{{Name: "shop", Provider: clusterService{}}}, Versions: []service.Version{{ID: "v1", Name: "v1", Semantic: "1.0.0"}}})
	if err != nil {
		t.Fatal(err)
	}
	m.token = map[string]string{"op": secret}
	if _, err := accounts.CreateDomain(t.Context(), account.System(), "dev", ""); err != nil {
		t.Fatal(err)
	}
	for _, w := range []account.NewAccount{{Name: "dan", Domain: "ROOT/dev", Role: account.DomainAdmin}, {Name: "uma", Domain: "ROOT/dev"}, {Name: "eve"}} {
		if _, err := accounts.CreateAccount(t.Context(), account.System(), w); err != nil {
			t.Fatal(err)
		}
		_, plain, err := accounts.CreateToken(t.Context(), account.System(), account.NewCredential{Account: w.Name})
		if err != nil {
			t.Fatal(err)
		}
		m.token[w.Name] = plain.Reveal()
	}
	m.fixture = newFixture(t, func(o *Options) {
		o.Clusters, o.Accounts, o.Reviewer, o.Tokens = s, accounts, AccountReviewer{accounts}, tokens(t, secret)
		for _, one := range change {
			one(o)
		}
	})
	m.shapes = jsonschema.NewCompiler()
	text, err := json.Marshal(m.server.api.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = m.shapes.AddResource("mem:///openapi.json", document)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// as sends a request, and validates the answer against the OpenAPI document.
func (m *clustersFixture) as(who, method, path string, body any, header ...string) reply {
	m.t.Helper()
	if who != "" {
		header = append(header, "Authorization", "Bearer "+m.token[who])
	}
	r := m.do(method, path, body, header...)
	m.fits(method, path, r)
	return r
}

// fits validates an answer against the schema of its route and status.
func (m *clustersFixture) fits(method, path string, r reply) {
	m.t.Helper()
	path, _, _ = strings.Cut(path, "?")
	probe, err := http.NewRequest(method, path, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	_, pattern := m.server.mux.Handler(probe)
	_, route, _ := strings.Cut(pattern, " ")
	item := m.server.api.OpenAPI().Paths[route]
	if item == nil || len(r.body) == 0 {
		return
	}
	kind, _, _ := strings.Cut(r.header.Get("Content-Type"), ";")
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D")
	pointer := fmt.Sprintf("mem:///openapi.json#/paths/%s/%s/responses/%d/content/%s/schema", escape.Replace(route), strings.ToLower(method), r.status, escape.Replace(kind))
	shape, err := m.shapes.Compile(pointer)
	if err != nil {
		m.t.Errorf("%s %s answers %d %s, which the document does not know: %v", method, path, r.status, kind, err)
		return
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.body))
	if err == nil {
		err = shape.Validate(value)
	}
	if err != nil {
		m.t.Errorf("%s %s: the answer does not fit the document: %v\n%s", method, path, err, r.body)
	}
}

// create creates a cluster.
func (m *clustersFixture) create(who, name string) acceptedBody {
	m.t.Helper()
	r := m.as(who, "POST", "/v1/clusters", map[string]any{"name": name, "zone": "one", "offering": "one", "size": 2})
	if r.status != http.StatusAccepted {
		m.t.Fatalf("create: %d %s", r.status, r.body)
	}
	var a acceptedBody
	r.into(m.t, &a)
	if r.header.Get("Location") != "/v1/operations/"+a.Operation.ID || r.header.Get("ETag") != etag(a.Cluster.Revision) {
		m.t.Errorf("headers %v of %+v", r.header, a)
	}
	return a
}

// put sets the state of a cluster, as the controller does, and stores a configuration.
func (m *clustersFixture) put(id string, state machine.State) {
	m.t.Helper()
	b, err := m.records.Record(m.t.Context(), id)
	if err != nil {
		m.t.Fatal(err)
	}
	d, err := m.records.Details(m.t.Context(), id)
	if err != nil {
		m.t.Fatal(err)
	}
	b.Cluster.State, b.Cluster.Request, d.ConfigData = state, nil, "planted-config"
	b.Cluster.Desired = cluster.WantRunning
	if err := m.records.Commit(m.t.Context(), &cluster.Change{Cluster: &b.Cluster, Details: d}); err != nil {
		m.t.Fatal(err)
	}
}

// For every route and role: a route that is not for the role is 403. A cluster that the
// caller may not see is 404, with the same answer as one that does not exist.
func TestWhoMayCallTheRoutesOfClusters(t *testing.T) {
	m := newClustersFixture(t)
	mine := m.create("uma", "blue").Cluster.ID
	for _, c := range []struct {
		method, path, body         string
		op, dan, uma, actor, nobdy int
	}{
		{"GET", "/v1/clusters/ID", "", 200, 200, 200, 404, 401},
		{"GET", "/v1/clusters/ID/nodes", "", 200, 200, 200, 404, 401},
		{"GET", "/v1/clusters/ID/resources", "", 200, 200, 200, 404, 401},
		{"GET", "/v1/clusters/ID/drift", "", 200, 200, 200, 404, 401},
		{"GET", "/v1/clusters/ID/config", "", 200, 200, 200, 404, 401},
		{"GET", "/v1/clusters/ID/runs", "", 200, 200, 200, 404, 401},
		{"GET", "/v1/clusters/ID/history", "", 200, 200, 200, 404, 401},
		{"GET", "/v1/clusters/ID/logs?node=x", "", 422, 422, 422, 404, 401},
		{"GET", "/v1/clusters/nothing", "", 404, 404, 404, 404, 401},
		{"POST", "/v1/clusters/ID/start", "", 202, 202, 202, 404, 401},
		{"POST", "/v1/clusters/ID/recover", "", 202, 202, 202, 404, 401},
		{"POST", "/v1/clusters/ID/upgrade", `{"version":"none"}`, 422, 422, 422, 404, 401},
		{"POST", "/v1/clusters/ID/scale", `{"size":101}`, 422, 422, 422, 404, 401},
		{"POST", "/v1/clusters/ID/forget", `{"confirm":"blue"}`, 409, 403, 403, 403, 401},
		{"PATCH", "/v1/clusters/ID", `{"size":101}`, 422, 422, 422, 404, 401},
		{"DELETE", "/v1/clusters/nothing", "", 404, 404, 404, 404, 401},
		{"GET", "/v1/clusters", "", 200, 200, 200, 200, 401},
		{"GET", "/v1/leaks", "", 200, 403, 403, 403, 401},
		{"GET", "/v1/catalog/zone", "", 200, 200, 200, 200, 401},
		{"GET", "/v1/operations/nothing", "", 404, 404, 404, 404, 401},
		{"POST", "/v1/plans", `{"change":{"cluster":"ID","kind":"delete"}}`, 200, 200, 200, 404, 401},
		{"POST", "/v1/plans", `{"change":{"cluster":"ID","kind":"set","settings":{"description":"x"}}}`, 200, 200, 200, 404, 401},
		{"POST", "/v1/plans", `{"change":{"cluster":"ID","kind":"set","settings":{"size":101}}}`, 422, 422, 422, 404, 401},
		{"POST", "/v1/plans", `{"change":{"cluster":"ID","kind":"set"}}`, 422, 422, 422, 404, 401},
		{"POST", "/v1/plans", `{"change":{"cluster":"ID","kind":"forget","confirm":"blue"}}`, 409, 403, 403, 403, 401},
	} {
		for who, want := range map[string]int{"op": c.op, "dan": c.dan, "uma": c.uma, "eve": c.actor, "": c.nobdy} {
			m.put(mine, cluster.Running)
			var body any
			if c.body != "" {
				body = strings.ReplaceAll(c.body, "ID", mine)
			}
			r := m.as(who, c.method, strings.ReplaceAll(c.path, "ID", mine), body, "If-Match", "*")
			if r.status != want {
				t.Errorf("%s %s by %q: %d, want %d: %s", c.method, c.path, who, r.status, want, r.body)
			}
			if who == "eve" && want == http.StatusNotFound {
				const unknown = "5c7c02a4-0c3f-4b0f-9d1e-0123456789ab"
				if c.body != "" {
					body = strings.ReplaceAll(c.body, "ID", unknown)
				}
				none := m.as(who, c.method, strings.ReplaceAll(c.path, "ID", unknown), body, "If-Match", "*")
				if got, want := strings.ReplaceAll(string(r.body), mine, unknown), string(none.body); got != want {
					t.Errorf("%s %s: what is hidden reads\n%s\nwhat does not exist reads\n%s", c.method, c.path, got, want)
				}
			}
		}
	}
	for who, want := range map[string]int{"op": 1, "dan": 1, "uma": 1, "eve": 0} {
		var page struct{ Total int }
		m.as(who, "GET", "/v1/clusters", nil).into(t, &page)
		if page.Total != want {
			t.Errorf("%s lists %d clusters, want %d", who, page.Total, want)
		}
	}
}

// The revision is the ETag. PATCH and DELETE need it. Of two concurrent changes one wins.
func TestRevisionsOfClusters(t *testing.T) {
	m := newClustersFixture(t)
	id := m.create("uma", "blue").Cluster.ID
	m.put(id, cluster.Running)
	path := "/v1/clusters/" + id
	tag := m.as("uma", "GET", path, nil).header.Get("ETag")
	if r := m.as("uma", "GET", path, nil, "If-None-Match", tag); r.status != http.StatusNotModified {
		t.Errorf("the same version: %d", r.status)
	}
	if r := m.as("uma", "PATCH", path, `{"description":"x"}`); r.status != http.StatusPreconditionRequired {
		t.Errorf("without If-Match: %d", r.status)
	}
	if r := m.as("uma", "DELETE", path, nil); r.status != http.StatusPreconditionRequired {
		t.Errorf("without If-Match: %d", r.status)
	}
	first := m.as("uma", "PATCH", path, `{"description":"x"}`, "If-Match", tag)
	second := m.as("uma", "PATCH", path, `{"description":"y"}`, "If-Match", tag)
	if first.status != http.StatusAccepted || second.status != http.StatusPreconditionFailed {
		t.Errorf("two changes of one revision: %d, %d: %s", first.status, second.status, second.body)
	}
	if p := second.problem(t); p.Cluster != id || p.Code != "WRITE_CONFLICT" {
		t.Errorf("problem %+v", p)
	}
	if r := m.as("uma", "POST", path+"/stop", nil, "If-Match", tag); r.status != http.StatusPreconditionFailed {
		t.Errorf("an action for an old revision: %d", r.status)
	}
}

// A merge patch changes only the fields it contains, null resets to the default, unknown fields are refused.
func TestPatchOfACluster(t *testing.T) {
	m := newClustersFixture(t)
	id := m.create("uma", "blue").Cluster.ID
	for _, c := range []struct {
		patch string
		want  int
		check func(c *cluster.Cluster) bool
	}{
		{`{"recovery":["replace"],"onFailure":"keep"}`, 202, func(c *cluster.Cluster) bool { return len(c.Recovery) == 1 && c.OnFailure == cluster.KeepPartial }},
		{`{"recovery":null}`, 202, func(c *cluster.Cluster) bool { return c.Recovery == nil && c.OnFailure == cluster.KeepPartial }},
		{`{"recovery":[]}`, 202, func(c *cluster.Cluster) bool { return c.Recovery != nil && len(c.Recovery) == 0 }},
		{`{"recovery":["pray"]}`, 422, nil},
		{`{"cidrs":["10.0.0.0/8"]}`, 202, func(c *cluster.Cluster) bool { return len(c.CIDRs) == 1 }},
		{`{"cidrs":["x"]}`, 422, nil},
		{`{"size":4}`, 202, func(c *cluster.Cluster) bool {
			return c.NodeCount == 4 && c.Request != nil && c.Request.Kind == cluster.RequestScale
		}},
		{`{"name":"other"}`, 422, nil},
		{`[]`, 422, nil},
		{`{"gc":false}`, 404, nil}, // a cluster of the operator
	} {
		m.put(id, cluster.Running)
		r := m.as("uma", "PATCH", "/v1/clusters/"+id, c.patch, "If-Match", "*", "Content-Type", "application/merge-patch+json")
		if r.status != c.want {
			t.Errorf("%s: %d %s", c.patch, r.status, r.body)
		}
		if b, _ := m.records.Record(t.Context(), id); c.check != nil && !c.check(&b.Cluster) {
			t.Errorf("%s: %+v", c.patch, b.Cluster)
		}
	}
}

// Requests with the same Idempotency-Key create one cluster, even if the stored answer was lost with the server.
func TestOneKeyIsOneCluster(t *testing.T) {
	m := newClustersFixture(t)
	body := map[string]any{"name": "blue", "zone": "one", "offering": "one", "size": 1}
	first := m.as("uma", "POST", "/v1/clusters", body, "Idempotency-Key", "k")
	m.server.options.Idempotency = NewMemoryIdempotency() // a restart before the answer was stored
	again := m.as("uma", "POST", "/v1/clusters", body, "Idempotency-Key", "k")
	var a, b acceptedBody
	first.into(t, &a)
	again.into(t, &b)
	if a.Cluster.ID != b.Cluster.ID || a.Operation.ID != b.Operation.ID || again.status != http.StatusAccepted {
		t.Errorf("%s and %s", first.body, again.body)
	}
	if _, total, _ := m.records.List(t.Context(), cluster.ClusterQuery{Scope: cluster.Scope{All: true}}); total != 1 {
		t.Errorf("%d clusters", total)
	}
	if r := m.as("eve", "POST", "/v1/clusters", body, "Idempotency-Key", "k"); r.status != http.StatusAccepted {
		t.Errorf("the key of another account: %d %s", r.status, r.body)
	}
}

// If a cluster is destroyed between two pages, each of the others is still listed
// exactly once.
func TestPagesOfClustersUnderChange(t *testing.T) {
	m := newClustersFixture(t)
	for i := range 9 {
		m.create("uma", fmt.Sprintf("c%d", i))
	}
	var names []string
	for cursor := ""; ; {
		var page struct {
			Items []struct {
				ID, Name string
				Existing *int
			}
			Next string
		}
		m.as("uma", "GET", "/v1/clusters?limit=3&cursor="+cursor, nil).into(t, &page)
		for _, c := range page.Items {
			names = append(names, c.Name)
			if c.Existing == nil || *c.Existing != 0 {
				t.Errorf("%s has no workers yet: %v", c.Name, c.Existing)
			}
		}
		for _, c := range page.Items[len(page.Items)-2:] { // the last one, at the position of the cursor, and its predecessor
			b, err := m.records.Record(t.Context(), c.ID)
			if err != nil {
				t.Fatal(err)
			}
			b.Cluster.State = cluster.Destroyed
			if err := m.records.Commit(t.Context(), &cluster.Change{Cluster: &b.Cluster}); err != nil {
				t.Fatal(err)
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if got := strings.Join(names, " "); got != "c0 c1 c2 c3 c4 c5 c6 c7 c8" {
		t.Errorf("pages give %s", got)
	}
}

// Pages follow one another without a gap. A foreign cursor is refused.
func TestPagesOfClusters(t *testing.T) {
	m := newClustersFixture(t)
	for i := range 5 {
		m.create("uma", fmt.Sprintf("c%d", i))
	}
	var names []string
	for cursor := ""; ; {
		var page struct {
			Items []struct{ Name string }
			Total int
			Next  string
		}
		m.as("uma", "GET", "/v1/clusters?limit=2&cursor="+cursor, nil).into(t, &page)
		for _, c := range page.Items {
			names = append(names, c.Name)
		}
		if page.Total != 5 {
			t.Errorf("total %d", page.Total)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if got := strings.Join(names, " "); got != "c0 c1 c2 c3 c4" {
		t.Errorf("pages give %s", got)
	}
	for _, foreign := range []string{"!", "NQ", "YmVoaW5kIDA", "YmVoaW5kIC01"} { // not base64, a number alone, 0, -5
		if r := m.as("uma", "GET", "/v1/clusters?cursor="+foreign, nil); r.status != http.StatusBadRequest {
			t.Errorf("cursor %s of somebody else: %d", foreign, r.status)
		}
	}
	if r := m.as("uma", "GET", "/v1/clusters?limit=501", nil); r.status != http.StatusUnprocessableEntity {
		t.Errorf("a limit of 501: %d", r.status)
	}
	if r := m.as("uma", "POST", "/v1/clusters", map[string]any{"name": "x", "zone": "one", "offering": "one", "size": 1, "color": "red"}); r.status != http.StatusUnprocessableEntity {
		t.Errorf("an unknown field: %d", r.status)
	}
}

// Secrets appear only in the answers to requests for them, and in no log.
func TestNoAnswerShowsASecret(t *testing.T) {
	m := newClustersFixture(t)
	r := m.as("uma", "POST", "/v1/clusters", map[string]any{"name": "blue", "zone": "one", "offering": "one", "size": 1,
		"registry": map[string]string{"username": "u", "password": "planted-password", "url": "https://registry.example", "email": "u@example.org"}})
	if r.status != http.StatusAccepted {
		t.Fatal(string(r.body))
	}
	var a acceptedBody
	r.into(t, &a)
	m.put(a.Cluster.ID, cluster.Running)
	d, err := m.records.Details(t.Context(), a.Cluster.ID)
	if err != nil {
		t.Fatal(err)
	}
	config := m.as("uma", "GET", "/v1/clusters/"+a.Cluster.ID+"/config", nil)
	if !strings.Contains(string(config.body), "planted-config") {
		t.Errorf("the configuration that was asked for: %s", config.body)
	}
	var all strings.Builder
	all.Write(r.body)
	for _, path := range []string{"", "/ID", "/ID/nodes", "/ID/resources", "/ID/drift", "/ID/history", "/ID/runs"} {
		all.Write(m.as("op", "GET", "/v1/clusters"+strings.ReplaceAll(path, "ID", a.Cluster.ID), nil).body)
	}
	all.Write(m.as("uma", "GET", "/v1/operations/"+a.Operation.ID, nil).body)
	all.WriteString(m.log.String())
	for _, planted := range []string{"planted-password", "planted-config", d.Password.Reveal()} {
		if strings.Contains(all.String(), planted) {
			t.Errorf("%q is shown", planted)
		}
	}
	if !strings.Contains(all.String(), "ConfigRead") {
		t.Error("history does not tell that the configuration was read")
	}
}

// The size of root disks is in requests and answers, as in the query API. Invalid sizes
// are refused with their location.
func TestTheDiskOfNodes(t *testing.T) {
	m := newClustersFixture(t)
	body := map[string]any{"name": "blue", "zone": "one", "offering": "one", "size": 1, "diskGB": 40}
	var a acceptedBody
	m.as("uma", "POST", "/v1/clusters", body).into(t, &a)
	b, err := m.records.Record(t.Context(), a.Cluster.ID)
	if err != nil || a.Cluster.DiskGB != 40 || b.Cluster.DiskGB != 40 {
		t.Errorf("answered %d GB, stored %+v, %v", a.Cluster.DiskGB, b, err)
	}
	for key, value := range map[string]int{"diskGB": 0, "controlNodes": 0, "size": 0} {
		wrong := maps.Clone(body)
		wrong[key] = value
		if r := m.as("uma", "POST", "/v1/clusters", wrong); r.status != http.StatusUnprocessableEntity || !strings.Contains(string(r.body), key) {
			t.Errorf("%s 0: %d %s", key, r.status, r.body)
		}
	}
	body["diskGB"] = cluster.MaxDiskGB + 1
	if r := m.as("uma", "POST", "/v1/plans", map[string]any{"create": body}); r.status != http.StatusUnprocessableEntity {
		t.Errorf("a plan with a disk that is too large: %d %s", r.status, r.body)
	}
}

// Unknown states and kinds are refused with the list of known ones.
func TestUnknownStatesAndKindsAreRefused(t *testing.T) {
	m := newClustersFixture(t)
	all := namesOf(cluster.States)
	for path, one := range map[string]string{"/v1/clusters?state=Walking": all, "/v1/leaks?kind=disk": "vm, network"} {
		if r := m.as("op", "GET", path, nil); r.status != http.StatusUnprocessableEntity || !strings.Contains(string(r.body), one) {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	for _, state := range cluster.States {
		if r := m.as("op", "GET", "/v1/clusters?state="+string(state), nil); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", state, r.status, r.body)
		}
	}
}

func namesOf(states []machine.State) string {
	var names []string
	for _, s := range states {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}
