package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// trace records the successful writes, to replay them.
type trace struct {
	mu     sync.Mutex
	on     bool
	writes []operation
}

// operation is one write, with its namespace and object.
type operation struct {
	method, path, query, content, accept string
	object                               string // namespace, resource and name
	cluster                              string
	body                                 []byte
}

func newTrace() *trace { return &trace{} }

func (t *trace) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.on = true
}

func (t *trace) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.writes)
}

// config returns a configuration whose writes are recorded.
func (t *trace) config(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &recorder{t, next} })
	return config
}

// recorder is the transport that records.
type recorder struct {
	t    *trace
	next http.RoundTripper
}

// WrappedRoundTripper returns the underlying transport for client-go.
func (h *recorder) WrappedRoundTripper() http.RoundTripper { return h.next }

// RoundTrip implements http.RoundTripper.
func (h *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet || req.Body == nil {
		return h.next.RoundTrip(req)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body.Close()
	req = req.Clone(req.Context())
	req.Body = io.NopCloser(bytes.NewReader(body))
	resp, err := h.next.RoundTrip(req)
	if err == nil && resp.StatusCode < 300 {
		h.t.mu.Lock()
		if h.t.on {
			h.t.writes = append(h.t.writes, operation{method: req.Method, path: req.URL.Path, query: req.URL.RawQuery,
				content: req.Header.Get("Content-Type"), accept: req.Header.Get("Accept"), body: body})
		}
		h.t.mu.Unlock()
	}
	return resp, err
}

// replayResult is the cost of a replay.
type replayResult struct {
	took   time.Duration
	writes int
	spent  usage
}

var (
	clusterName   = regexp.MustCompile(`c-\d{6}`)
	versionInJSON = regexp.MustCompile(`"resourceVersion":"\d+"`)
	uidInJSON     = regexp.MustCompile(`"uid":"([0-9a-f-]{36})"`)
)

// sort groups the writes of a namespace by cluster, in their order. It leaves out
// deletions and writes that belong to no cluster, such as the leases of workers.
func (t *trace) sort(space string) map[string][]operation {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := map[string]string{} // object name to cluster name
	all := map[string][]operation{}
	for _, w := range t.writes {
		if !strings.Contains(w.path, "/namespaces/"+space+"/") || w.method == http.MethodDelete {
			continue
		}
		_, below, _ := strings.Cut(w.path, "/namespaces/")
		parts := strings.Split("namespaces/"+strings.Trim(below, "/"), "/")
		w.object = parts[2]
		if len(parts) > 3 {
			w.object += "/" + parts[3]
		} else {
			w.object += "/" + nameIn(w.body)
		}
		if name := clusterName.Find(append([]byte(w.path), w.body...)); name != nil && names[w.object] == "" {
			names[w.object] = string(name)
		}
		if w.cluster = names[w.object]; w.cluster != "" {
			all[w.cluster] = append(all[w.cluster], w)
		}
	}
	return all
}

func nameIn(body []byte) string {
	var o struct {
		Metadata struct{ Name string } `json:"metadata"`
	}
	_ = json.Unmarshal(body, &o) // a body of another form has no name
	return o.Metadata.Name
}

// replay sends the trace of a namespace to another one: a bare client creates the clusters
// and repeats the writes of each in order, for all clusters concurrently.
func (t *trace) replay(ctx context.Context, p *plane, space string, clusters int) (replayResult, error) {
	other, _, err := p.namespace(ctx)
	if err != nil {
		return replayResult{}, err
	}
	transport, err := rest.TransportFor(p.config)
	if err != nil {
		return replayResult{}, err
	}
	client := &http.Client{Transport: transport}
	all := t.sort(space)
	if len(all) != clusters {
		return replayResult{}, fmt.Errorf("the trace has writes of %d of %d clusters", len(all), clusters)
	}
	began, before := time.Now(), used()
	errs := make(chan error, len(all))
	total := 0
	for name, writes := range all {
		total += len(writes) + 1
		go func() {
			s := &sender{client: client, host: p.config.Host, from: space, to: other, versions: map[string]string{}}
			errs <- s.send(ctx, name, writes)
		}()
	}
	for range all {
		if e := <-errs; e != nil && err == nil {
			err = e
		}
	}
	return replayResult{took: time.Since(began), writes: total, spent: used().since(before)}, err
}

// sender sends the writes of one cluster.
type sender struct {
	client   *http.Client
	host     string
	from, to string
	versions map[string]string // newest resource version of each object
	was, is  []byte            // UID of the cluster in the trace and now
}

func (s *sender) send(ctx context.Context, name string, writes []operation) error {
	cluster := operation{method: http.MethodPost, path: "/apis/pawl.dev/v1alpha1/namespaces/" + s.from + "/sharedstorageclusters", object: "sharedstorageclusters/" + name,
		content: "application/json", body: fmt.Appendf(nil, `{"apiVersion":"pawl.dev/v1alpha1","kind":"SharedStorageCluster","metadata":{"name":%q},"spec":{"engine":{"type":"postgres","version":"15"},"class":{"name":"small"},"readers":2,"storage":{"size":"1Gi","onDelete":"Delete"},"durability":"strict","ha":{"enabled":true}}}`, name)}
	for _, w := range writes {
		if uid := uidInJSON.FindSubmatch(w.body); uid != nil { // the first UID is that of the cluster
			s.was = uid[1]
			break
		}
	}
	for _, w := range append([]operation{cluster}, writes...) {
		if err := s.one(ctx, w); err != nil {
			return fmt.Errorf("%s %s: %w", w.method, w.path, err)
		}
	}
	return nil
}

func (s *sender) one(ctx context.Context, w operation) error {
	body := bytes.ReplaceAll(w.body, []byte(s.from), []byte(s.to))
	if len(s.is) > 0 && len(s.was) > 0 {
		body = bytes.ReplaceAll(body, s.was, s.is)
	}
	if version := s.versions[w.object]; version != "" {
		body = versionInJSON.ReplaceAll(body, []byte(`"resourceVersion":"`+version+`"`))
	}
	url := strings.TrimSuffix(s.host, "/") + strings.Replace(w.path, s.from, s.to, 1)
	if w.query != "" {
		url += "?" + w.query
	}
	req, err := http.NewRequestWithContext(ctx, w.method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", w.content)
	req.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s: %s\n%s", resp.Status, answer, body)
	}
	var meta struct {
		Metadata struct{ ResourceVersion, UID string } `json:"metadata"`
	}
	if err := json.Unmarshal(answer, &meta); err != nil {
		return err
	}
	if len(s.is) == 0 { // the cluster is created first
		s.is = []byte(meta.Metadata.UID)
	}
	s.versions[w.object] = meta.Metadata.ResourceVersion
	return nil
}
