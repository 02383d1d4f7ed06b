package pooler

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/transport"
)

// The calls of a supervisor.
type (
	setCall struct {
		Settings port.PoolerSettings `json:"settings"`
		Target   string              `json:"target,omitempty"`
	}
	pauseCall struct {
		Settle host.Duration `json:"settle"`
		Limit  host.Duration `json:"limit"`
	}
	resumeCall struct {
		Target string `json:"target,omitempty"`
	}
	problem struct {
		Message string `json:"message"`
	}
)

const maxBody = 1 << 20

func handler(s *Supervisor, b *bouncer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, map[string]string{"name": b.config.Name})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if st := status(r.Context(), s, b); !st.Ready {
			respond(w, http.StatusServiceUnavailable, problem{st.Message})
			return
		}
		respond(w, http.StatusOK, nil)
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) { writeMetrics(w, b.config, status(r.Context(), s, b)) })
	mux.Handle("GET /v1/status", b.guarded(func(w http.ResponseWriter, r *http.Request) {
		respond(w, http.StatusOK, status(r.Context(), s, b))
	}))
	mux.Handle("POST /v1/set", b.guarded(call(func(ctx context.Context, in setCall) error { return s.Set(ctx, in.Settings, in.Target) })))
	mux.Handle("POST /v1/pause", b.guarded(call(func(ctx context.Context, in pauseCall) error {
		s.Pause(ctx, time.Duration(in.Settle), time.Duration(in.Limit))
		return nil
	})))
	mux.Handle("POST /v1/resume", b.guarded(call(func(ctx context.Context, in resumeCall) error { return s.Resume(ctx, in.Target) })))
	return mux
}

// status returns what Port.Observe tells of a pooler, besides its place.
func status(ctx context.Context, s *Supervisor, b *bouncer) port.PoolerStatus {
	now, paused := s.seen()
	st := port.PoolerStatus{Name: b.config.Name, Port: b.config.Port, Paused: paused, Writer: now.Target, Settings: now.Settings.Hash(), TLS: b.tls.Certificate() != nil, Identity: b.tls.Identity()}
	st.Address, _, _ = net.SplitHostPort(b.address())
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	n, err := b.counts(ctx)
	switch {
	case now.Target == "":
		st.Message = "it was not told yet where the writer is"
	case b.refuses():
		st.Message = "it refuses all clients: they must use TLS (spec.tls.require), and there is no certificate; the condition TLSReady says why"
	case err != nil:
		st.Message = err.Error()
	default:
		st.Ready = true
	}
	st.Clients, st.Waiting, st.Servers = n.Clients, n.Waiting, n.Servers
	return st
}

func writeMetrics(w http.ResponseWriter, c Config, st port.PoolerStatus) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	labels := fmt.Sprintf("{namespace=%q,cluster=%q,pooler=%q}", c.Cluster.Namespace, c.Cluster.Name, c.Name)
	flag := func(on bool) int {
		if on {
			return 1
		}
		return 0
	}
	for _, m := range []struct {
		name, help string
		value      int
	}{
		{"pawl_pooler_up", "pgbouncer answers", flag(st.Ready)},
		{"pawl_pooler_paused", "clients wait for the end of a switch", flag(st.Paused)},
		{"pawl_pooler_clients", "connections of clients", st.Clients},
		{"pawl_pooler_clients_waiting", "clients that wait for a connection to the writer", st.Waiting},
		{"pawl_pooler_servers", "connections to the writer", st.Servers},
	} {
		_, _ = fmt.Fprintf(w, "# HELP %s %s.\n# TYPE %s gauge\n%s%s %d\n", m.name, m.help, m.name, m.name, labels, m.value) // the caller went away
	}
}

func (b *bouncer) guarded(next http.HandlerFunc) http.Handler {
	return transport.Guard(b.tls, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, err := secret(b.config.TokenFile)
		shown, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(shown))
		if err != nil || !ok || subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			respond(w, http.StatusUnauthorized, problem{"the token of the cluster is needed"})
			return
		}
		next(w, r)
	}))
}

func call[In any](do func(context.Context, In) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&in); err != nil {
			respond(w, http.StatusBadRequest, problem{err.Error()})
			return
		}
		if err := do(r.Context(), in); err != nil {
			respond(w, http.StatusUnprocessableEntity, problem{fault.Message(err)})
			return
		}
		respond(w, http.StatusOK, nil)
	}
}

func respond(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value) // the caller went away
}
