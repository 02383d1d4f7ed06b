// Package serve wires the one server: store, engine, machine driver, telemetry and HTTP.
//
//	files ─▶ library ─┬▶ engine ◀──── store ────▶ objects
//	   ▲              └▶ driver ──────runs───▶ engine
//	   └ SIGHUP, a change                └ hooks ─▶ metrics, spans, log, event streams
//	                                     server ─▶ engine, objects, plans
//
// Run returns when its context has ended and all of them have drained.
package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/bulk"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/console"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/schedule"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/auth"
	"github.com/pawl-dev/pawl/server/events"
	"github.com/pawl-dev/pawl/telemetry"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Options of a server.
type Options struct {
	Store     backend.StoreOptions
	Listen    string
	Hosts     []string // further host names accepted on loopback
	TokenFile string
	CertFile  string
	KeyFile   string

	Flows     []string // files and folders, read again when they change
	Machines  []string
	Actions   []string // nil: all but exec
	HTTPAllow []string
	Secrets   workflow.Secrets
	Attempts  int // at once; 0: the engine's default
	Drain     time.Duration
	Retention runtype.Retention
	Archive   string // file that gets finished runs as JSON lines before they are removed

	Clusters *Clusters // configuration of container clusters; nil: none

	Kinds []driver.ServedKind // of operators beside the machines, with their plans

	SharedStorage *SharedStorage // clusters on shared storage as processes of this machine; nil: none

	OTLP     string // endpoint of a collector; empty: no spans
	OTLPLogs bool   // the collector also gets what steps print
	Version  string
	Logger   *slog.Logger
	Reload   <-chan os.Signal                         // SIGHUP
	Ready    func(addr net.Addr, flows, machines int) // called once the server answers
}

// StoreInUse is the fault of a file that another process owns.
var StoreInUse = fault.Declare(fault.Kind{
	Code: "STORE_IN_USE", Class: fault.Blocked,
	Title:  "another process owns the store",
	Remedy: "End the other process, or give this one a store of its own with --dsn.",
})

const (
	ownWithin  = 5 * time.Second        // a short command may own the file just now
	ownEvery   = 100 * time.Millisecond // between tries
	countEvery = 5 * time.Second        // of runs by phase, for metrics
)

// parts are the components of a server.
type parts struct {
	options     Options
	log         *slog.Logger
	store       backend.Store
	objects     control.Objects
	actions     []workflow.Action
	engine      *workflow.Engine
	metrics     *telemetry.Metrics
	queues      *queues
	traces      *telemetry.Traces // nil: none
	logs        *telemetry.Logs   // nil: none
	runNotifier *driver.Notifier
	notifier    *control.Notifier
	archive     *os.File // nil: none
	clusters    clusters
	shared      shared

	mu          sync.Mutex
	driver      *driver.Driver // nil: no machines
	definitions definitionStore
}

// Run serves until ctx ends. Where several servers share a database that is
// away, or refuses for a while, Run waits for it: it listens, is not ready, and
// says why.
func Run(ctx context.Context, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	wait := waiting{options: o}
	defer wait.end()
	for {
		err := once(ctx, wait.options, &wait)
		switch {
		case err != nil && wait.pending() && ctx.Err() != nil:
			return nil // it was stopped before there was anything to end
		case err == nil || !wait.retryHelps(err):
			return err
		}
		if err := wait.pause(ctx, err); err != nil {
			return err
		}
	}
}

// once creates a server and serves until ctx ends. It returns early if a part cannot be created.
func once(ctx context.Context, o Options, wait *waiting) (err error) {
	p := &parts{options: o, log: o.Logger, runNotifier: &driver.Notifier{}, notifier: &control.Notifier{}, metrics: telemetry.NewMetrics()}
	p.queues = newQueues(p.metrics.Registry())
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.make(ctx); err != nil {
		return err
	}
	s, err := p.server()
	if err != nil {
		return err
	}
	wait.end()
	ln, err := s.Listen()
	if err != nil {
		return err
	}
	wait.done = true
	p.setPort(ln.Addr())
	return p.serve(ctx, s, ln)
}

