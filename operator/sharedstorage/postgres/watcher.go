package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/transport"
)

// WatchConfig is the configuration of a cluster manager. It does not change while the manager
// runs.
type WatchConfig struct {
	Cluster   port.Ref      `json:"cluster"`
	Listen    string        `json:"listen"` // host:port of its HTTP
	Node      string        `json:"node,omitempty"`
	Version   string        `json:"version,omitempty"`
	TokenFile string        `json:"tokenFile"`
	TLSDir    string        `json:"tlsDir,omitempty"`   // folder with its certificate (transport.Folder); empty: none
	GrantDir  string        `json:"grantDir,omitempty"` // folder of a GrantFile; empty: the caller of NewWatcher gives a Granter
	Every     host.Duration `json:"every,omitzero"`     // between two rounds; default 1 s
	Misses    int           `json:"misses,omitempty"`   // rounds without a writer before a failover; default 5
}

// WatchStateStore stores a WatchState durably.
type WatchStateStore interface {
	// Load returns the last saved state, or the zero state.
	Load(ctx context.Context) (WatchState, error)
	// Save replaces the state. After a crash there is the new or the old one.
	Save(ctx context.Context, s WatchState) error
}

// FileWatchStateStore is a WatchStateStore in a file.
type FileWatchStateStore struct{ Path string }

// Load implements WatchStateStore.
func (f FileWatchStateStore) Load(context.Context) (WatchState, error) {
	var s WatchState
	err := host.ReadJSON(f.Path, &s)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return s, host.Trouble(err)
}

// Save implements WatchStateStore.
func (f FileWatchStateStore) Save(_ context.Context, s WatchState) error {
	return host.Trouble(host.WriteJSON(f.Path, s))
}

// WatcherOptions are the options of NewWatcher.
type WatcherOptions struct {
	Config WatchConfig
	Grants lease.Granter   // nil: the GrantFile of Config.GrantDir
	Store  WatchStateStore // where it stores its state
	Log    *slog.Logger    // nil: none
}

// Watcher is the cluster manager.
type Watcher struct {
	cfg    WatchConfig
	grants lease.Granter
	store  WatchStateStore
	log    *slog.Logger
	peers  *transport.Peers // the agents
	token  *keyFile
	tls    *transport.Folder
	kick   chan struct{}

	running context.Context // of Run
	tasks   sync.WaitGroup

	misses int       // used by the loop only, like missed
	missed time.Time // when the last miss was counted

	mu      sync.Mutex
	state   WatchState
	view    view
	digest  string        // of what the last round has seen
	changed chan struct{} // closed when digest changes
}

// view is the result of the last round.
type view struct {
	at      time.Time
	grant   lease.Grant
	writes  bool // the holder of the grant
	seen    map[string]AgentStatus
	code    fault.Code
	message string
}

// NewWatcher reads the state that an earlier manager has saved.
func NewWatcher(ctx context.Context, o WatcherOptions) (*Watcher, error) {
	w := &Watcher{cfg: o.Config, grants: o.Grants, store: o.Store, log: o.Log, tls: transport.Open(transport.FolderOptions{Dir: o.Config.TLSDir, Own: port.ManagerIdentity(o.Config.Cluster)}), kick: make(chan struct{}, 1), changed: make(chan struct{})}
	if w.cfg.Every <= 0 {
		w.cfg.Every = host.Duration(time.Second)
	}
	if w.cfg.Misses <= 0 {
		w.cfg.Misses = 5
	}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	w.peers = &transport.Peers{Trust: w.tls}
	if w.grants == nil {
		if w.cfg.GrantDir == "" {
			return nil, errors.New("the configuration of the cluster manager: grantDir is empty, and no other record of the grant was given")
		}
		w.grants = lease.GrantFile{Dir: w.cfg.GrantDir}
	}
	if w.store == nil {
		return nil, errors.New("a cluster manager needs a memory")
	}
	var err error
	if w.token, err = openKey(w.cfg.TokenFile); err != nil {
		return nil, err
	}
	w.state, err = w.store.Load(ctx)
	return w, err
}

// Run watches and serves until the context ends.
func (w *Watcher) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.running = ctx
	var watching sync.WaitGroup
	watching.Go(func() { w.watch(ctx) })
	err := serve(ctx, w.cfg.Listen, w.tls, w.log, w.handler())
	cancel()
	watching.Wait()
	w.tasks.Wait()
	w.peers.CloseIdleConnections()
	return err
}

func (w *Watcher) watch(ctx context.Context) {
	every := time.NewTicker(time.Duration(w.cfg.Every))
	defer every.Stop()
	for {
		w.watchOnce(ctx)
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		case <-w.kick:
		}
	}
}

