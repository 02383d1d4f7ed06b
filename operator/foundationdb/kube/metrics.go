package kube

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics measure the links of the chain.
//
//	pawl_foundationdb_link_seconds{link}                  how long a link took
//	pawl_foundationdb_links_total{link,result,reason}     how it ended: done, later, wait or fail
type Metrics struct {
	seconds *prometheus.HistogramVec
	total   *prometheus.CounterVec
}

// NewMetrics registers the metrics, or returns those that are registered.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pawl_foundationdb_link_seconds", Help: "How long a link of the chain of a FoundationDBCluster took.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 10, 7),
		}, []string{"link"}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pawl_foundationdb_links_total", Help: "Links of the chain of a FoundationDBCluster by how they ended: done, later, wait, fail.",
		}, []string{"link", "result", "reason"}),
	}
	var err error
	if m.seconds, err = registered(r, m.seconds); err != nil {
		return nil, err
	}
	m.total, err = registered(r, m.total)
	return m, err
}

func registered[C prometheus.Collector](r prometheus.Registerer, c C) (C, error) {
	err := r.Register(c)
	if there, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if same, ok := there.ExistingCollector.(C); ok {
			return same, nil
		}
	}
	return c, err
}

// Link counts a link that ran.
func (m *Metrics) Link(_, link string, took time.Duration, result, reason string) {
	m.seconds.WithLabelValues(link).Observe(took.Seconds())
	m.total.WithLabelValues(link, result, reason).Inc()
}
