package backend

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/library"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// LocalOptions name the store and the definitions that run on it.
type LocalOptions struct {
	Store     StoreOptions
	Client    bool     // only read and send, even if nobody owns the store
	Flows     []string // files and folders
	Machines  []string
	Kinds     []driver.ServedKind // of operators beside the machines, with their plans
	Actions   []string            // nil: all
	HTTPAllow []string
	Secrets   workflow.Secrets
	Logger    *slog.Logger
}

// Local is a store that this process opens. Its requests go to the handler of a server in
// this process, and are answered as those to a server elsewhere.
type Local struct {
	Remote
	options  LocalOptions
	actions  []workflow.Action
	library  library.Library
	notifier control.Notifier

	mu     sync.Mutex
	store  Store
	engine *workflow.Engine
	server *server.Server
	files  map[string]bool // label files that were loaded
	old    []Store         // what was open before this process became the owner
}

var _ Backend = (*Local)(nil)

// OpenLocal opens the store.
func OpenLocal(ctx context.Context, o LocalOptions) (*Local, error) {
	if o.Actions == nil {
		o.Actions = action.Names()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	l := &Local{options: o, files: map[string]bool{}}
	api, err := client.New(client.Options{URL: "http://127.0.0.1", Timeout: localTimeout, HTTP: &http.Client{Transport: client.HandlerTransport(l)}})
	if err != nil {
		return nil, err
	}
	l.API = api
	l.actions, err = action.Standard(action.Options{Only: o.Actions, HTTPAllow: o.HTTPAllow, StateDir: StateDir(), Status: statusOf{l}})
	if err != nil {
		return nil, runtype.InputInvalid.Errorf("--actions: %w", err)
	}
	if l.library, err = library.Load(o.Flows, o.Machines, flowfile.Options{Actions: l.actions}); err != nil {
		return nil, err
	}
	err = l.open(ctx, o.Client)
	return l, err
}

// statusOf writes into the objects of the store that is open when a step runs.
type statusOf struct{ l *Local }

// PatchStatus implements action.StatusWriter.
func (s statusOf) PatchStatus(ctx context.Context, subject string, patch json.RawMessage, key string) error {
	objects, err := s.l.Objects()
	if err != nil {
		return err
	}
	return driver.Status{Objects: objects}.PatchStatus(ctx, subject, patch, key)
}

func (l *Local) open(ctx context.Context, client bool) error {
	store, err := OpenStore(ctx, l.options.Store, client)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.use(store, l.library); err != nil {
		return errors.Join(err, store.Close())
	}
	return nil
}

// use makes an engine and a server of a store and a library. The caller holds the lock.
func (l *Local) use(store Store, lib library.Library) error {
	engine, err := l.newEngine(store, lib)
	if err != nil {
		return err
	}
	locks, _ := store.Locks().(lock.Lister)
	srv, err := server.New(server.Options{
		Locks: locks, Engine: engine, Objects: store.Objects(), Notifier: &l.notifier, Logger: slog.New(slog.DiscardHandler), MaxBody: localMaxBody,
		Kinds: func() ([]driver.ServedKind, error) { return l.kinds(store, engine, lib) },
	})
	if err != nil {
		return err
	}
	l.store, l.engine, l.server, l.library = store, engine, srv, lib
	return nil
}

// kinds are those of the machines and of the operators, with their plans.
func (l *Local) kinds(store Store, engine *workflow.Engine, lib library.Library) ([]driver.ServedKind, error) {
	d, err := driver.New(driver.Options{Objects: store.Objects(), Engine: engine, Machines: lib.Machines, Actions: l.actions, Logger: l.options.Logger})
	if err != nil {
		return nil, err
	}
	kinds, err := d.Kinds()
	return append(kinds, l.options.Kinds...), err
}

// ServeHTTP implements http.Handler by the server of the store that is open.
func (l *Local) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	srv := l.server
	l.mu.Unlock()
	srv.ServeHTTP(w, r)
}

func (l *Local) newEngine(store Store, lib library.Library) (*workflow.Engine, error) {
	return workflow.New(store, lib.Flows, workflow.Options{
		Actions: l.actions, Secrets: l.options.Secrets, Healers: lib.Healers, Logger: l.options.Logger,
		Hooks: []workflow.Hook{{Name: "watch", OnEvent: func(workflow.RunInfo, runtype.Event) { l.notifier.Notify() }}},
		Compile: func(source []byte) (workflow.Flow, error) {
			return flowfile.FromSource(source, flowfile.Options{Actions: l.actions, AnyAction: true})
		},
	})
}

func (l *Local) now() (Store, *workflow.Engine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store, l.engine
}

// Close closes the store.
func (l *Local) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.store.Close()
	for _, store := range l.old {
		err = errors.Join(err, store.Close())
	}
	return err
}

// Alone implements Runs.
func (l *Local) Alone() bool {
	store, _ := l.now()
	return store.IsOwner()
}

// Start implements Runs.
func (l *Local) Start(ctx context.Context, req workflow.Request) (view.Run, error) {
	r, err := l.Remote.Start(ctx, req)
	return l.adopted(ctx, r, err)
}

// Run implements Runs.
func (l *Local) Run(ctx context.Context, id string) (view.Run, error) {
	r, err := l.Remote.Run(ctx, id)
	r, err = l.adopted(ctx, r, err)
	one := []view.Run{r}
	l.warn(one)
	return one[0], err
}