// make opens the store and creates the parts that work on it.
func (p *parts) make(ctx context.Context) error {
	var err error
	if p.store, err = own(ctx, p.options.Store); err != nil {
		return err
	}
	p.objects = p.store.Objects()
	p.actions, err = action.Standard(action.Options{Only: p.options.Actions, HTTPAllow: p.options.HTTPAllow, StateDir: backend.StateDir(),
		Status: driver.Status{Objects: p.objects}})
	if err != nil {
		return runtype.InputInvalid.Errorf("--actions: %w", err)
	}
	p.definitions = definitionStore{flows: p.options.Flows, machines: p.options.Machines, options: flowfile.Options{Actions: p.actions},
		warn: func(w flowfile.Problem) { p.log.Warn(w.String()) }}
	lib, err := p.definitions.load()
	if err != nil {
		p.missing(err)
		return err
	}
	if err := p.makeClusters(ctx); err != nil {
		return err
	}
	if err := p.makeShared(lib); err != nil {
		return err
	}
	hooks, err := p.hooks(ctx)
	if err != nil {
		return err
	}
	actions := p.shared.actions(p.actions)
	o := workflow.Options{
		Attempts: p.options.Attempts, Drain: p.options.Drain, Actions: actions, Secrets: p.options.Secrets, Healers: p.shared.healers(lib.Healers),
		Hooks: hooks, Retention: p.options.Retention, Logger: p.log, Object: p.shared.object(driver.Object(p.objects)),
		Compile: func(source []byte) (workflow.Flow, error) {
			return flowfile.FromSource(source, flowfile.Options{Actions: actions, AnyAction: true})
		},
	}
	if p.options.Archive != "" {
		if p.archive, err = os.OpenFile(p.options.Archive, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
			return fmt.Errorf("--archive: %w", err)
		}
		o.Archive = p.archiveRun
	}
	if p.engine, err = workflow.New(p.store, p.flows(lib.Flows), o); err != nil {
		return err
	}
	if p.clusters.service != nil {
		if err := p.clusters.service.Bind(p.engine); err != nil {
			return err
		}
	}
	if err := p.shared.bind(p.engine); err != nil {
		return err
	}
	p.metrics.Watch(telemetry.Sources{Engine: p.engine, Stats: p.stats, Runs: telemetry.CountActive(p.store, countEvery), Queues: p.queues.depths})
	if p.driver, err = p.newDriver(lib); err != nil {
		return err
	}
	return p.keepKinds(ctx)
}

// kinds are those of the machines that are loaded, and of what the server brings.
func (p *parts) kinds() ([]driver.ServedKind, error) {
	p.mu.Lock()
	d := p.driver
	p.mu.Unlock()
	var kinds []driver.ServedKind
	var err error
	if d != nil {
		kinds, err = d.Kinds()
	}
	kinds = append(kinds, p.shared.kinds()...)
	kinds = append(kinds, backend.OwnKinds()...)
	return append(kinds, p.options.Kinds...), err
}

// keepKinds records the served kinds for commands that open the store.
func (p *parts) keepKinds(ctx context.Context) error {
	kinds, err := p.kinds()
	if err != nil {
		return err
	}
	return p.store.KeepKinds(ctx, kinds, p.options.Store.Shared())
}

// missing says how actions are offered that files use and this server does not offer.
func (p *parts) missing(err error) {
	for _, name := range action.Names() {
		offered := slices.ContainsFunc(p.actions, func(a workflow.Action) bool { return a.Name == name })
		if !offered && strings.Contains(err.Error(), strconv.Quote(name)) {
			p.log.Error("the files use a ready-made action that this server does not offer: name it with --actions", "action", name)
		}
	}
}

// own opens the store as its owner.
func own(ctx context.Context, o backend.StoreOptions) (backend.Store, error) {
	until := time.Now().Add(ownWithin)
	for {
		store, err := backend.OpenStore(ctx, o, false)
		if err != nil || store.IsOwner() {
			return store, err
		}
		if err := store.Close(); err != nil {
			return backend.Store{}, err
		}
		if time.Now().After(until) {
			return backend.Store{}, StoreInUse.Errorf("%s is owned by another process", o.Path())
		}
		select {
		case <-ctx.Done():
			return backend.Store{}, ctx.Err()
		case <-time.After(ownEvery):
		}
	}
}

func (p *parts) hooks(ctx context.Context) ([]workflow.Hook, error) {
	hooks := []workflow.Hook{events.Hook(p.notifier), p.runNotifier.Hook(), p.metrics.Hook(), telemetry.Log(p.log)}
	if p.clusters.service != nil {
		hooks = append(hooks, p.clusters.service.Hook())
	}
	hooks = append(hooks, p.shared.hooks()...)
	if p.options.OTLP == "" {
		return hooks, nil
	}
	exporter, err := telemetry.OTLP(ctx, p.options.OTLP)
	if err != nil {
		return nil, fmt.Errorf("--otlp-endpoint: %w", err)
	}
	p.traces = telemetry.NewTraces(exporter, p.options.Version)
	hooks = append(hooks, p.traces.Hook())
	if p.options.OTLPLogs {
		exporter, err := telemetry.OTLPLogs(ctx, p.options.OTLP)
		if err != nil {
			return nil, fmt.Errorf("--otlp-endpoint: %w", err)
		}
		p.logs = telemetry.NewLogs(exporter, p.options.Version)
		hooks = append(hooks, p.logs.Hook())
	}
	return hooks, nil
}

