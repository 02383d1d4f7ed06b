package controlplane

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
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
)

// Proxy is between one program and the API server: it records each request, and can hold
// it, refuse it, lose its answer, or delay watches. The program uses the kubeconfig file
// of Kubeconfig, with all rights.
type Proxy struct {
	kubeconfig string
	server     *http.Server

	mu     sync.Mutex
	rule   func(*Call) Reaction
	calls  []Call
	lag    time.Duration
	frozen bool
	open   map[*delayedWatch]bool
}

// Call is one request of the program.
type Call struct {
	Verb                           string // get, list, watch, create, update, patch, delete
	Resource, Sub, Namespace, Name string
	Body                           []byte // request body
	At                             time.Time
	Code                           int   // status of the API server's answer; 0: no answer
	Received                       int64 // bytes of the body of the answer, but for watches
	Answered                       bool
	number                         int
}

// Writes reports whether the request may change something.
func (c *Call) Writes() bool {
	switch c.Verb {
	case "create", "update", "patch", "delete":
		return true
	}
	return false
}

// String is the verb and the object.
func (c Call) String() string {
	what := c.Resource
	for _, part := range []string{c.Name, c.Sub} {
		if part != "" {
			what += "/" + part
		}
	}
	text := c.Verb + " " + what
	if c.Code != 0 {
		text += " " + strconv.Itoa(c.Code)
	}
	return text
}

// Reaction is how the proxy handles a request. The zero value forwards it.
type Reaction struct {
	// Before is called before the API server sees the request; it may block.
	Before func()
	// Drop keeps the request from the API server.
	Drop bool
	// After is called when the API server has answered, before the program gets the answer.
	After func(code int)
	// Answer replaces the real answer.
	Answer *metav1.Status
	// Lose breaks the connection without an answer.
	Lose bool
}

// NewProxy starts a proxy that ends with the plane. Its clients are administrators.
func (p *Plane) NewProxy() (*Proxy, error) { return p.NewProxyAs(p.config) }

// NewProxyAs starts a proxy whose clients are the user of a configuration.
func (p *Plane) NewProxyAs(config *rest.Config) (*Proxy, error) {
	transport, err := rest.TransportFor(p.bound(config))
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
	x := &Proxy{kubeconfig: filepath.Join(p.slot.dir, "proxy-"+strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)+".kubeconfig")}
	forward := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1,
		ErrorLog:       log.New(io.Discard, "", 0), // a killed program breaks its connections
		ModifyResponse: x.onAnswer,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	x.server = &http.Server{Handler: x.handler(forward), ErrorLog: log.New(io.Discard, "", 0)}
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
	p.OnStop(func() {
		_ = x.server.Close()
		<-served
	})
	return x, nil
}

// Kubeconfig returns the path of the kubeconfig file of the proxy.
func (x *Proxy) Kubeconfig() string { return x.kubeconfig }

// Intercept sets the rule for all further requests; nil: they pass. The rule is called for
// one request at a time, and must not use the proxy.
func (x *Proxy) Intercept(rule func(*Call) Reaction) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.rule = rule
}

// Lag delays all watches from now on.
func (x *Proxy) Lag(d time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lag = d
}

// Freeze stops all watches until it is called with false.
func (x *Proxy) Freeze(frozen bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.frozen = frozen
}

// Break ends all open watches without a last word, as an API server that dies does.
func (x *Proxy) Break() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for l := range x.open {
		l.breakOff()
	}
}

// Calls returns the requests so far, oldest first.
func (x *Proxy) Calls() []Call {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]Call(nil), x.calls...)
}

type callKey struct{}

func (x *Proxy) handler(forward http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := callOf(r)
		if call.Writes() {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			call.Body, r.Body = body, io.NopCloser(bytes.NewReader(body))
		}
		x.mu.Lock()
		call.At, call.number = time.Now(), len(x.calls)
		x.calls = append(x.calls, *call)
		act := Reaction{}
		if x.rule != nil {
			act = x.rule(call)
		}
		x.mu.Unlock()
		if act.Before != nil {
			act.Before()
		}
		ctx := context.WithValue(r.Context(), callKey{}, call)
		switch {
		case act.Drop:
		case act.Lose, act.Answer != nil:
			forward.ServeHTTP(&bufferedResponse{header: http.Header{}}, r.WithContext(context.WithoutCancel(ctx)))
		case act.After != nil:
			kept := &bufferedResponse{header: http.Header{}}
			forward.ServeHTTP(kept, r.WithContext(context.WithoutCancel(ctx)))
			act.After(kept.code)
			for key, values := range kept.header {
				w.Header()[key] = values
			}
			w.WriteHeader(kept.code)
			_, _ = w.Write(kept.body.Bytes()) // the client may be gone
			return
		default:
			forward.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		if act.After != nil && !act.Drop {
			act.After(call.Code)
		}
		if act.Answer == nil {
			panic(http.ErrAbortHandler)
		}
		writeStatus(w, act.Answer)
	})
}

// writeStatus answers with a status.
func writeStatus(w http.ResponseWriter, s *metav1.Status) {
	s.Kind, s.APIVersion, s.Status = "Status", "v1", metav1.StatusFailure
	body, err := json.Marshal(s)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(s.Details.RetryAfterSeconds)))
	}
	w.WriteHeader(int(s.Code))
	_, _ = w.Write(body) // the client may be gone
}

// bufferedResponse holds back an answer.
type bufferedResponse struct {
	header http.Header
	body   bytes.Buffer
	code   int
}

func (b *bufferedResponse) Header() http.Header         { return b.header }
func (b *bufferedResponse) Write(p []byte) (int, error) { return b.body.Write(p) }
func (b *bufferedResponse) WriteHeader(code int)        { b.code = code }

// onAnswer records the answer of the API server, and delays watches.
func (x *Proxy) onAnswer(resp *http.Response) error {
	call, _ := resp.Request.Context().Value(callKey{}).(*Call)
	if call == nil {
		return nil
	}
	x.mu.Lock()
	call.Code, call.Answered = resp.StatusCode, true
	x.calls[call.number].Code, x.calls[call.number].Answered = resp.StatusCode, true
	x.mu.Unlock()
	if call.Verb == "watch" && resp.StatusCode == http.StatusOK {
		resp.Body = x.delayed(resp.Body)
		return nil
	}
	resp.Body = &countedBody{ReadCloser: resp.Body, add: func(n int) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.calls[call.number].Received += int64(n)
	}}
	return nil
}

// countedBody counts the bytes of an answer.
type countedBody struct {
	io.ReadCloser
	add func(n int)
}

// Read implements io.Reader.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.add(n)
	return n, err
}

// callOf parses a request as Kubernetes does.
func callOf(r *http.Request) *Call {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	c := &Call{}
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		parts = parts[3:]
	default: // discovery
		c.Verb, c.Name = "get", r.URL.Path
		return c
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		c.Namespace, parts = parts[1], parts[2:]
	}
	for i, into := range []*string{&c.Resource, &c.Name, &c.Sub} {
		if i < len(parts) {
			*into = parts[i]
		}
	}
	switch r.Method {
	case http.MethodPost:
		c.Verb = "create"
	case http.MethodPut:
		c.Verb = "update"
	case http.MethodPatch:
		c.Verb = "patch"
	case http.MethodDelete:
		c.Verb = "delete"
	default:
		c.Verb = "get"
		if watching := r.URL.Query().Get("watch"); watching == "true" || watching == "1" {
			c.Verb = "watch"
		} else if c.Name == "" {
			c.Verb = "list"
		}
	}
	return c
}
