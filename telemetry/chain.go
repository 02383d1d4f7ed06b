package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/outcome"
)

// ChainMetrics counts what the links of chains report.
type ChainMetrics struct {
	seconds *prometheus.HistogramVec
	acts    *prometheus.CounterVec
}

// NewChainMetrics registers the metrics of chains in a registry:
//
//	pawl_chain_link_seconds{chain,link,outcome}  passes over a link, by what it reported: done, later, wait or fail
//	pawl_chain_acts_total{chain,link}            acts that were carried out
func NewChainMetrics(registry prometheus.Registerer) (*ChainMetrics, error) {
	m := &ChainMetrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pawl_chain_link_seconds", Help: "Passes over a link by what it reported.",
			Buckets: []float64{.0001, .001, .01, .1, 1, 10, 60}}, []string{"chain", "link", "outcome"}),
		acts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pawl_chain_acts_total", Help: "Acts of links that were carried out."}, []string{"chain", "link"}),
	}
	if err := registry.Register(m.seconds); err != nil {
		return nil, err
	}
	return m, registry.Register(m.acts)
}

// Observe counts one pass of a chain.
func (m *ChainMetrics) Observe(name string, r chain.Report) {
	for _, link := range r.Links {
		m.seconds.WithLabelValues(name, link.Name, outcomeLabel(link.Outcome)).Observe(link.Took.Seconds())
		if link.Acts > 0 {
			m.acts.WithLabelValues(name, link.Name).Add(float64(link.Acts))
		}
	}
}

func outcomeLabel(out outcome.Outcome) string {
	switch {
	case out.IsFail():
		return "fail"
	case out.IsWait():
		return "wait"
	case out.IsLater():
		return "later"
	}
	return "done"
}
