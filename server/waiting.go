package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server/route"
)

// WaitingServer answers while the server cannot start because its database is not
// available: /healthz reports that the process lives, all other paths why it is not
// ready.
type WaitingServer struct {
	options Options
	ln      net.Listener
	http    *http.Server
	ended   sync.WaitGroup

	mu    sync.Mutex
	cause error
}

// NewWaitingServer listens as a server with these options does. It needs no engine.
func NewWaitingServer(o Options, cause error) (*WaitingServer, error) {
	if o.Listen == "" {
		o.Listen = DefaultListen
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if err := checkOptions(o); err != nil {
		return nil, err
	}
	ln, err := listen(o)
	if err != nil {
		return nil, err
	}
	w := &WaitingServer{options: o, ln: ln, cause: cause}
	w.http = &http.Server{Handler: http.HandlerFunc(w.answer), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug)}
	w.http.SetKeepAlivesEnabled(false) // the next request may reach the real server
	w.ended.Go(func() {
		if err := w.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			o.Logger.Error("the waiting server does not answer any more", "error", err)
		}
	})
	return w, nil
}

// Addr returns the address of the listener.
func (w *WaitingServer) Addr() net.Addr { return w.ln.Addr() }

// SetCause sets why it waits.
func (w *WaitingServer) SetCause(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cause = cause
}

// Close closes the listener and waits up to a second for open requests.
func (w *WaitingServer) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if w.http.Shutdown(ctx) != nil {
		_ = w.http.Close()
	}
	w.ended.Wait()
}

func (w *WaitingServer) answer(to http.ResponseWriter, r *http.Request) {
	r, _ = route.Begin(r, &route.Route{})
	to.Header().Set("X-Content-Type-Options", "nosniff")
	to.Header().Set("Cache-Control", "no-cache")
	if r.URL.Path == "/healthz" {
		to.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(to).Encode(Health{Status: "ok", Version: w.options.Version}) // the caller may have disconnected
		return
	}
	w.mu.Lock()
	cause := w.cause
	w.mu.Unlock()
	if r.URL.Path != "/readyz" {
		cause = fault.Of(cause).Errorf("the server waits for its database")
	}
	route.WriteProblem(to, r, route.NotReady.Errorf("%w", cause))
}
