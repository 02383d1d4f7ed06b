package sandbox

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// begin is a sandbox whose cluster has settled.
func begin(t *testing.T) *Sandbox {
	t.Helper()
	s := New(Options{Start: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)})
	if made, left, err := s.Apply(t.Context(), Example); err != nil || len(made) != 1 || len(left) != 0 {
		t.Fatalf("made %v, left out %v, %v", made, left, err)
	}
	s.settle(t)
	return s
}

// settle lets time pass until the cluster is as its spec says.
func (s *Sandbox) settle(t *testing.T) {
	t.Helper()
	for range 2 * 3600 {
		if err := s.Skip(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		if c := s.cluster(t); c.Status.Generations.Reconciled == c.Generation && c.Status.Groups == "8/8" {
			return
		}
	}
	t.Fatalf("not settled within two hours: %+v", s.cluster(t).Status.Conditions)
}

const orders = "/apis/apps.foundationdb.org/v1beta2/namespaces/default/foundationdbclusters/orders"

func (s *Sandbox) cluster(t *testing.T) *v1beta2.FoundationDBCluster {
	t.Helper()
	c := &v1beta2.FoundationDBCluster{}
	s.call(t, http.MethodGet, orders, "", "", http.StatusOK, c)
	return c
}

func (s *Sandbox) pods(t *testing.T) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	s.call(t, http.MethodGet, "/api/v1/pods", "", "", http.StatusOK, &list)
	return list.Items
}

// call makes a request as on loopback. form is the content type.
func (s *Sandbox) call(t *testing.T, method, path, form, body string, code int, into any) string {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:7295"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", form)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	if w.Code != code {
		t.Fatalf("%s %s: %d %s, want %d", method, path, w.Code, w.Body, code)
	}
	if at, err := http.ParseTime(w.Header().Get("Date")); err != nil || at.Before(time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)) || at.Sub(s.Now()).Abs() > time.Second {
		t.Errorf("Date is %s, there it is %s", w.Header().Get("Date"), s.Now())
	}
	if into != nil {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatal(err)
		}
	}
	return w.Body.String()
}

const merge, strategic, jsonPatch = "application/merge-patch+json", "application/strategic-merge-patch+json", "application/json-patch+json"

// The example is that of the repository.
func TestExample(t *testing.T) {
	text, err := os.ReadFile("../../../examples/foundationdb/cluster.yaml")
	if err != nil || string(text) != string(Example) {
		t.Errorf("example.yaml is not examples/foundationdb/cluster.yaml: copy it, %v", err)
	}
}

// TestLife: the cluster of the example settles, takes a change, and is whole again after each fault that ends.
func TestLife(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.call(t, http.MethodPatch, orders, merge, `{"spec":{"processes":{"general":{"customParameters":["knob_min_trace_severity=20"]}}}}`, http.StatusOK, nil)
	s.settle(t)
	before := s.pods(t)
	storage := slices.IndexFunc(before, func(p corev1.Pod) bool { return strings.Contains(p.Name, "storage") })
	for _, a := range []Asked{
		{Name: "kill-pod", Target: before[storage].Name}, {Name: "crash", Target: "storage"}, {Name: "hang", Target: "log", For: "2m"}, {Name: "fail-pod", Target: "log"},
		{Name: "lose-node", Target: before[storage].Spec.NodeName, For: "3m"}, {Name: "late-lists", For: "1m"}, {Name: "stuck-movement", For: "1m"}, {Name: "cordon", Target: "node-1", For: "1m"},
	} {
		if err := s.Inject(a); err != nil {
			t.Fatalf("%+v: %v", a, err)
		}
		if err := s.Skip(t.Context(), 5*time.Minute); err != nil {
			t.Fatal(err)
		}
		s.settle(t)
	}
	if after := s.pods(t); len(after) != len(before) || after[storage].Name != before[storage].Name || after[storage].UID == before[storage].UID {
		t.Errorf("the pod %s was not made anew", before[storage].Name)
	}
	if v := s.world.Cluster().Violations(); len(v) > 0 {
		t.Errorf("invariants: %v", v)
	}
	if all := s.call(t, http.MethodGet, "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dorders,involvedObject.kind%3DFoundationDBCluster", "", "", http.StatusOK, nil); !strings.Contains(all, `"reason":"Configured"`) {
		t.Errorf("no Event of the new database: %s", all)
	}
}

