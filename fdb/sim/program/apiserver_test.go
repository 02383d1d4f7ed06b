package program_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// apiServer is as much of an API server as a launcher needs: a pod and a node, with lists, watches and merge patches.
type apiServer struct {
	t      testing.TB
	server *httptest.Server

	mu          sync.Mutex
	annotations map[string]string
	labels      map[string]string // of the node
	version     int
	changed     chan struct{} // closed at each change
	done        chan struct{}
}

func newAPIServer(t testing.TB, labels map[string]string) *apiServer {
	a := &apiServer{t: t, annotations: map[string]string{}, labels: labels, changed: make(chan struct{}), done: make(chan struct{})}
	a.server = httptest.NewTLSServer(a)
	t.Cleanup(func() {
		close(a.done)
		a.server.CloseClientConnections()
		a.server.Close()
	})
	return a
}

// account mounts the service account below a root, and returns the variables of the pod.
func (a *apiServer) account(root string) []string {
	folder := root + "/var/run/secrets/kubernetes.io/serviceaccount/"
	write(a.t, folder+"token", "secret\n")
	write(a.t, folder+"ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.server.Certificate().Raw})))
	u, err := url.Parse(a.server.URL)
	if err != nil {
		a.t.Fatal(err)
	}
	return []string{
		"KUBERNETES_SERVICE_HOST=" + u.Hostname(), "KUBERNETES_SERVICE_PORT=" + u.Port(),
		"FDB_POD_NAMESPACE=test", "FDB_POD_NAME=sample-storage-1", "FDB_NODE_NAME=node-1",
	}
}

// set changes annotations of the pod; empty removes one.
func (a *apiServer) set(annotations map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.merge(annotations)
}

func (a *apiServer) merge(annotations map[string]string) {
	maps.Copy(a.annotations, annotations)
	maps.DeleteFunc(a.annotations, func(_, value string) bool { return value == "" })
	a.version++
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *apiServer) annotation(name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.annotations["foundationdb.org/"+name]
}

func (a *apiServer) object(kind string) string {
	labels, annotations := a.labels, map[string]string{}
	name := "node-1"
	if kind == "pods" {
		labels, annotations, name = nil, a.annotations, "sample-storage-1"
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"name": name, "labels": labels, "annotations": annotations, "resourceVersion": fmt.Sprint(a.version),
	}})
	if err != nil {
		a.t.Error(err)
	}
	return string(text)
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := "pods"
	if strings.Contains(r.URL.Path, "/nodes") {
		kind = "nodes"
	}
	if r.Header.Get("Authorization") != "Bearer secret" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	single := !strings.HasSuffix(r.URL.Path, "/"+kind)
	switch {
	case r.Method == http.MethodPatch && kind == "pods" && single:
		var patch struct {
			Metadata struct {
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		}
		if r.Header.Get("Content-Type") != "application/merge-patch+json" || json.NewDecoder(r.Body).Decode(&patch) != nil {
			w.WriteHeader(http.StatusUnsupportedMediaType)
			return
		}
		a.mu.Lock()
		a.merge(patch.Metadata.Annotations)
		text := a.object(kind)
		a.mu.Unlock()
		fmt.Fprint(w, text)
	case r.Method != http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case single:
		a.mu.Lock()
		text := a.object(kind)
		a.mu.Unlock()
		fmt.Fprint(w, text)
	case r.URL.Query().Get("fieldSelector") == "":
		a.t.Errorf("the launcher lists all %s", kind)
	case r.URL.Query().Get("watch") == "":
		a.mu.Lock()
		text := fmt.Sprintf(`{"metadata":{"resourceVersion":"%d"},"items":[%s]}`, a.version, a.object(kind))
		a.mu.Unlock()
		fmt.Fprint(w, text)
	default:
		a.watch(w, r, kind)
	}
}

func (a *apiServer) watch(w http.ResponseWriter, r *http.Request, kind string) {
	sent := r.URL.Query().Get("resourceVersion")
	for {
		a.mu.Lock()
		version, text, changed := fmt.Sprint(a.version), a.object(kind), a.changed
		a.mu.Unlock()
		if version != sent {
			sent = version
			fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`+"\n", text)
		}
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-a.done:
			return
		}
	}
}
