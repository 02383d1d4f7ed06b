package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/enginelog"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/transport"
)

// AgentOptions are the options of NewAgent.
type AgentOptions struct {
	Config Config
	Grants lease.Grants // nil: the GrantFile of Config.GrantDir
	Log    *slog.Logger // nil: none
	// EngineLog receives the log of the engine, each message as a line of JSON. nil: it is only in
	// engine.log in the folder of the instance, which is cut at 8 MB.
	EngineLog io.Writer
}

// Agent owns the data directory and the engine of one instance.
type Agent struct {
	cfg     Config
	name    string
	srv     *server
	grants  lease.Grants
	log     *slog.Logger
	said    io.Writer // receives the log of the engine; nil: nobody
	token   *keyFile
	secret  *keyFile // the password of the cluster
	tls     *transport.Folder
	peers   *transport.Peers // the other agents
	version string

	kick    chan struct{}
	lease   *lease.Holder
	archive *archiver
	asking  chan struct{} // guards conn
	conn    *pgx.Conn

	reloading sync.Mutex
	executing executing // statements of the operator

	mu   sync.Mutex
	rec  record
	live live
}

// live is the state that need not survive the process.
type live struct {
	job       string // the job in the background
	cancelJob context.CancelFunc

	fault    error // of the last start or install
	failures int
	retry    time.Time
	starting *starting

	stopping  host.Process // the process that was told to stop, and how
	how       port.StopMode
	receiving []string // followers that receive from this writer
	heard     heard
	still     time.Time // since when a follower has not received
	streamed  bool      // the follower has streamed since the agent began
	diverged  bool
	quiet     int      // passes in a row that found nothing to do
	drop      []string // replication slots of instances that left
	config    string   // as the engine has read it
}

// starting is an engine that has not answered yet.
type starting struct {
	engine host.Process
	log    int64 // size of the log file before the start
	writer bool
	at     time.Time
}

// NewAgent returns the agent of an instance's folder.
func NewAgent(dir string, o AgentOptions) (*Agent, error) {
	cfg, err := o.Config.filled()
	if err != nil {
		return nil, fmt.Errorf("the configuration of the instance: %w", err)
	}
	srv, err := newServer(dir, cfg)
	if err != nil {
		return nil, err
	}
	if o.Log != nil {
		srv.log = o.Log
	}
	a := &Agent{
		cfg: cfg, name: cfg.Cluster.Instance, srv: srv, grants: o.Grants, log: o.Log, said: o.EngineLog,
		kick: make(chan struct{}, 1), asking: make(chan struct{}, 1),
		tls: srv.tls, peers: &transport.Peers{Trust: srv.tls},
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if a.grants == nil {
		if cfg.GrantDir == "" {
			return nil, errors.New("the configuration of the instance: grantDir is empty, and no other record of the grant was given")
		}
		a.grants = lease.GrantFile{Dir: cfg.GrantDir}
	}
	if a.token, err = openKey(cfg.TokenFile); err != nil {
		return nil, err
	}
	if a.secret, err = openKey(cfg.PasswordFile); err != nil {
		return nil, err
	}
	a.lease = a.leaseHolder()
	a.archive = &archiver{srv: srv, sql: a.sql}
	if err := host.ReadJSON(srv.path(recordName), &a.rec); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, port.StorageFailed.Errorf("the record of the agent: %w", err)
	}
	return a, nil
}

// Run serves until the context ends. Then it stops the engine within Config.Grace; the next agent
// starts it again.
func (a *Agent) Run(ctx context.Context) error {
	lock, err := host.TryLock(a.srv.path(agentLock))
	if err != nil {
		return host.Trouble(err)
	}
	if lock == nil {
		return fmt.Errorf("another agent has %s", a.srv.dir)
	}
	defer lock.Close()
	if err := host.WriteJSON(a.srv.path(agentName), host.ProcessOf(os.Getpid())); err != nil {
		return host.Trouble(err)
	}
	if err := a.recover(); err != nil {
		return err
	}
	a.version = a.cfg.Version
	if out, err := a.srv.output(ctx, "postgres", "--version"); err != nil {
		return port.VersionUnsupported.Errorf("%w", err)
	} else if fields := strings.Fields(out); a.version == "" && len(fields) > 2 {
		a.version = fields[2]
	}
	if engine := a.srv.find(); engine.Running() && !a.srv.standby() {
		a.log.Info("found the engine running", "pid", engine.PID)
		a.lease.Resume(a.rec.Epoch)
	}

	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	a.archive.serve(serving)
	var tasks sync.WaitGroup
	tasks.Go(func() { a.lease.Run(serving) })
	tasks.Go(func() { enginelog.Forward(serving, a.srv.dir, a.name, a.said, a.log) })
	failed := make(chan error, 1)
	tasks.Go(func() { failed <- serve(serving, a.cfg.Listen, a.tls, a.log, a.handler()) })
	ended := make(chan struct{})
	tasks.Go(func() { defer close(ended); a.loop(ctx) })
	select {
	case <-ended:
		err = nil
	case err = <-failed:
	}
	a.archive.stop()
	a.finish(serving)
	stop()
	tasks.Wait()
	a.peers.CloseIdleConnections()
	a.disconnect()
	return err
}

// recover completes an install that ended between the data and their record.
func (a *Agent) recover() error {
	if err := a.srv.replaced(); err != nil {
		return host.Trouble(err)
	}
	if !a.srv.installed() {
		return nil
	}
	return a.change(func(r *record) {
		if r.Install == nil || r.Installed != "" {
			return
		}
		r.Installed = r.Install.Key
		if r.Install.From != nil {
			r.Rejoin = true
			if r.Upstream == nil {
				r.Upstream = r.Install.From
			}
		}
	})
}

