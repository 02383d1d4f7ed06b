package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// metrics are the metrics of this package, in the registry of a manager: two managers in a
// process do not share them. controller-runtime has one registry for the process; the
// Manager serves both.
type metrics struct {
	passes   *prometheus.CounterVec
	passTime *prometheus.HistogramVec
	failures *prometheus.CounterVec
	givenUp  *prometheus.CounterVec
}

func newMetrics(registry *prometheus.Registry) (*metrics, error) {
	m := &metrics{
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pawl_controller_passes_total", Help: "Passes over objects by outcome."}, []string{"controller", "outcome"}),
		passTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pawl_controller_pass_seconds", Help: "How long passes took.",
			Buckets: []float64{.001, .005, .02, .1, .5, 2, 10, 60}}, []string{"controller"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pawl_controller_failures_total", Help: "Passes that failed by the code of the fault."}, []string{"controller", "code"}),
		givenUp: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pawl_controller_given_up_total", Help: "Objects given up with RETRIES_EXHAUSTED by the code of the last failure."}, []string{"controller", "code"}),
	}
	for _, c := range []prometheus.Collector{m.passes, m.passTime, m.failures, m.givenUp} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) pass(name string, took time.Duration, out outcome.Outcome) {
	m.passes.WithLabelValues(name, label(out)).Inc()
	m.passTime.WithLabelValues(name).Observe(took.Seconds())
	if out.IsFail() {
		m.failures.WithLabelValues(name, string(fault.Of(out.Err()).Code)).Inc()
	}
}

func label(out outcome.Outcome) string {
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

// gatherers merges several gatherers. If two have the same family, the first one is used.
type gatherers []prometheus.Gatherer

// Gather implements prometheus.Gatherer.
func (all gatherers) Gather() (found []*dto.MetricFamily, err error) {
	seen := map[string]bool{}
	var errs prometheus.MultiError
	for _, g := range all {
		families, err := g.Gather()
		errs.Append(err)
		for _, f := range families {
			if !seen[f.GetName()] {
				seen[f.GetName()] = true
				found = append(found, f)
			}
		}
	}
	return found, errs.MaybeUnwrap()
}
