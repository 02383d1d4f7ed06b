package postgres

import (
	"context"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/metrics"
)

// metrics is the handler of /metrics. It needs no token: it has numbers and names only.
func (a *Agent) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	labels := prometheus.Labels{"namespace": a.cfg.Cluster.Namespace, "cluster": a.cfg.Cluster.Name, "instance": a.name}
	prometheus.WrapRegistererWith(labels, registry).MustRegister(&metrics.Collector{
		Folder: a.srv.dir, Queries: a.cfg.QueriesFile, Log: a.log, Facts: a.facts,
		Connect: func(ctx context.Context, database string) (*pgx.Conn, error) {
			return socket(ctx, a.srv.path(runName), a.cfg.Port, database)
		},
	})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 2})
}

// facts are what the metrics tell without asking the engine for them.
func (a *Agent) facts(ctx context.Context) metrics.Facts {
	f := metrics.Facts{Version: a.version, Running: a.engine().Running()}
	if s, err := a.Status(ctx); err == nil {
		f.Ready = s.Ready
	}
	a.mu.Lock()
	f.Epoch = a.rec.Epoch
	a.mu.Unlock()
	if s := a.lease.Status(); s.Writing {
		f.Writer, f.Epoch, f.Alone, f.Lease = true, s.Epoch, s.Alone, s.Left.Round(time.Millisecond)
	}
	return f
}
