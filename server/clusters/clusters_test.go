package clusters_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/validate"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/idempotency"
	"github.com/pawl-dev/pawl/server/servertest"
)

// For every route and role: a route that is not for the role is 403. A cluster that the
// caller may not see is 404, with the same answer as one that does not exist.
func TestWhoMayCallTheRoutesOfClusters(t *testing.T) {
	m := servertest.NewClusters(t)
	mine := m.Create("uma", "blue").Cluster.ID
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
			m.Put(mine, cluster.Running)
			var body any
			if c.body != "" {
				body = strings.ReplaceAll(c.body, "ID", mine)
			}
			r := m.As(who, c.method, strings.ReplaceAll(c.path, "ID", mine), body, "If-Match", "*")
			if r.Status != want {
				t.Errorf("%s %s by %q: %d, want %d: %s", c.method, c.path, who, r.Status, want, r.Body)
			}
			if who == "eve" && want == http.StatusNotFound {
				const unknown = "5c7c02a4-0c3f-4b0f-9d1e-0123456789ab"
				if c.body != "" {
					body = strings.ReplaceAll(c.body, "ID", unknown)
				}
				none := m.As(who, c.method, strings.ReplaceAll(c.path, "ID", unknown), body, "If-Match", "*")
				if got, want := strings.ReplaceAll(string(r.Body), mine, unknown), string(none.Body); got != want {
					t.Errorf("%s %s: what is hidden reads\n%s\nwhat does not exist reads\n%s", c.method, c.path, got, want)
				}
			}
		}
	}
	for who, want := range map[string]int{"op": 1, "dan": 1, "uma": 1, "eve": 0} {
		var page struct{ Total int }
		m.As(who, "GET", "/v1/clusters", nil).Into(t, &page)
		if page.Total != want {
			t.Errorf("%s lists %d clusters, want %d", who, page.Total, want)
		}
	}
}

// The revision is the ETag. PATCH and DELETE need it. Of two concurrent changes one wins.
func TestRevisionsOfClusters(t *testing.T) {
	m := servertest.NewClusters(t)
	id := m.Create("uma", "blue").Cluster.ID
	m.Put(id, cluster.Running)
	path := "/v1/clusters/" + id
	tag := m.As("uma", "GET", path, nil).Header.Get("ETag")
	if r := m.As("uma", "GET", path, nil, "If-None-Match", tag); r.Status != http.StatusNotModified {
		t.Errorf("the same version: %d", r.Status)
	}
	if r := m.As("uma", "PATCH", path, `{"description":"x"}`); r.Status != http.StatusPreconditionRequired {
		t.Errorf("without If-Match: %d", r.Status)
	}
	if r := m.As("uma", "DELETE", path, nil); r.Status != http.StatusPreconditionRequired {
		t.Errorf("without If-Match: %d", r.Status)
	}
	first := m.As("uma", "PATCH", path, `{"description":"x"}`, "If-Match", tag)
	second := m.As("uma", "PATCH", path, `{"description":"y"}`, "If-Match", tag)
	if first.Status != http.StatusAccepted || second.Status != http.StatusPreconditionFailed {
		t.Errorf("two changes of one revision: %d, %d: %s", first.Status, second.Status, second.Body)
	}
	if p := second.Problem(t); p.Cluster != id || p.Code != "WRITE_CONFLICT" {
		t.Errorf("problem %+v", p)
	}
	if r := m.As("uma", "POST", path+"/stop", nil, "If-Match", tag); r.Status != http.StatusPreconditionFailed {
		t.Errorf("an action for an old revision: %d", r.Status)
	}
}

// A merge patch changes only the fields it contains, null resets to the default, unknown fields are refused.
func TestPatchOfACluster(t *testing.T) {
	m := servertest.NewClusters(t)
	id := m.Create("uma", "blue").Cluster.ID
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
		m.Put(id, cluster.Running)
		r := m.As("uma", "PATCH", "/v1/clusters/"+id, c.patch, "If-Match", "*", "Content-Type", "application/merge-patch+json")
		if r.Status != c.want {
			t.Errorf("%s: %d %s", c.patch, r.Status, r.Body)
		}
		if b, _ := m.Records.Record(t.Context(), id); c.check != nil && !c.check(&b.Cluster) {
			t.Errorf("%s: %+v", c.patch, b.Cluster)
		}
	}
}

// Requests with the same Idempotency-Key create one cluster, even if the stored answer was lost with the server.
func TestOneKeyIsOneCluster(t *testing.T) {
	keys := &struct{ idempotency.Store }{idempotency.NewMemory()}
	m := servertest.NewClusters(t, func(o *server.Options) { o.Idempotency = keys })
	body := map[string]any{"name": "blue", "zone": "one", "offering": "one", "size": 1}
	first := m.As("uma", "POST", "/v1/clusters", body, "Idempotency-Key", "k")
	keys.Store = idempotency.NewMemory() // a restart before the answer was stored
	again := m.As("uma", "POST", "/v1/clusters", body, "Idempotency-Key", "k")
	var a, b servertest.Accepted
	first.Into(t, &a)
	again.Into(t, &b)
	if a.Cluster.ID != b.Cluster.ID || a.Operation.ID != b.Operation.ID || again.Status != http.StatusAccepted {
		t.Errorf("%s and %s", first.Body, again.Body)
	}
	if _, total, _ := m.Records.List(t.Context(), cluster.ClusterQuery{Scope: cluster.Scope{All: true}}); total != 1 {
		t.Errorf("%d clusters", total)
	}
	if r := m.As("eve", "POST", "/v1/clusters", body, "Idempotency-Key", "k"); r.Status != http.StatusAccepted {
		t.Errorf("the key of another account: %d %s", r.Status, r.Body)
	}
}

