package telemetry

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Metrics counts the events of runs. Its registry also contains the metrics of Go and the process.
type Metrics struct {
	registry *prometheus.Registry
	watch    *stopwatch

	created, runs, steps, retries, faults, signals, healings, lost, limitWaits *prometheus.CounterVec
	runTime, stepTime                                                          *prometheus.HistogramVec
	requests                                                                   *prometheus.CounterVec
	requestTime                                                                *prometheus.HistogramVec
	sent                                                                       *prometheus.CounterVec
}

// NewMetrics creates metrics in a new registry.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), watch: newStopwatch()}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(h)
		return h
	}
	spans := []float64{.001, .005, .02, .1, .5, 2, 10, 60, 300, 1800, 7200}
	m.created = counter("pawl_workflow_runs_created_total", "Runs that were accepted.", "flow")
	m.runs = counter("pawl_workflow_runs_total", "Runs that entered a phase.", "flow", "phase")
	m.runTime = histogram("pawl_workflow_run_seconds", "From the acceptance of a run to its end.", append(slices.Clone(spans), 86400), "flow", "phase")
	m.steps = counter("pawl_workflow_steps_total", "Attempts of steps by outcome.", "flow", "step", "outcome")
	m.stepTime = histogram("pawl_workflow_step_seconds", "Attempts of steps, from their opening to their end.", spans, "flow", "outcome")
	m.retries = counter("pawl_workflow_retries_total", "Failures of steps that are tried again.", "flow", "code")
	m.faults = counter("pawl_workflow_faults_total", "Faults that paused a run.", "flow", "code")
	m.lost = counter("pawl_workflow_lost_attempts_total", "Attempts whose worker died or lost its lease.", "flow")
	m.limitWaits = counter("pawl_workflow_limit_waits_total", "Steps, and starts of runs, that had to wait for a limit.", "flow", "step")
	m.signals = counter("pawl_workflow_signals_total", "Signals that steps have taken.", "flow")
	m.healings = counter("pawl_workflow_healings_total", "Healings that were started.", "flow", "code")
	m.requests = counter("pawl_http_requests_total", "Answered requests.", "method", "route", "status")
	m.requestTime = histogram("pawl_http_request_seconds", "From a request to the end of its answer.", prometheus.DefBuckets, "method", "route")
	m.sent = counter("pawl_http_sent_bytes_total", "Bytes of answers.", "route")
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Registry returns the registry, for further metrics and for tests.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Handler serves /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, EnableOpenMetrics: true})
}

// Hook counts saved events.
func (m *Metrics) Hook() workflow.Hook { return workflow.Hook{Name: "metrics", OnEvent: m.onEvent} }

func (m *Metrics) onEvent(info workflow.RunInfo, e runtype.Event) {
	begun := m.watch.observe(e)
	if phase, ok := phases[e.Kind]; ok {
		m.runs.WithLabelValues(info.Flow, string(phase)).Inc()
		if endsRun(e.Kind) && !begun.IsZero() {
			m.runTime.WithLabelValues(info.Flow, string(phase)).Observe(e.At.Sub(begun).Seconds())
		}
	}
	if endsAttempt(e.Kind) {
		how := outcomeOf(e.Kind)
		m.steps.WithLabelValues(info.Flow, withoutLoopKeys(e.Step), how).Inc()
		if !begun.IsZero() {
			m.stepTime.WithLabelValues(info.Flow, how).Observe(e.At.Sub(begun).Seconds())
		}
	}
	switch e.Kind {
	case runtype.RunCreated:
		m.created.WithLabelValues(info.Flow).Inc()
	case runtype.RunPaused:
		m.faults.WithLabelValues(info.Flow, codeLabel(e.Code)).Inc()
	case runtype.StepRetryingEvent:
		m.retries.WithLabelValues(info.Flow, codeLabel(e.Code)).Inc()
	case runtype.StepLost:
		m.lost.WithLabelValues(info.Flow).Inc()
	case runtype.StepWaitingEvent, runtype.RunWaiting:
		if e.Reason == workflow.ReasonLimit && (e.Kind == runtype.StepWaitingEvent || e.Step == "") {
			m.limitWaits.WithLabelValues(info.Flow, withoutLoopKeys(e.Step)).Inc()
		}
	case runtype.SignalReceived:
		m.signals.WithLabelValues(info.Flow).Inc()
	case runtype.HealingBegun:
		m.healings.WithLabelValues(info.Flow, codeLabel(e.Code)).Inc()
	}
}

