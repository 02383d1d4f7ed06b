package control

import (
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// Metrics receives measurements of queues, controllers and watches. name is the name of the
// queue, controller or source; keys are not passed. The methods must be quick and safe for
// concurrent use.
type Metrics interface {
	// Depth reports the number of ready keys.
	Depth(name string, n int)
	// Latency reports how long a key was ready before a worker took it.
	Latency(name string, d time.Duration)
	// Work reports the duration and outcome of a pass.
	Work(name string, d time.Duration, out outcome.Outcome)
	// Retry counts a failed pass by its code; exhausted: the key was given up.
	Retry(name string, code fault.Code, exhausted bool)
	// Relist counts lists of a source after the first.
	Relist(name string)
}

type noMetrics struct{}

func (noMetrics) Depth(string, int)                           {}
func (noMetrics) Latency(string, time.Duration)               {}
func (noMetrics) Work(string, time.Duration, outcome.Outcome) {}
func (noMetrics) Retry(string, fault.Code, bool)              {}
func (noMetrics) Relist(string)                               {}

func orNoMetrics(m Metrics) Metrics {
	if m == nil {
		return noMetrics{}
	}
	return m
}
