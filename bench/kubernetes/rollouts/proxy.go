package rollouts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// call is one request of the operator that is no watch.
type call struct {
	at             time.Time
	what           string // method and resource
	path           string
	sent, received int64 // bytes of the bodies
}

// events reports whether a call writes an Event.
func (c call) events() bool { return strings.HasSuffix(c.what, " events") }

// leases reports whether a call is for a Lease.
func (c call) leases() bool { return strings.HasSuffix(c.what, " leases") }

// proxy counts the requests between the operator and the API server, and the bytes of their bodies.
type proxy struct {
	kubeconfig string
	server     *http.Server

	mu    sync.Mutex
	calls []call
}

type callKey struct{}

// startProxy starts a proxy whose clients are the user of a kubeconfig file.
func (w *world) startProxy(kubeconfig string) (*proxy, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	x := &proxy{kubeconfig: filepath.Join(w.plane.Dir(), "counted.kubeconfig")}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // a stopped operator breaks its connections
		ModifyResponse: func(resp *http.Response) error {
			if c, ok := resp.Request.Context().Value(callKey{}).(*call); ok {
				resp.Body = &countedBody{ReadCloser: resp.Body, proxy: x, call: c}
			}
			return nil
		},
	}
	x.server = &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: forward.ErrorLog, Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		r, err := x.begin(r)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(out, r)
	})}
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"proxy","clusters":[{"name":"proxy","cluster":{"server":"http://%s"}}],`+
		`"contexts":[{"name":"proxy","context":{"cluster":"proxy","user":"proxy"}}],"users":[{"name":"proxy","user":{}}]}`, listener.Addr())
	if err := os.WriteFile(x.kubeconfig, []byte(text), 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = x.server.Serve(listener) // until it is closed
	}()
	w.plane.OnStop(func() {
		_ = x.server.Close()
		<-served
	})
	return x, nil
}

// begin counts a request, unless it opens a watch.
func (x *proxy) begin(r *http.Request) (*http.Request, error) {
	if watching := r.URL.Query().Get("watch"); watching == "true" || watching == "1" {
		return r, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	c := &call{at: time.Now(), what: r.Method + " " + resource(r.URL.Path), path: r.URL.RequestURI(), sent: int64(len(body))}
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r, nil
}

// countedBody counts an answer, and notes the call when it has been read.
type countedBody struct {
	io.ReadCloser
	proxy *proxy
	call  *call
	once  sync.Once
}

// Read implements io.Reader.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.call.received += int64(n)
	return n, err
}

// Close implements io.Closer.
func (b *countedBody) Close() error {
	b.once.Do(func() {
		b.proxy.mu.Lock()
		defer b.proxy.mu.Unlock()
		b.proxy.calls = append(b.proxy.calls, *b.call)
	})
	return b.ReadCloser.Close()
}

// take returns the calls so far, and forgets them.
func (x *proxy) take() []call {
	x.mu.Lock()
	defer x.mu.Unlock()
	calls := x.calls
	x.calls = nil
	return calls
}

// resource is the resource in a path, with its subresource.
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

// cost is what calls cost.
type cost struct {
	requests, sent, received float64
	largestSent              float64 // status writes
	by                       map[string]part
}

// part is the share of one kind of request: how many, and the bytes of their bodies.
type part struct {
	n              int
	sent, received int64
}

// costOf sums the calls up that neither write Events nor ask for leases.
func costOf(calls []call) cost {
	c := cost{by: map[string]part{}}
	for _, call := range calls {
		if call.events() || call.leases() {
			continue
		}
		c.requests++
		c.sent += float64(call.sent)
		c.received += float64(call.received)
		p := c.by[call.what]
		c.by[call.what] = part{p.n + 1, p.sent + call.sent, p.received + call.received}
		if call.what == "PATCH rollouts/status" {
			c.largestSent = max(c.largestSent, float64(call.sent))
		}
	}
	return c
}

// sumOf adds costs up.
func sumOf(costs []cost) cost {
	sum := cost{by: map[string]part{}}
	for _, c := range costs {
		sum.requests, sum.sent, sum.received = sum.requests+c.requests, sum.sent+c.sent, sum.received+c.received
		sum.largestSent = max(sum.largestSent, c.largestSent)
		for what, p := range c.by {
			was := sum.by[what]
			sum.by[what] = part{was.n + p.n, was.sent + p.sent, was.received + p.received}
		}
	}
	return sum
}