// TestFaults: each fault can be injected, and ended by clear.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, f := range Faults() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			a := Asked{Name: f.Name, Target: map[string]string{OnGroup: "log", OnNode: "node-2"}[f.Target]}
			if err := s.Inject(a); err != nil {
				t.Fatal(err)
			}
			if err := s.Skip(t.Context(), 2*time.Minute); err != nil {
				t.Fatal(err)
			}
			if err := s.Inject(Asked{Name: Clear}); err != nil {
				t.Fatal(err)
			}
			s.settle(t)
		})
	}
}

// TestAPI: writes are checked as by an API server.
func TestAPI(t *testing.T) {
	t.Parallel()
	s := begin(t)
	version := s.cluster(t).ResourceVersion
	for name, c := range map[string]struct {
		method, path, form, body string
		code                     int
		says                     string
	}{
		"another version":    {http.MethodPatch, orders, merge, `{"metadata":{"resourceVersion":"1"},"spec":{"skip":true}}`, 409, `"reason":"Conflict"`},
		"a dry run":          {http.MethodPatch, orders + "?dryRun=All", merge, `{"spec":{"skip":true}}`, 200, `"skip":true`},
		"an unknown field":   {http.MethodPatch, orders + "?fieldValidation=Strict", merge, `{"spec":{"skipp":true}}`, 400, "skipp"},
		"a strategic patch":  {http.MethodPatch, orders, strategic, `{}`, 415, "does not understand"},
		"server-side apply":  {http.MethodPatch, orders, "application/apply-patch+yaml", `{}`, 415, "does not understand"},
		"nothing":            {http.MethodGet, orders + "x", "", "", 404, `"reason":"NotFound"`},
		"no such kind":       {http.MethodGet, "/api/v1/secrets", "", "", 404, "does not have"},
		"a second one":       {http.MethodPost, strings.TrimSuffix(orders, "/orders"), "application/json", `{"metadata":{"name":"other"}}`, 403, "one database"},
		"the same":           {http.MethodPost, strings.TrimSuffix(orders, "/orders"), "application/json", `{"metadata":{"name":"orders"}}`, 409, `"reason":"AlreadyExists"`},
		"another one's UID":  {http.MethodDelete, orders, "application/json", `{"preconditions":{"uid":"x"}}`, 409, "Conflict"},
		"protobuf":           {http.MethodPost, "/api/v1/namespaces/default/configmaps", "application/vnd.kubernetes.protobuf", "x", 415, "JSON only"},
		"an Event":           {http.MethodDelete, "/api/v1/namespaces/default/events/x", "", "", 405, "MethodNotAllowed"},
		"a shell":            {http.MethodPost, "/api/v1/namespaces/default/pods/" + s.pods(t)[0].Name + "/exec?command=ls", "", "", 400, "WebSocket"},
		"no fault":           {http.MethodPost, "/sandbox/faults", "application/json", `{"name":"earthquake"}`, 400, "no fault"},
		"no target":          {http.MethodPost, "/sandbox/faults", "application/json", `{"name":"crash"}`, 400, "needs a GROUP"},
		"a fault of a blink": {http.MethodPost, "/sandbox/faults", "application/json", `{"name":"crash","target":"log","for":"1m"}`, 400, "faults that last"},
		"too long":           {http.MethodPost, "/sandbox/skip", "application/json", `{"for":"1000h"}`, 400, "no time up to"},
	} {
		t.Run(name, func(t *testing.T) {
			if text := s.call(t, c.method, c.path, c.form, c.body, c.code, nil); !strings.Contains(text, c.says) {
				t.Errorf("%s, want %q", text, c.says)
			}
		})
	}
	if now := s.cluster(t).ResourceVersion; now != version {
		t.Errorf("what was refused has changed the object: %s, %s", version, now)
	}
	pod := "/api/v1/namespaces/default/pods/" + s.pods(t)[0].Name
	s.call(t, http.MethodPatch, pod, strategic, `{"metadata":{"labels":{"a":"b"}}}`, http.StatusOK, nil)
	s.call(t, http.MethodPatch, pod, jsonPatch, `[{"op":"add","path":"/metadata/labels/c","value":"d"}]`, http.StatusOK, nil)
	o := &corev1.Pod{}
	s.call(t, http.MethodGet, pod, "", "", http.StatusOK, o)
	delete(o.Labels, "a")
	body, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	s.call(t, http.MethodPut, pod, "application/json", string(body), http.StatusOK, o)
	if _, there := o.Labels["a"]; there || o.Labels["c"] != "d" {
		t.Errorf("labels are %v", o.Labels)
	}
	var found corev1.PodList
	s.call(t, http.MethodGet, "/api/v1/pods?labelSelector=c%3Dd", "", "", http.StatusOK, &found)
	if len(found.Items) != 1 || found.ResourceVersion == "" {
		t.Errorf("%d pods have the label, version %q", len(found.Items), found.ResourceVersion)
	}
}

