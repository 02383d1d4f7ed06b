// Package server is the HTTP face of the engine and the objects: `/v1`, health and metrics on one listener.
//
//	request ─▶ recover ─▶ host and origin ─▶ who asks ─▶ body and slot ─▶ Idempotency-Key ─▶ route ─▶ engine, objects
//	              │                                                                             │
//	              └──────────────── problem details: code, class, remedy ◀──────────────────────┘
//
// It listens on loopback by default. Everywhere else it does not start without
// a token.
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
	Version string          // of the program, told by /healthz and /v1/me

	Listen   string // default 127.0.0.1:7295; its host decides what loopback allows
	CertFile string // with KeyFile: TLS
	KeyFile  string
	Hosts    []string      // names besides loopback's that requests may carry on loopback, as behind a proxy
	Tokens   *Tokens       // the operator's; nil: none
	Reviewer TokenReviewer // nil: none
	// Sessions are the keys of the console's sessions, the same on servers that
	// share them: the first signs, all of them are good. None: a random one, and
	// a restart signs everyone out.
	Sessions  [][]byte
	SignedOut SignedOut // nil: remembered by this process only

	Clusters *service.Service // nil: container clusters are NOT_SERVED
	Accounts *account.Service // accounts, domains, tokens and keys, and their routes; nil: none

	PlanObject func(ctx context.Context, object control.Object) (json.RawMessage, error)
	// Kinds are the kinds of objects that are served, for commands that check before they apply. nil: not told.
	Kinds       func() ([]driver.ServedKind, error)
	Idempotency Idempotency // default: in memory
	Notifier    *Notifier   // wakes event streams; nil: they look every second
	Health      func(ctx context.Context) error
	Metrics     http.Handler            // nil: no /metrics
	Console     http.Handler            // nil: all else is not found
	Observe     func(Observation)       // hears of each answered request
	Routes      func(api huma.API)      // further routes of /v1
	Mount       map[string]http.Handler // further paths, such as /client/api; they do their own authentication, then call Admit
	Logger      *slog.Logger

	MaxBody    int64         // bytes of a request's body; default 2 MiB
	MaxFlight  int           // requests of known callers at once; callers without an account have places of their own, by address; default 256
	MaxEvents  int           // event streams at once; default 128
	Drain      time.Duration // what open requests get at the end; default 10 s
	Heartbeat  time.Duration // between comments of an idle event stream; default 15 s
	SlowReader time.Duration // what the reader of an event stream gets to take what was sent; default 10 s
	Look       time.Duration // between looks of an event stream nobody rang for; default 1 s
}

// Observation is one answered request. Route is the pattern, never the path.
type Observation struct {
	Method, Route string
	Status        int
	Took          time.Duration
	Bytes         int64
}

// Server answers HTTP requests. It is an http.Handler; Serve gives it a listener.
type Server struct {
	options  Options
	log      *slog.Logger
	mux      *http.ServeMux
	api      huma.API
	chain    http.Handler
	loop     bool // it listens on loopback
	sessions *sessions
	ending   chan struct{} // closed when event streams must end
	end      sync.Once

	admission *admission
}

// New makes a server. It refuses options it could not serve safely with: LISTEN_UNSAFE.
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
	o.Drain, o.Heartbeat, o.Look = cmp.Or(o.Drain, 10*time.Second), cmp.Or(o.Heartbeat, 15*time.Second), cmp.Or(o.Look, time.Second)

	s := &Server{
		options: o, log: o.Logger, mux: http.NewServeMux(), loop: isLoopback(o.Listen),
		ending: make(chan struct{}), sessions: newSessions(o.Sessions, o.SignedOut),
		admission: newAdmission(o.MaxFlight, o.MaxEvents),
	}
	s.route()
	s.chain = s.guarded(s.authenticated(s.admitted(s.once(s.mux))))
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
	s.mux.HandleFunc("/", s.otherwise)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	a := &answer{ResponseWriter: w, request: r}
	if r.Context().Err() != nil {
		// net/http gave up the connection while this process was frozen, and still
		// reads requests from it: this one is carried out, and is the last.
		r = r.WithContext(context.WithoutCancel(r.Context()))
		w.Header().Set("Connection", "close")
	}
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, &call{path: r.URL.Path}))
	defer func() {
		if p := recover(); p != nil {
			s.panicked(a, r, p)
		}
		a.finish()
		s.note(a, r)
		if s.options.Observe != nil {
			s.options.Observe(Observation{Method: r.Method, Route: callOf(r.Context()).route, Status: a.code(), Took: time.Since(began), Bytes: a.bytes})
		}
	}()
	h := a.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache")
	s.chain.ServeHTTP(a, r)
}

// call is what is known of a request under way.
type call struct {
	path    string
	route   string // pattern it was routed by
	who     Principal
	key     string       // Idempotency-Key
	token   *TokenHash   // it carried; nil: none
	session *session     // of its cookie; nil: none
	admit   func() error // takes its slot once its caller is known; nil: it has one

	code   fault.Code // of the problem it was answered with
	target string     // what it changed, for the audit trail; empty: its path
	again  []byte     // answer to a repetition, where the first one holds a secret
}

type callKey struct{}

func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}
