package rollout

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

// metrics are the metrics of this operator. No label names an object.
type metrics struct {
	rollouts    *prometheus.GaugeVec
	transitions *prometheus.CounterVec
	waiting     *prometheus.HistogramVec
	batches     prometheus.Histogram
	delays      prometheus.Histogram
	asks        *prometheus.CounterVec
	undelivered prometheus.Counter

	mu     sync.Mutex
	states map[types.NamespacedName]rollout.State
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		states: map[types.NamespacedName]rollout.State{},
		rollouts: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pawl_rollout_rollouts", Help: "Rollouts by state."}, []string{"state"}),
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pawl_rollout_transitions_total", Help: "Transitions by the state that was left and the event."}, []string{"state", "event"}),
		waiting: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pawl_rollout_waiting_seconds", Help: "How long waits lasted, by reason.",
			Buckets: []float64{.1, .5, 2, 10, 60, 300, 1800, 7200, 86400}}, []string{"reason"}),
		batches: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pawl_rollout_batch_duration_seconds", Help: "How long batches took, from their begin to their end.",
			Buckets: []float64{1, 5, 20, 60, 300, 1800, 7200, 86400}}),
		delays: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pawl_rollout_release_delay_seconds", Help: "From the event that let the next batch begin to the write that releases it.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 5, 30}}),
		asks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pawl_rollout_asks_total", Help: "Calls of hooks, metrics, probes and handovers, and gates that were evaluated."}, []string{"kind", "verdict"}),
		undelivered: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pawl_rollout_events_undelivered_total", Help: "Records of the history that an event hook did not get."}),
	}
	for _, c := range []prometheus.Collector{m.rollouts, m.transitions, m.waiting, m.batches, m.delays, m.asks, m.undelivered} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// moved counts what a saved decision has changed.
func (m *metrics) moved(key types.NamespacedName, was, is rollout.Position, records []rollout.Record, now time.Time) {
	m.state(key, is.State)
	for _, r := range records {
		m.transitions.WithLabelValues(r.From, string(r.Event)).Inc()
	}
	if w := was.Waiting; w != nil && (is.Waiting == nil || is.Waiting.Reason != w.Reason) {
		m.waiting.WithLabelValues(w.Reason).Observe(now.Sub(w.Since).Seconds())
	}
	for i, b := range is.Batches {
		if b.End != nil && b.Start != nil && (was.Batches[i].End == nil || !was.Batches[i].End.Equal(*b.End)) {
			m.batches.Observe(b.End.Sub(*b.Start).Seconds())
		}
	}
}

// released counts a release of a batch behind the first.
func (m *metrics) released(delay time.Duration) { m.delays.Observe(delay.Seconds()) }

// state counts a Rollout in its state; an empty one does not exist any more.
func (m *metrics) state(key types.NamespacedName, is rollout.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.states[key]
	if was == is {
		return
	}
	if was != "" {
		m.rollouts.WithLabelValues(string(was)).Dec()
	}
	delete(m.states, key)
	if is != "" {
		m.rollouts.WithLabelValues(string(is)).Inc()
		m.states[key] = is
	}
}

// asked counts one answer.
func (m *metrics) asked(ask rollout.Ask, a rollout.Answer) {
	verdict := "passed"
	fails := func(out outcome.Outcome) {
		switch {
		case out.IsFail():
			verdict = "failed"
		case out.IsWait():
			verdict = "again"
		}
	}
	switch ask.Kind {
	case rollout.AskWebhook, rollout.AskFlow:
		fails(ask.Hook.Judge(ask.Attempt, a).Outcome)
	case rollout.AskMetric:
		measured := ask.Metric.Judge(a, rollout.Measured{}).Measured
		switch {
		case measured.Failed > 0:
			verdict = "failed"
		case measured.Inconclusive > 0:
			verdict = "inconclusive"
		}
	case rollout.AskGate, rollout.AskProbe:
		if !a.Open {
			verdict = "failed"
		}
	case rollout.AskHandover:
		if a.Code != "" {
			verdict = "failed"
		}
	}
	m.asks.WithLabelValues(strings.ToLower(string(ask.Kind)), verdict).Inc()
}

// delivered counts a record that was given up.
func (m *metrics) delivered(v rollout.Verdict) {
	if v.Outcome.IsFail() {
		m.undelivered.Inc()
	}
}
