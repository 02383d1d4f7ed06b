package rollout

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// PrometheusTimeout is how long one query may take by default.
const PrometheusTimeout = 10 * time.Second

const (
	metricInterval    = time.Minute
	inconclusiveLimit = 3
)

// Measured is what the measurements of a metric have given so far.
type Measured struct {
	Passed       int `json:"passed,omitempty"`
	Failed       int `json:"failed,omitempty"`
	Inconclusive int `json:"inconclusive,omitempty"` // in a row
}

func (m Metric) defaulted(onFailure OnFailure) Metric {
	if m.Interval == 0 {
		m.Interval = Duration(metricInterval)
	}
	if m.Count == 0 {
		m.Count = 1
	}
	if m.InconclusiveLimit == nil {
		m.InconclusiveLimit = new(inconclusiveLimit)
	}
	if m.OnFailure == "" {
		m.OnFailure = onFailure
	}
	if m.OnInconclusive == "" {
		m.OnInconclusive = OnFailurePause
	}
	if p := m.Provider.Prometheus; p != nil && p.Timeout == 0 {
		q := *p
		q.Timeout = Duration(PrometheusTimeout)
		m.Provider.Prometheus = &q
	}
	return m
}

// Judge is the verdict after one more measurement: the metric has passed, is measured again after its
// interval, or has failed with METRIC_FAILED or METRIC_INCONCLUSIVE. The verdict's Measured replaces
// so.
func (m Metric) Judge(a Answer, so Measured) Verdict {
	m = m.defaulted("")
	again := waits(time.Duration(m.Interval), "Measuring", "metric %s: %d of %d measurements have passed", m.Name, so.Passed, m.Count)
	switch result, why := m.measure(a); result {
	case inRange:
		so.Passed++
		so.Inconclusive = 0
		again = waits(time.Duration(m.Interval), "Measuring", "metric %s: %s; %d of %d measurements have passed", m.Name, why, so.Passed, m.Count)
		again.Done = so.Passed >= m.Count
		if again.Done {
			again = passed()
		}
	case outOfRange:
		so.Failed++
		so.Inconclusive = 0
		if so.Failed > m.FailureLimit {
			again = refused(MetricFailed.Errorf("metric %s: %s", m.Name, why).With("metric", m.Name).With("value", strings.Join(a.Samples, " ")))
		}
	case inconclusive:
		so.Inconclusive++
		if so.Inconclusive > *m.InconclusiveLimit {
			again = refused(MetricInconclusive.Errorf("metric %s: %s", m.Name, why).With("metric", m.Name))
		}
	}
	again.Measured = so
	return again
}

type measurement int

const (
	inRange measurement = iota
	outOfRange
	inconclusive
)

// measure compares one answer with the range.
func (m Metric) measure(a Answer) (measurement, string) {
	if a.Code != "" || a.Message != "" {
		return inconclusive, strings.TrimSuffix("ProviderError: "+strings.TrimPrefix(string(a.Code)+": "+a.Message, ": "), ": ")
	}
	if len(a.Samples) == 0 {
		return inconclusive, "NoData: the answer has no sample"
	}
	result, why := inRange, strings.Join(a.Samples, " ")
	for _, s := range a.Samples {
		value, err := strconv.ParseFloat(s, 64)
		switch {
		case err != nil:
			return inconclusive, "ProviderError: " + strconv.Quote(s) + " is no number"
		case math.IsNaN(value) || math.IsInf(value, 0):
			return inconclusive, "NoData: a sample is " + s
		case !m.MetricsRange.holds(value):
			result, why = outOfRange, s+" is outside of "+m.MetricsRange.String()
		}
	}
	return result, why
}

func (r Range) holds(value float64) bool {
	exact := Decimal{text: strconv.FormatFloat(value, 'f', -1, 64)}
	return (r.Min == nil || exact.Cmp(*r.Min) >= 0) && (r.Max == nil || exact.Cmp(*r.Max) <= 0)
}

func (r Range) String() string {
	switch {
	case r.Min == nil && r.Max == nil:
		return "any range"
	case r.Min == nil:
		return "at most " + r.Max.String()
	case r.Max == nil:
		return "at least " + r.Min.String()
	default:
		return r.Min.String() + " to " + r.Max.String()
	}
}

// metrics are those of the plan, then those of the batch.
func (p Plan) metrics(batch int) []Metric {
	all := p.CanaryMetric
	if batch < len(p.RolloutBatches) {
		all = append(all[:len(all):len(all)], p.RolloutBatches[batch].CanaryMetric...)
	}
	return all
}

func (g Gate) defaulted(onFailure OnFailure) Gate {
	if g.OnFailure == "" {
		g.OnFailure = onFailure
	}
	return g
}

// gates are those of a moment: of the plan, then of the batch.
func (p Plan) gates(when GateWhen, batch int) []Gate {
	var all []Gate
	add := func(gates []Gate) {
		for _, g := range gates {
			if g.When == when {
				all = append(all, g)
			}
		}
	}
	add(p.Gates)
	if batch < len(p.RolloutBatches) {
		add(p.RolloutBatches[batch].Gates)
	}
	return all
}

func (r Probe) defaulted(onFailure OnFailure) Probe {
	if r.Period == 0 {
		r.Period = Duration(5 * time.Second)
	}
	if r.Timeout == 0 {
		r.Timeout = Duration(2 * time.Second)
	}
	if r.FailureThreshold == 0 {
		r.FailureThreshold = 3
	}
	if r.SuccessThreshold == 0 {
		r.SuccessThreshold = 1
	}
	if r.Parse == "" {
		r.Parse = ParseExit
	}
	if r.Scope == "" {
		r.Scope = ScopeUpdated
	}
	if r.OnFailure == "" {
		r.OnFailure = onFailure
	}
	return r
}
