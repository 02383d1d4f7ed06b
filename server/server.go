// Package server is the HTTP API of the engine, the objects and the clusters: `/v1`, health and metrics on one listener.
//
//	request ─▶ route ─▶ host and origin ─▶ caller and role ─▶ body and slot ─▶ Idempotency-Key ─▶ resource ─▶ engine, objects
//	              │                                                                                  │
//	              └──────────────────── problem details: code, class, remedy ◀───────────────────────┘
//
// The row of a route (package route) says what each stage does with its requests. The
// stages are packages auth, admission and idempotency; the resources are packages runs,
// objects, flows, clusters, accounts and events. Server puts them together.
//
// It listens on loopback by default. On other addresses it does not start without a
// token or an account.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/server/accounts"
	"github.com/pawl-dev/pawl/server/admission"
	"github.com/pawl-dev/pawl/server/auth"
	"github.com/pawl-dev/pawl/server/clusters"
	"github.com/pawl-dev/pawl/server/docs"
	"github.com/pawl-dev/pawl/server/events"
	"github.com/pawl-dev/pawl/server/flows"
	"github.com/pawl-dev/pawl/server/foundationdb"
	"github.com/pawl-dev/pawl/server/idempotency"
	"github.com/pawl-dev/pawl/server/objects"
	"github.com/pawl-dev/pawl/server/rollouts"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/runs"
	"github.com/pawl-dev/pawl/server/schedules"
	"github.com/pawl-dev/pawl/server/workers"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// Options of a server. Only Engine is required.
type Options struct {
	Engine  *workflow.Engine
	Objects control.Objects // nil: objects are NOT_SERVED
	Bulks   bool            // objects of kind Bulk are carried out
	// Schedules says that objects of kind Schedule are carried out: the console has a page of them.
	Schedules bool
	// Locks are those that processes share, for /v1/locks; nil: NOT_SERVED.
	Locks lock.Lister
	// Rollouts are those of a Kubernetes cluster; nil: NOT_SERVED.
	Rollouts rollouts.Source
	// FoundationDB are the FoundationDB clusters of a Kubernetes cluster; nil: NOT_SERVED.
	FoundationDB foundationdb.Source
	Version      string // of the program, shown by /healthz and /v1/me

	Listen   string // default 127.0.0.1:7295; on a loopback host the server needs no token
	CertFile string // with KeyFile: TLS
	KeyFile  string
	Hosts    []string           // further host names that requests may name on loopback, as behind a proxy
	Tokens   *auth.Tokens       // the operator's; nil: none
	Reviewer auth.TokenReviewer // of the accounts' tokens; nil: none
	// Sessions are the keys of the console's sessions. Servers that share them share
	// sessions. The first signs, all are valid. None: a random key, and a restart signs
	// everyone out.
	Sessions  [][]byte
	SignedOut auth.SignedOut // nil: in the memory of this process

	Clusters *service.Service // nil: container clusters are NOT_SERVED
	Accounts *account.Service // accounts, domains, tokens and keys, and their routes; nil: none

	// Kinds returns the served kinds of objects: for commands that check before they apply, and for
	// plans, by the Plan of a kind. nil: NOT_SERVED.
	Kinds       func() ([]driver.ServedKind, error)
	Idempotency idempotency.Store // default: in memory
	Notifier    *control.Notifier // wakes event streams; nil: they only poll
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
	options   Options
	log       *slog.Logger
	mux       *http.ServeMux
	routes    *route.Mux
	api       huma.API
	handler   http.Handler
	loopback  bool // it listens on loopback
	admission *admission.Admission
	events    *events.Service
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
		o.Idempotency = idempotency.NewMemory()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Notifier == nil {
		o.Notifier = &control.Notifier{}
	}
	o.MaxBody, o.MaxFlight, o.MaxEvents = cmp.Or(o.MaxBody, 2<<20), cmp.Or(o.MaxFlight, 256), cmp.Or(o.MaxEvents, 128)
	o.SlowReader = cmp.Or(o.SlowReader, 10*time.Second)
	o.Drain, o.Heartbeat, o.PollInterval = cmp.Or(o.Drain, 10*time.Second), cmp.Or(o.Heartbeat, 15*time.Second), cmp.Or(o.PollInterval, time.Second)

	s := &Server{options: o, log: o.Logger, mux: http.NewServeMux(), loopback: auth.IsLoopback(o.Listen), admission: admission.New(o.MaxBody, o.MaxFlight, o.MaxEvents)}
	s.api = newAPI(s.mux)
	s.routes = route.NewMux(s.mux, s.api, o.MaxBody)
	callers := auth.New(auth.Options{Listen: o.Listen, TLS: o.CertFile != "", Hosts: o.Hosts, Tokens: o.Tokens, Reviewer: o.Reviewer,
		Sessions: o.Sessions, SignedOut: o.SignedOut, Version: o.Version, Parts: o.parts(), Limit: s.admission.Identify})
	s.addRoutes(callers)
	s.handler = callers.Guard(callers.Authenticate(s.admission.Admit(idempotency.Keys{Store: o.Idempotency, Log: s.log}.Once(s.mux))))
	return s
}

