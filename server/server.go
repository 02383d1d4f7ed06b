// Package server is the HTTP API of the engine, the objects and the clusters: `/v1`, health and metrics on one listener.
//
//	request ─▶ recover ─▶ host and origin ─▶ caller ─▶ body and slot ─▶ Idempotency-Key ─▶ route ─▶ engine, objects
//	              │                                                                           │
//	              └──────────────── problem details: code, class, remedy ◀────────────────────┘
//
// It listens on loopback by default. On other addresses it does not start without a
// token or an account.
package server

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/workflow"
)

// Options of a server. Only Engine is required.
type Options struct {
	Engine  *workflow.Engine
	Objects control.Objects // nil: objects are NOT_SERVED
	Version string          // of the program, shown by /healthz and /v1/me

	Listen   string // default 127.0.0.1:7295; on a loopback host the server needs no token
	CertFile string // with KeyFile: TLS
	KeyFile  string
	Hosts    []string      // further host names that requests may name on loopback, as behind a proxy
	Tokens   *Tokens       // the operator's; nil: none
	Reviewer TokenReviewer // of the accounts' tokens; nil: none
	// Sessions are the keys of the console's sessions. Servers that share them share
	// sessions. The first signs, all are valid. None: a random key, and a restart signs
	// everyone out.
	Sessions  [][]byte
	SignedOut SignedOut // nil: in the memory of this process

	Clusters *service.Service // nil: container clusters are NOT_SERVED
	Accounts *account.Service // accounts, domains, tokens and keys, and their routes; nil: none

	PlanObject func(ctx context.Context, object control.Object) (json.RawMessage, error)
	// Kinds returns the served kinds of objects, for commands that check before they apply. nil: NOT_SERVED.
	Kinds       func() ([]driver.ServedKind, error)
	Idempotency Idempotency // default: in memory
	Notifier    *Notifier   // wakes event streams; nil: they only poll
	Health      func(ctx context.Context) error
	Metrics     http.Handler            // nil: no /metrics
	Console     http.Handler            // serves all other paths; nil: they are not found
	Observe     func(Observation)       // is called after each answered request
	Routes      func(api huma.API)      // further routes of /v1
	Mount       map[string]http.Handler // further paths, such as /client/api; the handlers authenticate, then call Admit
	Logger      *slog.Logger

	MaxBody      int64         // bytes of a request's body; default 2 MiB
	MaxFlight    int           // concurrent requests of known callers; callers without an account have limits of their own, by address; default 256
	MaxEvents    int           // concurrent event streams; default 128
	Drain        time.Duration // for open requests when the server ends; default 10 s
	Heartbeat    time.Duration // between comments of an idle event stream; default 15 s
	SlowReader   time.Duration // for one write to the reader of an event stream; default 10 s
	PollInterval time.Duration // between polls of an event stream without notifications; default 1 s
}

// Observation describes an answered request. Route is the pattern, never the path.
type Observation struct {
	Method, Route string
	Status        int
	Took          time.Duration
	Bytes         int64
}

// Server answers HTTP requests. It is an http.Handler; Serve gives it a listener.
type Server struct {
	options        Options
	log            *slog.Logger
	mux            *http.ServeMux
	api            huma.API
	handler        http.Handler
	loopback       bool // it listens on loopback
	sessions       *sessions
	streamsEnd     chan struct{} // closed when event streams must end
	endStreamsOnce sync.Once

	admission *admission
}

// New returns a server. It refuses unsafe options: LISTEN_UNSAFE.
func New(options Options) (*Server, error) {
	s := build(options)
	if err := checkListen(s.options); err != nil {
		return nil, err
	}
	return s, nil
}

func build(o Options) *Server {
	if o.Listen == "" {
		o.Listen = DefaultListen
	}
	if o.Idempotency == nil {
		o.Idempotency = NewMemoryIdempotency()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Notifier == nil {
		o.Notifier = NewNotifier()
	}
	o.MaxBody, o.MaxFlight, o.MaxEvents = cmp.Or(o.MaxBody, 2<<20), cmp.Or(o.MaxFlight, 256), cmp.Or(o.MaxEvents, 128)
	o.SlowReader = cmp.Or(o.SlowReader, 10*time.Second)
	o.Drain, o.Heartbeat, o.PollInterval = cmp.Or(o.Drain, 10*time.Second), cmp.Or(o.Heartbeat, 15*time.Second), cmp.Or(o.PollInterval, time.Second)

	s := &Server{
		options: o, log: o.Logger, mux: http.NewServeMux(), loopback: isLoopback(o.Listen),
		streamsEnd: make(chan struct{}), sessions: newSessions(o.Sessions, o.SignedOut),
		admission: newAdmission(o.MaxFlight, o.MaxEvents),
	}
	s.route()
	s.handler = s.guarded(s.authenticated(s.admitted(s.once(s.mux))))
	return s
}

func (s *Server) route() {
	s.api = newAPI(s.mux)
	s.runRoutes()
	s.objectRoutes()
	s.flowRoutes()
	s.clusterRoutes()
	s.accountRoutes()
	s.eventRoutes()
	s.faultRoutes()
	s.sessionRoutes()
	s.lifecycleRoutes()
	s.healthRoutes()
	if s.options.Routes != nil {
		s.options.Routes(s.api)
	}
	for path, handler := range s.options.Mount {
		s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			callOf(r.Context()).route = path
			handler.ServeHTTP(w, r)
		})
	}
	s.mux.HandleFunc("/", s.fallback)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	a := &responseWriter{ResponseWriter: w, request: r}
	if r.Context().Err() != nil {
		// net/http gave up the connection while this process was suspended, and still
		// reads requests from it. This request is executed, and is the last.
		r = r.WithContext(context.WithoutCancel(r.Context()))
		w.Header().Set("Connection", "close")
	}
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, &call{path: r.URL.Path}))
	defer func() {
		if p := recover(); p != nil {
			s.panicked(a, r, p)
		}
		a.finish()
		s.writeAudit(a, r)
		if s.options.Observe != nil {
			s.options.Observe(Observation{Method: r.Method, Route: callOf(r.Context()).route, Status: a.code(), Took: time.Since(began), Bytes: a.bytes})
		}
	}()
	h := a.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache")
	s.handler.ServeHTTP(a, r)
}

// call is the state of a request in progress.
type call struct {
	path    string
	route   string // pattern
	who     Principal
	key     string       // Idempotency-Key
	token   *TokenHash   // of the Authorization header; nil: none
	session *session     // of the cookie; nil: none
	admit   func() error // takes the slot when the caller is identified; nil: it has one

	code   fault.Code // of the problem in the answer
	target string     // changed object, for the audit trail; empty: the path
	replay []byte     // answer to a repetition; nil: the same answer
}

type callKey struct{}

func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}