// warn marks the runs that should go on while no process works on the store.
func (l *Local) warn(all []view.Run) {
	if store, _ := l.now(); store.Owned() {
		return
	}
	for i := range all {
		if r := &all[i]; !r.Phase.Final() && r.Phase != runtype.Paused {
			r.Warning, r.Health = view.NoWorker, view.Degraded
		}
	}
}

// adopted returns a run as the file of its flow shows it.
func (l *Local) adopted(ctx context.Context, r view.Run, err error) (view.Run, error) {
	if err != nil || !l.adopt(r.Labels[FileLabel]) {
		return r, err
	}
	return l.Remote.Run(ctx, r.ID)
}

// adopt loads the file that a run's flow was read from, if it is still there:
// its faults, its healers, and what its new definition says of older runs. It reports
// whether it has loaded anything.
func (l *Local) adopt(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if path == "" || l.files[path] {
		return false
	}
	l.files[path] = true
	if _, err := os.Stat(path); err != nil || l.loads(path) {
		return false
	}
	lib, err := library.Load(append([]string{path}, l.options.Flows...), l.options.Machines, flowfile.Options{Actions: l.actions})
	if err != nil {
		l.options.Logger.Warn("the file of the flow does not load any more: the run goes on with its stored definition", "file", path, "error", err)
		return false
	}
	if err := l.use(l.store, lib); err != nil {
		l.options.Logger.Warn("the file of the flow cannot be used: the run goes on with its stored definition", "file", path, "error", err)
		return false
	}
	return true
}

// loadFaults registers the faults of the file that a run's flow was read from, if
// the run is stopped by one that nobody here has declared.
func (l *Local) loadFaults(r view.Run) bool {
	path := r.Labels[FileLabel]
	if path == "" || r.Fault == nil {
		return false
	}
	if _, known := fault.Lookup(string(r.Fault.Code)); known {
		return false
	}
	_, err := library.Load([]string{path}, nil, flowfile.Options{Actions: l.actions}) // without it the run shows the words of UNKNOWN
	return err == nil
}

// loads reports a file that the options name, by itself or by its folder.
func (l *Local) loads(path string) bool {
	for _, given := range l.options.Flows {
		if abs, err := filepath.Abs(given); err == nil && (abs == path || abs == filepath.Dir(path)) {
			return true
		}
	}
	return false
}

// List implements Runs.
func (l *Local) List(ctx context.Context, q runstore.Query) (view.Runs, error) {
	page, err := l.Remote.List(ctx, q)
	loaded := false
	for _, r := range page.Items {
		loaded = l.loadFaults(r) || loaded
	}
	if loaded {
		page, err = l.Remote.List(ctx, q)
	}
	l.warn(page.Items)
	return page, err
}

// The server of a local store: it waits as long as the store does, and limits nothing that
// the engine does not limit.
const (
	localTimeout = time.Hour
	localMaxBody = 1 << 30
)

// Poll intervals of a store that another process works on.
const (
	pollEvery = 200 * time.Millisecond
	ownEvery  = time.Second
)

// Changes implements Runs.
func (l *Local) Changes(ctx context.Context, _ string) <-chan struct{} {
	c := make(chan struct{}, 1)
	go func() {
		defer close(c)
		ticker := time.NewTicker(pollEvery)
		defer ticker.Stop()
		for {
			notified := l.notifier.Next()
			select {
			case <-ctx.Done():
				return
			case <-notified:
			case <-ticker.C:
			}
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}()
	return c
}

// Work implements Runs. A client of a file waits until its owner has gone, and
// then works on it.
func (l *Local) Work(ctx context.Context) error {
	for !l.Alone() {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(ownEvery):
		}
		if err := l.becomeOwner(ctx); err != nil {
			return err
		}
	}
	_, engine := l.now()
	return engine.Serve(ctx)
}

// becomeOwner becomes the owner of the store if there is none.
func (l *Local) becomeOwner(ctx context.Context) error {
	next, err := OpenStore(ctx, l.options.Store, false)
	if err != nil {
		return err
	}
	if !next.IsOwner() {
		return next.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.store
	if err := l.use(next, l.library); err != nil {
		return errors.Join(err, next.Close())
	}
	l.old = append(l.old, before) // others may be reading from it
	return nil
}

// Advance implements Runs.
func (l *Local) Advance(ctx context.Context, id string) error {
	if !l.Alone() {
		return nil
	}
	_, engine := l.now()
	r, err := engine.Get(ctx, id)
	if err != nil {
		return err
	}
	engine.Advance(ctx, r.ID)
	return nil
}

// Objects implements Backend.
func (l *Local) Objects() (control.Objects, error) {
	store, _ := l.now()
	return store.Objects(), nil
}

// Machines implements Definitions: those of the files that are loaded.
func (l *Local) Machines(context.Context) ([]view.Machine, error) {
	kinds, err := driver.KindsOf(l.library.Machines)
	return view.OfMachines(kinds), err
}

// Machine implements Definitions.
func (l *Local) Machine(ctx context.Context, name string) (view.Machine, error) {
	machines, err := l.Machines(ctx)
	if err != nil {
		return view.Machine{}, err
	}
	return machineOf(machines, name)
}

func machineOf(machines []view.Machine, name string) (view.Machine, error) {
	for _, m := range machines {
		if m.Name == name || m.Kind == name {
			return m, nil
		}
	}
	return view.Machine{}, MachineUnknown.Errorf("no machine %s is loaded", name)
}