// parts are what the server has besides runs.
func (o *Options) parts() (parts []string) {
	for name, has := range map[string]bool{"clusters": o.Clusters != nil, "objects": o.Objects != nil, "machines": o.Objects != nil && o.Kinds != nil, "rollouts": o.Rollouts != nil, "foundationdb": o.FoundationDB != nil, "bulks": o.Bulks, "schedules": o.Schedules, "workers": o.knowsWorkers(), "accounts": o.Accounts != nil} {
		if has {
			parts = append(parts, name)
		}
	}
	slices.Sort(parts)
	return parts
}

// knowsWorkers reports whether there is something at /v1/workers.
func (o *Options) knowsWorkers() bool {
	if o.Engine == nil {
		return false
	}
	_, knows := o.Engine.Store().(runstore.Workers)
	return knows
}

// addRoutes adds the routes of all resources.
func (s *Server) addRoutes(a *auth.Authenticator) {
	o := &s.options
	callers := auth.Callers{Accounts: o.Accounts}
	runs := &runs.Service{Engine: o.Engine, Clusters: o.Clusters, Objects: o.Objects, Callers: callers}
	clusters := &clusters.Service{Clusters: o.Clusters, Runs: runs, Callers: callers}
	objects := &objects.Service{Store: o.Objects, Kinds: o.Kinds}
	accounts := &accounts.Service{Accounts: o.Accounts}
	flows := &flows.Service{Engine: o.Engine, Objects: o.Objects, Kinds: o.Kinds, Clusters: clusters}
	rolled := &rollouts.Service{Source: o.Rollouts}
	databases := &foundationdb.Service{Source: o.FoundationDB}
	schedules := &schedules.Service{Engine: o.Engine, Objects: o.Objects}
	workers := &workers.Service{Engine: o.Engine, Locks: o.Locks}
	changes := map[string]func(context.Context, control.Ref) <-chan struct{}{}
	if o.Rollouts != nil {
		changes["rollout"] = o.Rollouts.Changes
	}
	if o.FoundationDB != nil {
		changes["foundationdb"] = o.FoundationDB.Changes
	}
	s.events = events.New(events.Options{Changes: changes, Runs: runs, Clusters: clusters, Objects: o.Objects, Callers: callers, Notifier: o.Notifier, Identify: a.Identify,
		Log: s.log, Heartbeat: o.Heartbeat, SlowReader: o.SlowReader, PollInterval: o.PollInterval})
	for _, table := range []route.Table{
		runs.Routes(), objects.Routes(), flows.Routes(), flows.FaultRoutes(), clusters.Routes(), clusters.LifecycleRoutes(), accounts.Routes(), schedules.Routes(), workers.Routes(), rolled.Routes(s.api.OpenAPI().Components.Schemas), databases.Routes(),
		s.events.Routes(s.api.OpenAPI().Components.Schemas), a.Routes(), s.healthRoutes(), s.documentRoutes(), docs.Routes(), s.mounted(),
	} {
		s.routes.Add(table)
	}
	if o.Routes != nil {
		o.Routes(s.api)
	}
	s.mux.HandleFunc("/", s.fallback)
}

// mounted are the routes of Options.Mount. Below /v1 they need a caller all the same.
func (s *Server) mounted() (t route.Table) {
	for path, handler := range s.options.Mount {
		role := route.Anyone
		if route.InAPI(path) {
			role = route.User
		}
		t.Routes = append(t.Routes, route.Route{Path: path, Role: role, Late: true, OwnFormat: true, Handle: route.Raw(handler.ServeHTTP)})
	}
	return t
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
	r, c := route.Begin(r, s.routes.Find(r))
	defer func() {
		if p := recover(); p != nil {
			s.panicked(a, r, c, p)
		}
		a.finish()
		s.writeAudit(a, r, c)
		if s.options.Observe != nil {
			s.options.Observe(Observation{Method: r.Method, Route: c.Route.Path, Status: a.code(), Took: time.Since(began), Bytes: a.bytes})
		}
	}()
	h := a.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache")
	s.handler.ServeHTTP(a, r)
}

// panicked answers a request whose route panicked. The stack goes to the log only.
func (s *Server) panicked(a *responseWriter, r *http.Request, c *route.Call, p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	s.log.Error("a route panicked", "code", fault.Panic.Code, "method", r.Method, "route", c.Route.Path, "panic", p, "stack", string(debug.Stack()))
	if a.wrote() {
		panic(http.ErrAbortHandler) // the answer has begun: the caller must see that it is incomplete
	}
	route.WriteProblem(a, r, fault.Panic.Errorf("%v", fmt.Sprint(p)))
}