// Pages in a browser may not reach a sandbox under another name.
func TestHost(t *testing.T) {
	s := New(Options{})
	for host, code := range map[string]int{"127.0.0.1:1": 200, "localhost": 200, "[::1]:2": 200, "evil.example": 403, "10.0.0.1:7295": 403} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/api", http.NoBody)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != code {
			t.Errorf("%s: %d, want %d", host, w.Code, code)
		}
	}
}

// TestTable: kubectl gets the columns of the CRD, with ages by the clock of the world.
func TestTable(t *testing.T) {
	t.Parallel()
	s := begin(t)
	if err := s.Skip(t.Context(), 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/apis/apps.foundationdb.org/v1beta2/foundationdbclusters", http.NoBody)
	r.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	var table metav1.Table
	if err := json.Unmarshal(w.Body.Bytes(), &table); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range table.ColumnDefinitions {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, " "); got != "Name Generation Reconciled Available FullReplication Version Groups Waiting Running Age" {
		t.Errorf("columns %s", got)
	}
	if len(table.Rows) != 1 {
		t.Fatalf("%d rows", len(table.Rows))
	}
	if cells := table.Rows[0].Cells; cells[0] != "orders" || cells[5] != "7.3.69" || cells[6] != "8/8" || cells[9] != "120m" {
		t.Errorf("cells %v", cells)
	}
}

// TestWatch: a watch tells each change after the version of a list, once, and ends with its caller.
func TestWatch(t *testing.T) {
	t.Parallel()
	s := begin(t)
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	var list corev1.PodList
	s.call(t, http.MethodGet, "/api/v1/pods", "", "", http.StatusOK, &list)
	path := "/api/v1/namespaces/default/pods/" + list.Items[0].Name
	s.call(t, http.MethodPatch, path, merge, `{"metadata":{"labels":{"x":"1"}}}`, http.StatusOK, nil)
	s.call(t, http.MethodPatch, path, merge, `{"metadata":{"labels":{"x":"2"}}}`, http.StatusOK, nil)
	s.call(t, http.MethodDelete, path, "application/json", "", http.StatusOK, nil)
	if err := s.Skip(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/v1/pods?watch=true&labelSelector=x&resourceVersion="+list.ResourceVersion, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var seen []string
	for in := json.NewDecoder(answer.Body); len(seen) == 0 || seen[len(seen)-1] != string(watch.Deleted); {
		var e struct {
			Type   string
			Object corev1.Pod
		}
		if err := in.Decode(&e); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, e.Type)
		if e.Object.Name != list.Items[0].Name || e.Object.Kind != "Pod" {
			t.Errorf("%s of %s %s", e.Type, e.Object.Kind, e.Object.Name)
		}
	}
	if seen[0] != string(watch.Added) || seen[1] != string(watch.Modified) {
		t.Errorf("the watch has told %v", seen)
	}
	cancel()
	if _, err := io.ReadAll(answer.Body); err == nil {
		t.Error("the watch has ended by itself")
	}
	s.call(t, http.MethodGet, "/api/v1/pods?watch=true&sendInitialEvents=true", "", "", http.StatusUnprocessableEntity, nil)
	s.history.entries, s.history.dropped = s.history.entries[10:], 10
	s.call(t, http.MethodGet, "/api/v1/pods?watch=true&resourceVersion=1", "", "", http.StatusGone, nil)
}
