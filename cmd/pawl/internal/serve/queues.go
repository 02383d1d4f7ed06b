package serve

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// queues are the metrics of the machines' queues. The depth is
// read at each scrape.
type queues struct {
	mu      sync.Mutex
	depth   map[string]int
	latency *prometheus.HistogramVec
	work    *prometheus.HistogramVec
	retries *prometheus.CounterVec
	relists *prometheus.CounterVec
}

var _ control.Metrics = (*queues)(nil)

func newQueues(registry *prometheus.Registry) *queues {
	spans := prometheus.ExponentialBuckets(0.001, 4, 9) // 1 ms to 65 s
	q := &queues{
		depth: map[string]int{},
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "pawl_control_queue_latency_seconds",
			Help: "Time a key was ready before a worker took it.", Buckets: spans}, []string{"queue"}),
		work: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "pawl_control_work_seconds",
			Help: "Time one pass over an object took.", Buckets: spans}, []string{"queue"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pawl_control_retries_total",
			Help: "Failed passes by the code of their fault; exhausted: the key was given up."}, []string{"queue", "code", "exhausted"}),
		relists: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pawl_control_relists_total",
			Help: "Lists of a source after the first."}, []string{"source"}),
	}
	registry.MustRegister(q.latency, q.work, q.retries, q.relists)
	return q
}

// depths returns the depth of each queue.
func (q *queues) depths() map[string]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.depth)
}

// Depth implements control.Metrics.
func (q *queues) Depth(name string, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.depth[name] = n
}

// Latency implements control.Metrics.
func (q *queues) Latency(name string, d time.Duration) {
	q.latency.WithLabelValues(name).Observe(d.Seconds())
}

// Work implements control.Metrics.
func (q *queues) Work(name string, d time.Duration, _ outcome.Outcome) {
	q.work.WithLabelValues(name).Observe(d.Seconds())
}

// Retry implements control.Metrics.
func (q *queues) Retry(name string, code fault.Code, exhausted bool) {
	last := "false"
	if exhausted {
		last = "true"
	}
	q.retries.WithLabelValues(name, string(code), last).Inc()
}

// Relist implements control.Metrics.
func (q *queues) Relist(name string) { q.relists.WithLabelValues(name).Inc() }