func (p *parts) stats() map[string]float64 {
	admin, ok := p.store.Admin()
	if !ok {
		return nil
	}
	s := admin.Stats()
	return map[string]float64{"writes": float64(s.Writes), "commits": float64(s.Commits), "syncs": float64(s.Syncs),
		"bytes": float64(s.Bytes), "wal_bytes": float64(s.WALBytes), "statements": float64(s.Statements)}
}

// archiveRun writes a finished run before it is removed.
func (p *parts) archiveRun(r *runtype.Run, events []runtype.Event) error {
	line, err := json.Marshal(struct {
		Run     view.Run     `json:"run"`
		History []view.Event `json:"history"`
	}{view.OfRun(r, nil), view.OfEvents(events)})
	if err != nil {
		return err
	}
	if _, err := p.archive.Write(append(line, '\n')); err != nil {
		return err
	}
	return p.archive.Sync()
}

// server creates the HTTP server.
func (p *parts) server() (*server.Server, error) {
	sessions, err := p.store.SessionKeys()
	if err != nil {
		return nil, err
	}
	o := server.Options{
		Engine: p.engine, Bulks: true, Schedules: true, Objects: driver.Admit(p.admitSchedules(p.shared.admit(p.objects)), p.kinds), Kinds: p.kinds, Version: p.options.Version, Listen: p.options.Listen, Hosts: p.options.Hosts,
		CertFile: p.options.CertFile, KeyFile: p.options.KeyFile, Notifier: p.notifier,
		Sessions: sessions, SignedOut: p.store.SignedOut(), Idempotency: p.store.Keys(), Metrics: p.metrics.Handler(), Logger: p.log,
		Observe: func(o server.Observation) { p.metrics.Request(o.Method, o.Route, o.Status, o.Took, o.Bytes) },
		Health:  p.store.Probe, Console: console.Handler(), Clusters: p.clusters.service, Accounts: p.clusters.accounts, Reviewer: auth.AccountReviewer{Service: p.clusters.accounts}, Mount: p.queryHandler(),
	}
	o.Locks, _ = p.store.Locks().(lock.Lister)
	if p.options.TokenFile != "" {
		tokens, err := auth.ReadTokens(p.options.TokenFile)
		if err != nil {
			return nil, err
		}
		o.Tokens = tokens
	}
	return server.New(o)
}

// serve runs all parts until ctx ends or one of them fails.
func (p *parts) serve(ctx context.Context, s *server.Server, ln net.Listener) error {
	machines := len(p.definitions.last.Machines)
	sender, err := p.notifications()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	part := func(name string, do func(context.Context) error) {
		all.Go(func() {
			if err := do(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			} else if err != nil && !errors.Is(err, context.Canceled) {
				p.log.Warn("a part of the server did not end well", "part", name, "error", err)
			}
		})
	}
	part("engine", p.engine.Serve)
	part("machines", p.drive)
	part("notifications", sender.Serve)
	part("schedules", schedule.New(schedule.Options{Objects: p.objects, Engine: p.engine, Runs: p.store, Logger: p.log, Metrics: p.queues}).Serve)
	part("bulks", bulk.New(bulk.Options{Objects: p.objects, Engine: p.engine, Runs: p.store, Alone: !p.options.Store.Shared(), Logger: p.log, Metrics: p.queues}).Serve)
	if p.clusters.service != nil {
		part("clusters", p.clusters.service.Serve)
	}
	if p.shared.operator != nil {
		part("shared storage", p.serveShared)
		part("backups", p.serveBackups)
	}
	for _, cloud := range p.clusters.sims {
		part("sim", cloud.Serve)
	}
	part("http", func(ctx context.Context) error { return s.Serve(ctx, ln) })
	if p.options.Ready != nil {
		p.options.Ready(ln.Addr(), len(p.definitions.last.Flows), machines)
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (p *parts) close() error {
	var errs []error
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if p.traces != nil {
		errs = append(errs, p.traces.Close(ctx))
	}
	if p.logs != nil {
		errs = append(errs, p.logs.Close(ctx))
	}
	if p.archive != nil {
		errs = append(errs, p.archive.Close())
	}
	if p.store.IsOpen() {
		errs = append(errs, p.store.Close())
	}
	return errors.Join(errs...)
}
