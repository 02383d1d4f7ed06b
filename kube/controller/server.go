package controller

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/pawl-dev/pawl/fault"
)

// checks are the checks of /healthz or /readyz. They may be added at any time.
type checks struct {
	mu    sync.Mutex
	named map[string]healthz.Checker
}

func (c *checks) add(name string, check healthz.Checker) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, twice := c.named[name]; twice || name == "" || check == nil {
		return fmt.Errorf("controller: check %q is empty or known already", name)
	}
	if c.named == nil {
		c.named = map[string]healthz.Checker{}
	}
	c.named[name] = check
	return nil
}

// ServeHTTP answers 200 if all checks succeed, else 503 with the failed ones.
func (c *checks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	named := maps.Clone(c.named)
	c.mu.Unlock()
	var failed []string
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if err := named[name](r); err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", name, err))
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if len(failed) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, strings.Join(failed, "\n"))
		return
	}
	fmt.Fprintln(w, "ok")
}

// newHandler serves health to everyone, and metrics on loopback or with the token.
func newHandler(health, ready *checks, metrics prometheus.Gatherer, token string) http.Handler {
	counted := promhttp.HandlerFor(metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", health)
	mux.Handle("GET /readyz", ready)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r) && !hasToken(r, token) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "metrics need the token of the operator (--metrics-token-file) off loopback", http.StatusUnauthorized)
			return
		}
		counted.ServeHTTP(w, r)
	})
	return mux
}

// isLoopback reports whether a request came to a loopback address. It uses the address of
// the connection, not a header.
func isLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at, err := netip.ParseAddrPort(addr.String())
	return err == nil && at.Addr().Unmap().IsLoopback()
}

func hasToken(r *http.Request, token string) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}

// serve adds the server of health and metrics to the manager. It listens at once, so that
// a port in use is reported early.
func (m *Manager) serve(listen, token string) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fault.ListenFailed.Errorf("%w", err)
	}
	m.listener = listener
	server := &http.Server{
		Handler:           newHandler(&m.health, &m.ready, m.Gatherer(), token),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, WriteTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	patience := 5 * time.Second
	return errors.Join(
		m.health.add("ping", healthz.Ping),
		m.ready.add("caches", func(*http.Request) error {
			if n := m.unsynced.Load(); n > 0 {
				return fmt.Errorf("the caches of %d sources are not filled yet", n)
			}
			return nil
		}),
		m.Manager.Add(&manager.Server{Name: "health and metrics", Server: server, Listener: listener, ShutdownTimeout: &patience}),
	)
}
