// Package kubetest has helpers for tests and benchmarks of the Kubernetes store: an HTTP
// transport that counts requests and injects failures, and a minimal API server.
package kubetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Failure is a failure that a FaultyTransport injects into a request.
type Failure string

// The failures. With Lost, Late and Broken the server executes the request.
const (
	Conflict Failure = "conflict"       // 409; only to writes that name a version
	Busy     Failure = "429"            // too many requests
	Broken   Failure = "500"            // executed, answered with 500
	Refused  Failure = "500 refused"    // not executed, answered with 500
	Late     Failure = "time-out"       // executed, answered with 504
	Lost     Failure = "lost answer"    // executed, the connection breaks
	Cut      Failure = "cut connection" // not executed, the connection breaks
	Full     Failure = "full"           // not executed, etcd has no space
	Large    Failure = "too large"      // not executed, the object is too large for etcd
)

// Failures are the failures that FaultyTransport.Break injects.
var Failures = []Failure{Conflict, Busy, Broken, Refused, Late, Lost, Cut}

// Count counts the requests of a FaultyTransport.
type Count struct {
	Requests           int64 // without watches
	Sent, Received     int64 // bytes of their bodies
	Watches, WatchSent int64 // opened watches, and bytes received from them
	Broken             int64
	By                 map[string]int64 // requests by verb and resource
}

// FaultyTransport is an HTTP transport between a client and the API server. It counts
// requests and injects failures.
type FaultyTransport struct {
	mu           sync.Mutex
	count        Count
	failureShare float64
	full         bool
	random       *rand.Rand
	before       func(*http.Request) *Failure
}

// NewFaultyTransport returns a transport whose random failures are determined by the seed.
func NewFaultyTransport(seed uint64) *FaultyTransport {
	return &FaultyTransport{random: rand.New(rand.NewPCG(seed, 7)), count: Count{By: map[string]int64{}}}
}

// Config returns a copy of config whose requests go through the transport.
func (w *FaultyTransport) Config(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &roundTripper{transport: w, next: next} })
	return config
}

// Break injects one of Failures into a share of the requests, chosen at random; 0 ends it.
func (w *FaultyTransport) Break(share float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failureShare = share
}

// Fill makes every write fail as on a full etcd; false ends it.
func (w *FaultyTransport) Fill(full bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.full = full
}

// Next sets a function that returns the failure of a request; nil, or a nil result: none.
func (w *FaultyTransport) Next(f func(*http.Request) *Failure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = f
}

// Take returns the counts and resets them.
func (w *FaultyTransport) Take() Count {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.count
	w.count = Count{By: map[string]int64{}}
	return c
}

// roundTripper is the RoundTripper of one configuration.
type roundTripper struct {
	transport *FaultyTransport
	next      http.RoundTripper
}

// WrappedRoundTripper lets client-go find the wrapped transport.
func (l *roundTripper) WrappedRoundTripper() http.RoundTripper { return l.next }

// RoundTrip implements http.RoundTripper.
func (l *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	w := l.transport
	if req.URL.Query().Get("watch") != "" {
		resp, err := l.next.RoundTrip(req)
		if err == nil {
			w.mu.Lock()
			w.count.Watches++
			w.mu.Unlock()
			resp.Body = &counted{ReadCloser: resp.Body, add: func(n int) {
				w.mu.Lock()
				w.count.WatchSent += int64(n)
				w.mu.Unlock()
			}}
		}
		return resp, err
	}
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body.Close()
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	failure := w.decide(req, body)
	switch failure {
	case Conflict:
		return answer(req, http.StatusConflict, "Conflict", "the object has been modified (injected)"), nil
	case Busy:
		resp := answer(req, http.StatusTooManyRequests, "TooManyRequests", "too many requests (injected)")
		resp.Header.Set("Retry-After", "1")
		return resp, nil
	case Refused:
		return answer(req, http.StatusInternalServerError, "InternalError", "refused (injected)"), nil
	case Full:
		return answer(req, http.StatusInternalServerError, "InternalError", "etcdserver: mvcc: database space exceeded"), nil
	case Large:
		return answer(req, http.StatusInternalServerError, "InternalError", "etcdserver: request is too large"), nil
	case Cut:
		return nil, errors.New("connection reset by peer (injected)")
	}
	resp, err := l.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	w.mu.Lock()
	w.count.Received += int64(len(data))
	w.mu.Unlock()
	switch failure {
	case Broken:
		return answer(req, http.StatusInternalServerError, "InternalError", "broken after it was carried out (injected)"), nil
	case Late:
		return answer(req, http.StatusGatewayTimeout, "Timeout", "it took too long (injected)"), nil
	case Lost:
		return nil, fmt.Errorf("the answer was lost (injected): %w", io.ErrUnexpectedEOF)
	}
	return resp, nil
}

// decide counts a request and returns its failure; "": none.
func (w *FaultyTransport) decide(req *http.Request, body []byte) Failure {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count.Requests++
	w.count.Sent += int64(len(body))
	w.count.By[req.Method+" "+resource(req.URL.Path)]++
	writes := req.Method != http.MethodGet
	if w.before != nil {
		if t := w.before(req); t != nil {
			w.count.Broken++
			return *t
		}
	}
	if w.full && writes {
		return Full
	}
	if w.failureShare == 0 || w.random.Float64() >= w.failureShare {
		return ""
	}
	t := Failures[w.random.IntN(len(Failures))]
	if t == Conflict && !bytes.Contains(body, []byte("resourceVersion")) {
		t = Refused
	}
	w.count.Broken++
	return t
}

// resource returns the resource in a path, with its subresource.
func resource(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, part := range parts {
		if part == "namespaces" && i+2 < len(parts) {
			rest := parts[i+2:]
			if len(rest) > 2 {
				return rest[0] + "/" + rest[2]
			}
			return rest[0]
		}
	}
	return parts[len(parts)-1]
}

func answer(req *http.Request, code int, reason, message string) *http.Response {
	data, _ := json.Marshal(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message})
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data)), ContentLength: int64(len(data))}
}

type counted struct {
	io.ReadCloser
	add func(int)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.add(n)
	return n, err
}

// Retry repeats call until it succeeds or ctx ends, as a caller of a store does after an
// injected failure.
func Retry(ctx context.Context, call func() error) error {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		err := call()
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}
