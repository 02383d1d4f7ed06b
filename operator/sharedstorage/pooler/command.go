package pooler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/transport"
)

// Variable holds the Config of a pooler in a pod, as JSON.
const Variable = "PAWL_POOLER_CONFIG"

// Command is what `pawl pooler` runs.
type Command struct {
	Dir    string // folder for the files of pgbouncer and the state
	Config string // file with a Config; empty: config.json in Dir
	InPod  bool   // the configuration is in Variable
	Log    *slog.Logger
}

// Run serves until the context ends. Then it ends pgbouncer.
func (c Command) Run(ctx context.Context) error {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	var config Config
	switch {
	case c.InPod:
		err = json.Unmarshal([]byte(os.Getenv(Variable)), &config)
	case c.Config == "":
		err = host.ReadJSON(filepath.Join(dir, "config.json"), &config)
	default:
		err = host.ReadJSON(c.Config, &config)
	}
	if err != nil {
		return fmt.Errorf("the configuration of the pooler: %w", err)
	}
	return Serve(ctx, dir, config, c.Log)
}

// Serve runs a supervisor and its pgbouncer in a folder until the context ends.
func Serve(ctx context.Context, dir string, config Config, log *slog.Logger) error {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	b, err := newBouncer(dir, config, log)
	if err != nil {
		return err
	}
	s, err := newSupervisor(b, stateFile(dir), log)
	if err != nil {
		return port.PoolerFailed.Errorf("the state of the pooler: %w", err)
	}
	b.started = s.restarted
	if now, _ := s.seen(); now.Target != "" {
		if err := b.Configure(ctx, now.Settings, now.Target); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", config.Listen)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{Handler: handler(s, b), ReadHeaderTimeout: 5 * time.Second, ErrorLog: transport.ErrorLog(log)}
	var all sync.WaitGroup
	all.Go(func() { b.run(ctx) })
	all.Go(func() { s.watchTLS(ctx, b) })
	all.Go(func() {
		<-ctx.Done()
		_ = server.Close() // a caller tries again
	})
	err = server.Serve(transport.NewListener(l, b.tls))
	cancel()
	all.Wait()
	s.end()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// restarted pauses a pgbouncer that was started during a pause.
func (s *Supervisor) restarted() {
	if _, paused := s.seen(); !paused {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := s.backend.Pause(ctx); err != nil {
		s.log.Warn("pgbouncer did not pause", "error", err)
	}
}

// end ends a pause and waits for it.
func (s *Supervisor) end() {
	s.mu.Lock()
	if s.pause != nil {
		s.pause.until = time.Time{}
	}
	s.mu.Unlock()
	s.ended.Wait()
}
