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
	asks        *prometheus.CounterVec
	undelivered prometheus.Counter
	delay       prometheus.Histogram

	mu     sync.Mutex
	states map[types.NamespacedName]standing
}

// standing is what is counted of one Rollout.
type standing struct {
	state   rollout.State
	stalled bool
	paused  time.Time // since when it waits for a person; zero: it does not
}

func newMetrics(registry prometheus.Registerer, now func() time.Time) (*metrics, error) {
	m := &metrics{
		states: map[types.NamespacedName]standing{},
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
		asks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pawl_rollout_asks_total", Help: "Calls of hooks, metrics, probes and handovers, and gates that were evaluated."}, []string{"kind", "verdict"}),
		undelivered: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pawl_rollout_events_undelivered_total", Help: "Records of the history that an event hook did not get."}),
	}
	m.delay = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "pawl_rollout_release_delay_seconds", Help: "From the event that ended a wait to the accepted write that releases pods.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}})
	stalled := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pawl_rollout_stalled", Help: "Rollouts that do not go on without a person."}, m.stalled)
	paused := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pawl_rollout_longest_pause_seconds", Help: "How long the Rollout that is paused longest has been paused; 0: none is."}, func() float64 { return m.longestPause(now()) })
	for _, c := range []prometheus.Collector{m.rollouts, m.transitions, m.waiting, m.batches, m.asks, m.undelivered, m.delay, stalled, paused} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// moved counts what a saved decision has changed.
func (m *metrics) moved(was, is rollout.Position, records []rollout.Record, now time.Time) {
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

// stands counts a Rollout by where it stands; the zero standing does not exist any more.
func (m *metrics) stands(key types.NamespacedName, is standing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.states[key]
	if was.state != is.state {
		if was.state != "" {
			m.rollouts.WithLabelValues(string(was.state)).Dec()
		}
		if is.state != "" {
			m.rollouts.WithLabelValues(string(is.state)).Inc()
		}
	}
	if m.states[key] = is; is == (standing{}) {
		delete(m.states, key)
	}
}

func (m *metrics) stalled() (n float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.states {
		if s.stalled {
			n++
		}
	}
	return n
}

func (m *metrics) longestPause(now time.Time) (longest float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.states {
		if !s.paused.IsZero() {
			longest = max(longest, now.Sub(s.paused).Seconds())
		}
	}
	return longest
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
