package pooler

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
)

// Config is the configuration of a supervisor. It does not change while it runs.
type Config struct {
	Cluster port.Ref `json:"cluster"`
	Name    string   `json:"name"`              // of the pooler
	Listen  string   `json:"listen"`            // host:port of the supervisor's HTTP
	Host    string   `json:"host"`              // address on which pgbouncer listens
	Port    int32    `json:"port"`              // of pgbouncer
	Program string   `json:"program,omitempty"` // pgbouncer; default: the one in PATH, or /usr/sbin/pgbouncer
	User    string   `json:"user,omitempty"`    // user who runs pgbouncer when the supervisor is root; default postgres, or nobody

	TokenFile    string `json:"tokenFile"`        // token of the callers of the supervisor
	PasswordFile string `json:"passwordFile"`     // password of the superuser, who reads the verifiers of roles
	TLSDir       string `json:"tlsDir,omitempty"` // folder with the certificates of the supervisor (transport.Folder) and of the engines; empty: none
}

// backend is the pgbouncer of a supervisor.
type backend interface {
	// Configure writes the configuration and makes a running pgbouncer read it.
	Configure(ctx context.Context, s port.PoolerSettings, target string) error
	// Pause lets clients wait, and returns when all connections to the writer are closed, or, with an
	// error, when the context ends; a pause that has begun lasts until Resume.
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
	// Writes returns nil if the engine at an address accepts writes.
	Writes(ctx context.Context, target string) error
}

// state is what a supervisor remembers over a restart.
type state struct {
	Settings port.PoolerSettings `json:"settings"`
	Target   string              `json:"target"` // host:port of the writer; empty: nobody has said it yet
}

// Supervisor takes the orders for one pgbouncer. Its methods are safe for concurrent use.
type Supervisor struct {
	backend backend
	file    string // of the state; empty: it is not stored
	log     *slog.Logger

	order sync.Mutex // one order at a time
	mu    sync.Mutex
	state state
	pause *pause // nil: clients do not wait
	ended sync.WaitGroup
}

// pause is a pause that has begun.
type pause struct {
	until   time.Time
	settled chan struct{} // closed when no connection to the writer is left
	resume  chan struct{} // receives an order to resume
	over    chan struct{} // closed when clients go on
}

// writesEvery is how often a supervisor that resumes asks whether the writer accepts writes.
const writesEvery = 20 * time.Millisecond

func newSupervisor(b backend, file string, log *slog.Logger) (*Supervisor, error) {
	s := &Supervisor{backend: b, file: file, log: log}
	if log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if file == "" {
		return s, nil
	}
	err := host.ReadJSON(file, &s.state)
	if errors.Is(err, errNotExist) {
		err = nil
	}
	return s, err
}

// Set changes settings and, unless it is empty, the writer. It keeps a pause.
func (s *Supervisor) Set(ctx context.Context, settings port.PoolerSettings, target string) error {
	if err := settings.Check(); err != nil {
		return err
	}
	s.order.Lock()
	defer s.order.Unlock()
	return s.configure(ctx, func(next *state) {
		if next.Settings = settings; target != "" {
			next.Target = target
		}
	})
}

// configure changes the state. The caller holds order.
func (s *Supervisor) configure(ctx context.Context, change func(*state)) error {
	s.mu.Lock()
	next, was := s.state, s.state
	s.mu.Unlock()
	change(&next)
	if next.Target == was.Target && next.Settings.Hash() == was.Settings.Hash() {
		return nil
	}
	if next.Target != "" {
		if err := s.backend.Configure(ctx, next.Settings, next.Target); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.state = next
	s.mu.Unlock()
	if s.file == "" {
		return nil
	}
	return host.WriteJSON(s.file, next)
}

// Pause lets clients wait for Resume, but not longer than limit. It returns when no transaction runs any
// more, or after settle; settled says which.
func (s *Supervisor) Pause(ctx context.Context, settle, limit time.Duration) (settled bool) {
	s.order.Lock()
	s.mu.Lock()
	p := s.pause
	if p == nil {
		p = &pause{until: time.Now().Add(limit), settled: make(chan struct{}), resume: make(chan struct{}, 1), over: make(chan struct{})}
		s.pause = p
		s.ended.Go(func() { s.keep(p) })
	} else if until := time.Now().Add(limit); until.After(p.until) {
		p.until = until
	}
	s.mu.Unlock()
	s.order.Unlock()
	wait := time.NewTimer(settle)
	defer wait.Stop()
	select {
	case <-p.settled:
		return true
	case <-p.over:
	case <-wait.C:
	case <-ctx.Done():
	}
	return false
}

// keep lasts as long as a pause: it ends it as ordered, or at its limit.
func (s *Supervisor) keep(p *pause) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var pausing sync.WaitGroup
	pausing.Go(func() {
		if err := s.backend.Pause(ctx); err == nil {
			close(p.settled)
		} else if ctx.Err() == nil {
			s.log.Warn("pgbouncer did not pause", "error", err)
		}
	})
	ordered := false
	every := time.NewTicker(writesEvery)
	defer every.Stop()
	for {
		select {
		case <-p.resume:
			ordered = true
		case <-every.C:
		}
		s.mu.Lock()
		target, late := s.state.Target, !time.Now().Before(p.until)
		s.mu.Unlock()
		if late && !ordered {
			s.log.Warn("the pause was not ended in time: clients go on", "writer", target)
		}
		if late || ordered && s.writes(target) {
			break
		}
	}
	for s.resume() != nil {
		<-every.C
	}
	cancel()
	pausing.Wait()
	s.mu.Lock()
	s.pause = nil
	s.mu.Unlock()
	close(p.over)
}

func (s *Supervisor) writes(target string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return s.backend.Writes(ctx, target) == nil
}

func (s *Supervisor) resume() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := s.backend.Resume(ctx)
	if errors.Is(err, errNotRunning) { // it starts without a pause
		return nil
	}
	if err != nil {
		s.log.Warn("pgbouncer did not resume", "error", err)
	}
	return err
}

// Resume sends clients to a writer, and ends a pause once that accepts writes.
func (s *Supervisor) Resume(ctx context.Context, target string) error {
	s.order.Lock()
	defer s.order.Unlock()
	if err := s.configure(ctx, func(next *state) {
		if target != "" {
			next.Target = target
		}
	}); err != nil {
		return err
	}
	s.mu.Lock()
	p := s.pause
	s.mu.Unlock()
	if p == nil {
		return nil
	}
	select {
	case p.resume <- struct{}{}:
	default: // it is ordered already
	}
	select {
	case <-p.over:
	case <-ctx.Done():
	}
	return nil
}

func (s *Supervisor) seen() (now state, paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.pause != nil
}

func stateFile(dir string) string { return filepath.Join(dir, "state.json") }