// watchOnce makes one round: it observes everything, and acts on it.
func (w *Watcher) watchOnce(ctx context.Context) {
	w.mu.Lock()
	s := w.state
	w.mu.Unlock()
	if !s.Created {
		w.setView(view{at: time.Now()})
		return
	}
	t, err := w.gather(ctx, s)
	if err != nil {
		w.log.Warn("the grant cannot be read", "err", err)
		code := port.StorageFailed.Code
		if errors.Is(err, port.GrantLost) {
			code = port.GrantLost.Code
		}
		w.mu.Lock()
		last := w.view.grant // the last known grant may be all there is
		w.mu.Unlock()
		w.setView(view{at: time.Now(), grant: last, seen: t.seen, code: code, message: fault.Message(err)})
		return
	}
	if s, err = w.raiseVersion(ctx, s, t); err != nil {
		w.log.Error("saving the state", "err", err)
		return
	}
	v := view{at: t.now, grant: t.grant, seen: t.seen}
	if writers := t.tooMany(); len(writers) > 0 {
		v.code, v.message = port.TwoWriters.Code, fmt.Sprintf("%v wrote beside the writer of epoch %d and are fenced", writers, t.grant.Epoch)
		w.log.Error("two writers", "fenced", writers)
		w.stop(ctx, s, writers) // it stays that way until somebody has compared the rows
	}
	if _, v.writes = t.writer(); v.writes {
		w.misses = 0
		err = w.healthy(ctx, t)
	} else {
		if since := t.now.Sub(w.missed); since >= time.Duration(w.cfg.Every)*3/4 { // a round out of turn does not count as a miss
			w.misses, w.missed = w.misses+1, t.now
		}
		err = w.unhealthy(ctx, t)
	}
	if err != nil && ctx.Err() == nil && v.code == "" {
		v.code, v.message = fault.Of(err).Code, fault.Message(err)
	}
	w.setView(v)
}

// raiseVersion makes the membership newer than the one that an earlier manager has sent to the
// agents, if the state of that manager was deleted.
func (w *Watcher) raiseVersion(ctx context.Context, s WatchState, t tick) (WatchState, error) {
	newest := int64(0)
	for _, seen := range t.seen {
		newest = max(newest, seen.Members)
	}
	if newest <= s.Version {
		return s, nil
	}
	err := w.change(ctx, func(s *WatchState) { s.Version = max(s.Version, newest+1) })
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state, err
}

func (w *Watcher) setView(v view) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v.code != "" && (v.code != w.view.code || v.message != w.view.message) {
		w.log.Warn("the cluster has a fault", "code", v.code, "why", v.message)
	}
	w.view = v
	w.publish(v)
}

func (w *Watcher) gather(ctx context.Context, s WatchState) (tick, error) {
	t := tick{seen: w.requestStatuses(ctx, s, s.names())}
	reading, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var err error
	t.grant, err = w.grants.Read(reading)
	t.now = time.Now()
	return t, err
}

// requestStatuses asks all agents for their status concurrently.
func (w *Watcher) requestStatuses(ctx context.Context, s WatchState, names []string) map[string]AgentStatus {
	seen := map[string]AgentStatus{}
	var mu sync.Mutex
	parallel(names, func(name string) {
		m, ok := s.member(name)
		if !ok {
			return
		}
		st, err := callAgent[AgentStatus](ctx, w, m, http.MethodGet, "status", nil)
		if err != nil {
			return // an agent that does not answer is missing in the result
		}
		mu.Lock()
		defer mu.Unlock()
		seen[name] = st
	})
	return seen
}

// callAgent calls an agent within the time limit of a round.
func callAgent[Out any](ctx context.Context, w *Watcher, m WatchMember, method, verb string, in any) (Out, error) {
	ctx, cancel := context.WithTimeout(ctx, max(time.Duration(w.cfg.Every), 500*time.Millisecond)*9/10)
	defer cancel()
	return request[Out](ctx, w.peers.For(port.InstanceIdentity(w.cfg.Cluster.Of(m.Name))), m.Agent+"/v1/"+verb, w.token.keys(), method, in)
}

// change changes the state, in its store first.
func (w *Watcher) change(ctx context.Context, do func(*WatchState)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changeLocked(ctx, do)
}

func (w *Watcher) changeLocked(ctx context.Context, do func(*WatchState)) error {
	next := w.state
	next.Members, next.Leaving, next.Fenced = slices.Clone(next.Members), slices.Clone(next.Leaving), slices.Clone(next.Fenced)
	do(&next)
	if significant(w.state, next) {
		if err := w.store.Save(ctx, next); err != nil {
			return err
		}
	}
	w.state = next
	return nil
}