// If a cluster is destroyed between two pages, each of the others is still listed
// exactly once.
func TestPagesOfClustersUnderChange(t *testing.T) {
	m := servertest.NewClusters(t)
	for i := range 9 {
		m.Create("uma", fmt.Sprintf("c%d", i))
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
		m.As("uma", "GET", "/v1/clusters?limit=3&cursor="+cursor, nil).Into(t, &page)
		for _, c := range page.Items {
			names = append(names, c.Name)
			if c.Existing == nil || *c.Existing != 0 {
				t.Errorf("%s has no workers yet: %v", c.Name, c.Existing)
			}
		}
		for _, c := range page.Items[len(page.Items)-2:] { // the last one, at the position of the cursor, and its predecessor
			b, err := m.Records.Record(t.Context(), c.ID)
			if err != nil {
				t.Fatal(err)
			}
			b.Cluster.State = cluster.Destroyed
			if err := m.Records.Commit(t.Context(), &cluster.Change{Cluster: &b.Cluster}); err != nil {
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
	m := servertest.NewClusters(t)
	for i := range 5 {
		m.Create("uma", fmt.Sprintf("c%d", i))
	}
	var names []string
	for cursor := ""; ; {
		var page struct {
			Items []struct{ Name string }
			Total int
			Next  string
		}
		m.As("uma", "GET", "/v1/clusters?limit=2&cursor="+cursor, nil).Into(t, &page)
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
		if r := m.As("uma", "GET", "/v1/clusters?cursor="+foreign, nil); r.Status != http.StatusBadRequest {
			t.Errorf("cursor %s of somebody else: %d", foreign, r.Status)
		}
	}
	if r := m.As("uma", "GET", "/v1/clusters?limit=501", nil); r.Status != http.StatusUnprocessableEntity {
		t.Errorf("a limit of 501: %d", r.Status)
	}
	if r := m.As("uma", "POST", "/v1/clusters", map[string]any{"name": "x", "zone": "one", "offering": "one", "size": 1, "color": "red"}); r.Status != http.StatusUnprocessableEntity {
		t.Errorf("an unknown field: %d", r.Status)
	}
}

// Secrets appear only in the answers to requests for them, and in no log.
func TestNoAnswerShowsASecret(t *testing.T) {
	m := servertest.NewClusters(t)
	r := m.As("uma", "POST", "/v1/clusters", map[string]any{"name": "blue", "zone": "one", "offering": "one", "size": 1,
		"registry": map[string]string{"username": "u", "password": "planted-password", "url": "https://registry.example", "email": "u@example.org"}})
	if r.Status != http.StatusAccepted {
		t.Fatal(string(r.Body))
	}
	var a servertest.Accepted
	r.Into(t, &a)
	m.Put(a.Cluster.ID, cluster.Running)
	d, err := m.Records.Details(t.Context(), a.Cluster.ID)
	if err != nil {
		t.Fatal(err)
	}
	config := m.As("uma", "GET", "/v1/clusters/"+a.Cluster.ID+"/config", nil)
	if !strings.Contains(string(config.Body), "planted-config") {
		t.Errorf("the configuration that was asked for: %s", config.Body)
	}
	var all strings.Builder
	all.Write(r.Body)
	for _, path := range []string{"", "/ID", "/ID/nodes", "/ID/resources", "/ID/drift", "/ID/history", "/ID/runs"} {
		all.Write(m.As("op", "GET", "/v1/clusters"+strings.ReplaceAll(path, "ID", a.Cluster.ID), nil).Body)
	}
	all.Write(m.As("uma", "GET", "/v1/operations/"+a.Operation.ID, nil).Body)
	all.WriteString(m.Log.String())
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
	m := servertest.NewClusters(t)
	body := map[string]any{"name": "blue", "zone": "one", "offering": "one", "size": 1, "diskGB": 40}
	var a servertest.Accepted
	m.As("uma", "POST", "/v1/clusters", body).Into(t, &a)
	b, err := m.Records.Record(t.Context(), a.Cluster.ID)
	if err != nil || a.Cluster.DiskGB != 40 || b.Cluster.DiskGB != 40 {
		t.Errorf("answered %d GB, stored %+v, %v", a.Cluster.DiskGB, b, err)
	}
	for key, value := range map[string]int{"diskGB": 0, "controlNodes": 0, "size": 0} {
		wrong := maps.Clone(body)
		wrong[key] = value
		if r := m.As("uma", "POST", "/v1/clusters", wrong); r.Status != http.StatusUnprocessableEntity || !strings.Contains(string(r.Body), key) {
			t.Errorf("%s 0: %d %s", key, r.Status, r.Body)
		}
	}
	body["diskGB"] = validate.MaxDiskGB + 1
	if r := m.As("uma", "POST", "/v1/plans", map[string]any{"create": body}); r.Status != http.StatusUnprocessableEntity {
		t.Errorf("a plan with a disk that is too large: %d %s", r.Status, r.Body)
	}
}

// Unknown states and kinds are refused with the list of known ones.
func TestUnknownStatesAndKindsAreRefused(t *testing.T) {
	m := servertest.NewClusters(t)
	all := namesOf(cluster.States)
	for path, one := range map[string]string{"/v1/clusters?state=Walking": all, "/v1/leaks?kind=disk": "vm, network"} {
		if r := m.As("op", "GET", path, nil); r.Status != http.StatusUnprocessableEntity || !strings.Contains(string(r.Body), one) {
			t.Errorf("%s: %d %s", path, r.Status, r.Body)
		}
	}
	for _, state := range cluster.States {
		if r := m.As("op", "GET", "/v1/clusters?state="+string(state), nil); r.Status != http.StatusOK {
			t.Errorf("%s: %d %s", state, r.Status, r.Body)
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
