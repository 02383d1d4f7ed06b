package telemetry

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/cluster/service"
)

// Clusters are the metrics of container clusters. It implements service.Metrics.
type Clusters struct {
	operations, calls, collected *prometheus.CounterVec
	operationTime, callTime      *prometheus.HistogramVec
	passTime                     *prometheus.HistogramVec

	mu     sync.Mutex
	passed map[string]time.Time // time of the newest pass, by provider
}

var _ service.Metrics = (*Clusters)(nil)

// NewClusters creates the metrics in the registry of m.
func NewClusters(m *Metrics) *Clusters {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pawl_cluster_" + name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "pawl_cluster_" + name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(h)
		return h
	}
	return &Clusters{
		operations:    counter("operations_total", "Operations by outcome.", "op", "outcome"),
		operationTime: histogram("operation_seconds", "From the acceptance of an operation to its end.", []float64{1, 5, 15, 60, 180, 600, 1800, 3600}, "op"),
		calls:         counter("provider_calls_total", "Calls of providers by outcome.", "provider", "call", "outcome"),
		callTime:      histogram("provider_call_seconds", "Time of a provider's call.", prometheus.DefBuckets, "provider", "call"),
		collected:     counter("gc_attempts_total", "Attempts of the garbage collector by outcome.", "outcome"),
		passTime:      histogram("sync_pass_seconds", "Time of a pass of the state synchronisation.", []float64{.01, .05, .2, 1, 3, 10, 30}, "provider"),
		passed:        map[string]time.Time{},
	}
}

// Operation implements service.Metrics.
func (c *Clusters) Operation(kind, outcome string, took time.Duration) {
	c.operations.WithLabelValues(kind, outcome).Inc()
	c.operationTime.WithLabelValues(kind).Observe(took.Seconds())
}

// ProviderCall implements service.Metrics.
func (c *Clusters) ProviderCall(provider, call, outcome string, took time.Duration) {
	c.calls.WithLabelValues(provider, call, outcome).Inc()
	c.callTime.WithLabelValues(provider, call).Observe(took.Seconds())
}

// SyncPass implements service.Metrics.
func (c *Clusters) SyncPass(provider string, took time.Duration, _ int) {
	c.passTime.WithLabelValues(provider).Observe(took.Seconds())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passed[provider] = time.Now()
}

// Collected implements service.Metrics.
func (c *Clusters) Collected(outcome string) { c.collected.WithLabelValues(outcome).Inc() }

// Watch adds metrics that are counted at a scrape, but not more often than once per interval.
func (c *Clusters) Watch(m *Metrics, counts func(context.Context) (api.Counts, error), every time.Duration) {
	m.registry.MustRegister(&countCache{clusters: c, counts: counts, every: every})
}

var (
	clustersDesc = prometheus.NewDesc("pawl_cluster_clusters", "Clusters in a state.", []string{"state"}, nil)
	driftDesc    = prometheus.NewDesc("pawl_cluster_drift", "Findings of clusters in Alert.", []string{"type"}, nil)
	backlogDesc  = prometheus.NewDesc("pawl_cluster_gc_backlog", "Clusters that the collector has yet to delete.", nil, nil)
	leakedDesc   = prometheus.NewDesc("pawl_cluster_leaked_resources", "Resources in the leak report.", []string{"kind"}, nil)
	overdueDesc  = prometheus.NewDesc("pawl_cluster_transient_overdue", "Clusters in a transient state past its deadline.", nil, nil)
	journalDesc  = prometheus.NewDesc("pawl_cluster_journal_open", "Journal rows whose operation has not ended.", []string{"phase"}, nil)
	syncAgeDesc  = prometheus.NewDesc("pawl_cluster_sync_age_seconds", "Time since the newest pass of the state synchronisation here.", []string{"provider"}, nil)
)

// countCache counts the cluster records, at most once per interval.
type countCache struct {
	clusters *Clusters
	counts   func(context.Context) (api.Counts, error)
	every    time.Duration

	mu   sync.Mutex
	at   time.Time
	last api.Counts
}

// Describe sends nothing: the labels are known only at a scrape.
func (t *countCache) Describe(chan<- *prometheus.Desc) {}

// Collect sends the counts.
func (t *countCache) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	t.clusters.mu.Lock()
	for provider, at := range t.clusters.passed {
		gauge(syncAgeDesc, time.Since(at).Seconds(), provider)
	}
	t.clusters.mu.Unlock()
	counted, err := t.count()
	if err != nil {
		out <- prometheus.NewInvalidMetric(clustersDesc, err)
		return
	}
	for state, n := range counted.States {
		gauge(clustersDesc, float64(n), string(state))
	}
	for kind, n := range counted.Drift {
		gauge(driftDesc, float64(n), string(kind))
	}
	for kind, n := range counted.Leaked {
		gauge(leakedDesc, float64(n), string(kind))
	}
	for phase, n := range counted.Open {
		gauge(journalDesc, float64(n), string(phase))
	}
	gauge(backlogDesc, float64(counted.Backlog))
	gauge(overdueDesc, float64(counted.Overdue))
}

func (t *countCache) count() (api.Counts, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.at.IsZero() && time.Since(t.at) < t.every {
		return t.last, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	counted, err := t.counts(ctx)
	if err == nil {
		t.last, t.at = counted, time.Now()
	}
	return counted, err
}