// significant reports whether two states differ in more than the times at which readers last
// streamed, which may be lost.
func significant(a, b WatchState) bool {
	a.Sync.Last, b.Sync.Last = nil, nil
	return !bytes.Equal(mustJSON(a), mustJSON(b))
}

// healthy maintains the list of readers, sends the membership to the members, and with failover on
// points them to the writer.
func (w *Watcher) healthy(ctx context.Context, t tick) error {
	if err := w.change(ctx, func(s *WatchState) { *s = s.synced(t).settled(t).located(t) }); err != nil {
		return err
	}
	w.mu.Lock()
	s := w.state
	w.mu.Unlock()
	w.push(ctx, s, t)
	writer, ok := s.member(t.grant.Writer)
	if !ok {
		return nil
	}
	var back []string
	parallel(without(s.names(), writer.Name), func(name string) {
		m, _ := s.member(name)
		seen, ok := t.seen[name]
		fenced := slices.Contains(s.Fenced, name)
		switch {
		case !ok, !seen.Installed, !seen.Wanted && !fenced:
			return
		case seen.Held: // held by a failover that did not complete
		case !s.HA(t.now), seen.Wanted && !fenced && seen.Upstream == writer.Name && (seen.Streaming || !seen.Ready): // one that does not stream may have an old address
			return
		}
		if _, err := callAgent[nothing](ctx, w, m, http.MethodPost, "follow", followCall{writer.engine()}); err != nil {
			w.log.Warn("pointing a follower to the writer", "follower", name, "err", err)
			return
		}
		w.log.Info("a follower was pointed to the writer", "follower", name, "writer", writer.Name)
	})
	for _, name := range s.Fenced {
		if seen, ok := t.seen[name]; ok && seen.Wanted {
			back = append(back, name)
		}
	}
	if len(back) == 0 {
		return nil
	}
	return w.change(ctx, func(s *WatchState) {
		s.Fenced = slices.DeleteFunc(s.Fenced, func(name string) bool { return slices.Contains(back, name) })
	})
}

// push sends the membership to the agents that do not have it.
func (w *Watcher) push(ctx context.Context, s WatchState, t tick) {
	parallel(s.names(), func(name string) {
		if seen, ok := t.seen[name]; !ok || seen.Members >= s.Version {
			return
		}
		m, _ := s.member(name)
		if _, err := callAgent[nothing](ctx, w, m, http.MethodPost, "members", s.membership()); err != nil {
			w.log.Warn("sending the membership", "to", name, "err", err)
		}
	})
}

// stop stops writers immediately.
func (w *Watcher) stop(ctx context.Context, s WatchState, names []string) {
	parallel(names, func(name string) {
		if m, ok := s.member(name); ok {
			if _, err := callAgent[nothing](ctx, w, m, http.MethodPost, "stop", stopCall{port.Immediate}); err != nil {
				w.log.Warn("stopping a writer", "name", name, "err", err)
			}
		}
	})
}

// WatchCommand is what `pawl cluster-manager` runs.
type WatchCommand struct {
	Dir    string          // folder of its state, in state.json
	Config string          // file with a WatchConfig; empty: config.json in Dir
	Grants lease.Granter   // nil: as the configuration says
	Store  WatchStateStore // nil: state.json in Dir
	Log    *slog.Logger    // nil: none
}

// Run serves until the context ends.
func (c WatchCommand) Run(ctx context.Context) error {
	if c.Config == "" {
		c.Config = filepath.Join(c.Dir, "config.json")
	}
	var cfg WatchConfig
	if err := host.ReadJSON(c.Config, &cfg); err != nil {
		return fmt.Errorf("the configuration of the cluster manager: %w", err)
	}
	if c.Store == nil {
		lock, err := host.TryLock(filepath.Join(c.Dir, "manager.lock"))
		if err != nil {
			return host.Trouble(err)
		}
		if lock == nil {
			return fmt.Errorf("another cluster manager has %s", c.Dir)
		}
		defer lock.Close()
		c.Store = FileWatchStateStore{filepath.Join(c.Dir, "state.json")}
	}
	w, err := NewWatcher(ctx, WatcherOptions{Config: cfg, Grants: c.Grants, Store: c.Store, Log: c.Log})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// sighting returns what the manager knows of the lease, for a candidate; nil: nothing.
func (w *Watcher) sighting() *lease.Sighting {
	if witness, ok := w.grants.(lease.Witness); ok {
		if s, ok := witness.Sighting(time.Now()); ok {
			return &s
		}
	}
	return nil
}