// engine returns the running engine: the one of the pid file, or the one that was started a moment
// ago and has not written that file yet.
func (a *Agent) engine() host.Process {
	if p := a.srv.find(); p.Running() {
		return p
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if st := a.live.starting; st != nil && st.engine.Running() {
		return st.engine
	}
	return host.Process{}
}

// loop brings the engine to the state in the record, one move at a time.
func (a *Agent) loop(ctx context.Context) {
	for ctx.Err() == nil {
		if a.pass(ctx) {
			continue
		}
		pause := time.NewTimer(a.pause())
		select {
		case <-ctx.Done():
		case <-pause.C:
		case <-a.kick:
		}
		pause.Stop()
	}
}

// pause returns the time between two passes: less while the engine starts or stops.
func (a *Agent) pause() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.live.starting != nil || a.live.stopping.Running() {
		return 30 * time.Millisecond
	}
	if a.live.quiet > 20 { // commands wake the loop
		return time.Second
	}
	return 250 * time.Millisecond
}

// finish stops the engine because the agent was told to end.
func (a *Agent) finish(ctx context.Context) {
	a.mu.Lock()
	if a.live.cancelJob != nil {
		a.live.cancelJob()
	}
	a.mu.Unlock()
	engine := a.engine()
	_ = engine.Signal(syscall.SIGINT) // if that fails, it is killed below
	began := host.SinceBoot()
	for every := time.NewTicker(20 * time.Millisecond); engine.Running(); <-every.C {
		switch waited := host.SinceBoot() - began; {
		case waited > time.Duration(a.cfg.Grace)+5*time.Second:
			engine.Kill()
		case waited > time.Duration(a.cfg.Grace):
			_ = engine.Signal(syscall.SIGQUIT) // as above
		}
	}
	releasing, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := a.lease.Release(releasing); err != nil {
		a.log.Warn("the lease runs until it ends", "err", err)
	}
}

// change changes the record, on disk first.
func (a *Agent) change(do func(*record)) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changeLocked(do)
}

func (a *Agent) changeLocked(do func(*record)) error {
	next := a.rec.clone()
	do(&next)
	before, after := mustJSON(a.rec), mustJSON(next)
	if bytes.Equal(before, after) {
		return nil
	}
	if err := host.WriteFile(a.srv.path(recordName), after); err != nil {
		return host.Trouble(err)
	}
	a.rec = next
	return nil
}

// wake starts a pass at once.
func (a *Agent) wake() {
	select {
	case a.kick <- struct{}{}:
	default:
	}
}

// retryAfter records a failure, and when to try again.
func (a *Agent) retryAfter(err error, pause time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.live.fault, a.live.retry = err, time.Now().Add(pause)
}

// fail records a failure of a start or an install. The pause grows with each failure in a row.
func (a *Agent) fail(err error) {
	if host.IsFull(err) && !errors.Is(err, port.StorageFull) {
		err = port.StorageFull.Errorf("%w", err)
	}
	if fault.Of(err) == fault.Unknown {
		err = port.StartFailed.Errorf("%w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.live.failures++
	pause := min(10*time.Second, time.Second/2<<min(a.live.failures, 6))
	a.live.fault, a.live.retry = err, time.Now().Add(pause)
	a.log.Warn("the engine does not start", "try", a.live.failures, "again in", pause, "err", err)
}

// sql uses the connection to the engine, one caller at a time.
func (a *Agent) sql(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	select {
	case a.asking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-a.asking }()
	if a.conn == nil || a.conn.IsClosed() {
		c, err := socket(ctx, a.srv.path(runName), a.cfg.Port, "")
		if err != nil {
			return err
		}
		a.conn = c
	}
	err := do(ctx, a.conn)
	if err != nil {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = a.conn.Close(closing) // the next call opens a new one
		a.conn = nil
	}
	return err
}

func (a *Agent) disconnect() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	a.asking <- struct{}{}
	defer func() { <-a.asking }()
	if a.conn != nil {
		_ = a.conn.Close(ctx) // the process ends anyhow
		a.conn = nil
	}
}

// queryState asks the engine for its state.
func (a *Agent) queryState(ctx context.Context) (s engineState, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err = a.sql(ctx, func(ctx context.Context, c *pgx.Conn) error { s, err = queryState(ctx, c); return err })
	return s, err
}

func serve(ctx context.Context, listen string, certificate *transport.Folder, log *slog.Logger, h http.Handler) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: transport.ErrorLog(log)}
	stopped := context.AfterFunc(ctx, func() { _ = s.Close() }) // callers repeat their requests
	defer stopped()
	if err = s.Serve(transport.NewListener(l, certificate)); errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func mustJSON(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic("postgres: " + err.Error()) // the values are types of this package
	}
	return data
}

// AgentOf returns the process of the agent of a folder, as the agent recorded it.
func AgentOf(dir string) host.Process {
	var p host.Process
	_ = host.ReadJSON(filepath.Join(dir, agentName), &p) // no file yet: no process
	return p
}

// EngineOf returns the engine that runs in a folder.
func EngineOf(dir string) host.Process { return (&server{dir: dir}).find() }

// WroteUnder returns the epoch under which the engine of a folder last wrote.
func WroteUnder(dir string) int64 {
	var r record
	_ = host.ReadJSON(filepath.Join(dir, recordName), &r) // no file yet: it never wrote
	return r.Epoch
}

// LogTail returns the last lines of a log, to explain why a process ended.
func LogTail(file string) string {
	text, err := os.ReadFile(file)
	if err != nil || len(text) == 0 {
		return "it wrote nothing"
	}
	return lastLines(string(text[max(0, len(text)-errorTail):]), 3)
}
