package kubetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// Server is a minimal API server in memory: objects with versions, merge patches with a
// status subresource for runs, JSON patches of annotations, and watches. It checks
// neither schema nor rights; test/runstore runs the same tests on a real server.
type Server struct {
	mu      sync.Mutex
	version int64
	objects map[string]map[string]any // by resource/namespace/name
	log     []change
	changed chan struct{} // closed and replaced at each change
	http    *httptest.Server
}

type change struct {
	version  int64
	kind     string
	resource string
	object   map[string]any
}

// NewServer starts a server that stops with the test.
func NewServer(t testing.TB) *Server {
	s := &Server{version: 100, objects: map[string]map[string]any{}, changed: make(chan struct{})}
	s.http = httptest.NewServer(s)
	t.Cleanup(func() {
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// Config returns a client configuration for the server.
func (s *Server) Config() *rest.Config { return &rest.Config{Host: s.http.URL} }

// path is the target of a request.
type path struct{ group, resource, namespace, name, sub string }

func (p path) key(name string) string { return p.resource + "/" + p.namespace + "/" + name }

func parse(url string) path {
	parts := strings.Split(strings.Trim(url, "/"), "/")
	var p path
	if parts[0] == "api" {
		p.group, parts = parts[1], parts[2:]
	} else {
		p.group, parts = parts[1]+"/"+parts[2], parts[3:]
	}
	if len(parts) > 1 && parts[0] == "namespaces" {
		p.namespace, parts = parts[1], parts[2:]
	}
	for i, into := range []*string{&p.resource, &p.name, &p.sub} {
		if i < len(parts) {
			*into = parts[i]
		}
	}
	return p
}

// statusError is an error answer of the server.
type statusError struct {
	code            int
	reason, message string
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := parse(r.URL.Path)
	if r.Method == http.MethodGet && r.URL.Query().Get("watch") != "" {
		s.watch(w, r, p)
		return
	}
	var body any
	if r.Body != nil {
		dec := json.NewDecoder(r.Body)
		dec.UseNumber()
		_ = dec.Decode(&body) // a GET has no body
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out, code, fail := s.handle(r, p, body)
	if fail != nil {
		out, code = map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure", "code": fail.code, "reason": fail.reason, "message": fail.message}, fail.code
	} else if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
		out = map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": out["metadata"]}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(out) // the client may be gone
}

func (s *Server) handle(r *http.Request, p path, body any) (map[string]any, int, *statusError) {
	given, _ := body.(map[string]any)
	switch {
	case r.Method == http.MethodPost:
		return s.create(p, given)
	case r.Method == http.MethodGet && p.name == "":
		return s.list(r, p), http.StatusOK, nil
	case r.Method == http.MethodDelete && p.name == "":
		for _, o := range s.selected(r, p) {
			s.put("DELETED", p, o)
		}
		return map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"}, http.StatusOK, nil
	}
	old := s.objects[p.key(p.name)]
	if old == nil {
		return nil, 0, &statusError{http.StatusNotFound, "NotFound", p.resource + " " + p.name + " not found"}
	}
	switch r.Method {
	case http.MethodGet:
		return old, http.StatusOK, nil
	case http.MethodDelete:
		pre, _ := given["preconditions"].(map[string]any)
		for _, field := range []string{"uid", "resourceVersion"} {
			if want, set := pre[field]; set && want != meta(old)[field] {
				return nil, 0, &statusError{http.StatusConflict, "Conflict", "the precondition does not hold"}
			}
		}
		s.put("DELETED", p, copied(old))
		return old, http.StatusOK, nil
	case http.MethodPatch:
		return s.patch(r, p, old, body)
	}
	return nil, 0, &statusError{http.StatusMethodNotAllowed, "MethodNotAllowed", r.Method}
}

func (s *Server) create(p path, o map[string]any) (map[string]any, int, *statusError) {
	m := meta(o)
	name, _ := m["name"].(string)
	if s.objects[p.key(name)] != nil {
		return nil, 0, &statusError{http.StatusConflict, "AlreadyExists", p.resource + " " + name + " exists"}
	}
	if p.resource == "runs" {
		delete(o, "status")
	}
	p.name = name
	m["namespace"], m["generation"] = p.namespace, 1
	m["uid"] = fmt.Sprintf("00000000-0000-0000-0000-%012d", s.version)
	m["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	return s.put("ADDED", p, o), http.StatusCreated, nil
}

// put stores a new version and notifies the watches. s.mu is held.
func (s *Server) put(kind string, p path, o map[string]any) map[string]any {
	s.version++
	m := meta(o)
	m["resourceVersion"] = strconv.FormatInt(s.version, 10)
	name, _ := m["name"].(string)
	p.namespace, _ = m["namespace"].(string)
	if kind == "DELETED" {
		delete(s.objects, p.key(name))
	} else {
		s.objects[p.key(name)] = o
	}
	s.log = append(s.log, change{s.version, kind, p.resource, o})
	close(s.changed)
	s.changed = make(chan struct{})
	return o
}

func (s *Server) patch(r *http.Request, p path, old map[string]any, body any) (map[string]any, int, *statusError) {
	next := copied(old)
	if steps, isList := body.([]any); isList {
		if !applyJSONPatch(next, steps) {
			return nil, 0, &statusError{http.StatusUnprocessableEntity, "Invalid", "the test of the patch failed"}
		}
	} else {
		patch, _ := body.(map[string]any)
		if want, set := meta(patch)["resourceVersion"]; set && want != meta(old)["resourceVersion"] {
			return nil, 0, &statusError{http.StatusConflict, "Conflict", "the object has been modified"}
		}
		merged := merge(next, patch).(map[string]any)
		if p.resource == "runs" { // status is a subresource
			kept := "status"
			if p.sub == "status" {
				kept = "spec"
			}
			if value, present := old[kept]; present {
				merged[kept] = value
			} else {
				delete(merged, kept)
			}
		}
		next = merged
	}
	meta(next)["managedFields"] = nil
	if reflect.DeepEqual(next, old) {
		return old, http.StatusOK, nil
	}
	return s.put("MODIFIED", p, next), http.StatusOK, nil
}

// applyJSONPatch applies a JSON patch of annotations: test, replace, remove. It returns false if
// a test fails.
func applyJSONPatch(o map[string]any, steps []any) bool {
	annotations, _ := meta(o)["annotations"].(map[string]any)
	for _, step := range steps {
		step, _ := step.(map[string]any)
		where, _ := step["path"].(string)
		key := strings.NewReplacer("~1", "/", "~0", "~").Replace(strings.TrimPrefix(where, "/metadata/annotations/"))
		value, present := annotations[key]
		switch {
		case !present, step["op"] == "test" && value != step["value"]:
			return false
		case step["op"] == "replace":
			annotations[key] = step["value"]
		case step["op"] == "remove":
			delete(annotations, key)
		}
	}
	return true
}

func (s *Server) list(r *http.Request, p path) map[string]any {
	items := []any{}
	for _, o := range s.selected(r, p) {
		items = append(items, o)
	}
	kinds := map[string]string{"runs": "Run", "runhistories": "RunHistory", "configmaps": "ConfigMap", "leases": "Lease"}
	return map[string]any{"kind": kinds[p.resource] + "List", "apiVersion": p.group, "metadata": map[string]any{"resourceVersion": strconv.FormatInt(s.version, 10)}, "items": items}
}

// selected returns copies of the objects that a request matches. s.mu is held.
func (s *Server) selected(r *http.Request, p path) []map[string]any {
	q := r.URL.Query()
	var found []map[string]any
	for key, o := range s.objects {
		if strings.HasPrefix(key, p.resource+"/") && (p.namespace == "" || meta(o)["namespace"] == p.namespace) && matches(o, q.Get("labelSelector"), q.Get("fieldSelector")) {
			found = append(found, copied(o))
		}
	}
	return found
}

func matches(o map[string]any, labels, fields string) bool {
	have, _ := meta(o)["labels"].(map[string]any)
	for _, want := range strings.Split(labels, ",") {
		if key, value, ok := strings.Cut(want, "="); ok && have[key] != value {
			return false
		}
	}
	name, ok := strings.CutPrefix(fields, "metadata.name=")
	return !ok || meta(o)["name"] == name
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, p path) {
	q := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	send := func(kind string, o map[string]any) bool {
		return enc.Encode(map[string]any{"type": kind, "object": o}) == nil
	}
	after, _ := strconv.ParseInt(q.Get("resourceVersion"), 10, 64)
	s.mu.Lock()
	if q.Get("sendInitialEvents") == "true" {
		listed := s.list(r, p)
		after = s.version
		for _, item := range listed["items"].([]any) {
			send("ADDED", item.(map[string]any))
		}
		send("BOOKMARK", map[string]any{"kind": strings.TrimSuffix(listed["kind"].(string), "List"), "apiVersion": p.group, "metadata": map[string]any{
			"resourceVersion": strconv.FormatInt(after, 10), "annotations": map[string]any{"k8s.io/initial-events-end": "true"}}})
	}
	s.mu.Unlock()
	next := 0
	for {
		s.mu.Lock()
		changes, changed := s.log[next:], s.changed
		next = len(s.log)
		s.mu.Unlock()
		for _, c := range changes {
			if c.version > after && c.resource == p.resource && (p.namespace == "" || meta(c.object)["namespace"] == p.namespace) && matches(c.object, q.Get("labelSelector"), "") {
				if !send(c.kind, c.object) {
					return
				}
			}
		}
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func meta(o map[string]any) map[string]any {
	m, _ := o["metadata"].(map[string]any)
	if m == nil {
		m = map[string]any{}
	}
	return m
}

// copied returns a deep copy.
func copied(o map[string]any) map[string]any { return clone(o).(map[string]any) }

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[key] = clone(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = clone(value)
		}
		return out
	}
	return v
}

// merge applies a merge patch (RFC 7396).
func merge(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return clone(patch)
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	for key, value := range p {
		if value == nil {
			delete(t, key)
			continue
		}
		t[key] = merge(t[key], value)
	}
	return t
}