// phases are the phases that a run enters with an event.
var phases = map[runtype.EventKind]runtype.Phase{
	runtype.RunStarted: runtype.Running, runtype.RunResumed: runtype.Running, runtype.RunWaiting: runtype.Waiting, runtype.RunPaused: runtype.Paused,
	runtype.RunCancelling: runtype.Cancelling, runtype.RunCancelled: runtype.Cancelled, runtype.RunSucceeded: runtype.Succeeded,
}

// codeLabel limits the values of a label to declared codes.
func codeLabel(code fault.Code) string {
	if _, ok := fault.Lookup(string(code)); ok {
		return string(code)
	}
	return string(fault.Unknown.Code)
}

// Request counts one answered HTTP request. The route is a pattern, never a path.
func (m *Metrics) Request(method, route string, status int, took time.Duration, bytes int64) {
	route = cmp.Or(route, "none")
	m.requests.WithLabelValues(methodLabel(method), route, strconv.Itoa(status)).Inc()
	m.requestTime.WithLabelValues(methodLabel(method), route).Observe(took.Seconds())
	m.sent.WithLabelValues(route).Add(float64(bytes))
}

// methodLabel limits the values of a label to known methods.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// Sources are read at each scrape. All are optional.
type Sources struct {
	Engine Engine
	Stats  func() map[string]float64                              // counters of the store since it was opened, such as commits, syncs, bytes
	Runs   func(context.Context) (map[runtype.Phase]int64, error) // number of runs per phase; see CountActive
	Queues func() map[string]int                                  // depth of work queues by name
}

// Engine is the part of an engine that a scrape reads.
type Engine interface {
	Dropped() map[string]int64
	Health() error
}

// Watch adds metrics that are read at each scrape.
func (m *Metrics) Watch(s Sources) { m.registry.MustRegister(&sources{Sources: s}) }

var (
	runsDesc    = prometheus.NewDesc("pawl_workflow_runs", "Runs in a phase that is not final.", []string{"phase"}, nil)
	droppedDesc = prometheus.NewDesc("pawl_workflow_hook_dropped_total", "Events that a hook did not receive because its queue was full.", []string{"hook"}, nil)
	upDesc      = prometheus.NewDesc("pawl_store_up", "1 while the store accepts writes, else 0 with the code of its fault.", []string{"code"}, nil)
	queueDesc   = prometheus.NewDesc("pawl_control_queue_depth", "Keys that wait for a worker.", []string{"queue"}, nil)
)

type sources struct{ Sources }

// Describe sends nothing: the metrics of the store are known only at a scrape.
func (s *sources) Describe(chan<- *prometheus.Desc) {}

// Collect reads the sources.
func (s *sources) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if s.Engine != nil {
		if err := s.Engine.Health(); err != nil {
			gauge(upDesc, 0, codeLabel(fault.Of(err).Code))
		} else {
			gauge(upDesc, 1, "")
		}
		for hook, n := range s.Engine.Dropped() {
			out <- prometheus.MustNewConstMetric(droppedDesc, prometheus.CounterValue, float64(n), hook)
		}
	}
	if s.Runs != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		counts, err := s.Runs(ctx)
		cancel()
		if err != nil {
			out <- prometheus.NewInvalidMetric(runsDesc, err)
		}
		for phase, n := range counts {
			gauge(runsDesc, float64(n), string(phase))
		}
	}
	if s.Queues != nil {
		for name, n := range s.Queues() {
			gauge(queueDesc, float64(n), name)
		}
	}
	if s.Stats != nil {
		stats := s.Stats()
		for _, name := range slices.Sorted(maps.Keys(stats)) {
			d := prometheus.NewDesc("pawl_store_"+name+"_total", "What the store wrote since it was opened: "+name+".", nil, nil)
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, stats[name])
		}
	}
}

// CountActive counts the runs that have not ended. It reads the list of a store, at most once per
// interval. It stops counting at 10,000 runs.
func CountActive(lister runstore.Lister, every time.Duration) func(context.Context) (map[runtype.Phase]int64, error) {
	var mu sync.Mutex
	var last map[runtype.Phase]int64
	var at time.Time
	return func(ctx context.Context) (map[runtype.Phase]int64, error) {
		mu.Lock()
		defer mu.Unlock()
		if last != nil && time.Since(at) < every {
			return last, nil
		}
		counts := map[runtype.Phase]int64{runtype.Queued: 0, runtype.Running: 0, runtype.Waiting: 0, runtype.Paused: 0, runtype.Cancelling: 0}
		cursor := ""
		for range 10 {
			runs, next, err := lister.List(ctx, runstore.Query{Active: true, Limit: 1000, Cursor: cursor})
			if err != nil {
				return nil, err
			}
			for _, r := range runs {
				counts[r.Phase]++
			}
			if cursor = next; cursor == "" {
				break
			}
		}
		last, at = counts, time.Now()
		return counts, nil
	}
}
