package control

import (
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// Metrics hears what queues, controllers and watches do. name is that of the
// queue, controller or source; keys are never told. The methods must be quick
// and safe for concurrent use.
type Metrics interface {
	// Depth is the number of keys that are ready and not yet worked on.
	Depth(name string, n int)
	// Latency is the time that a key was ready before a worker took it.
	Latency(name string, d time.Duration)
	// Work is the time that one pass took, and what it reported.
	Work(name string, d time.Duration, out outcome.Outcome)
	// Retry counts a failed pass by its code; exhausted: it was the last one.
	Retry(name string, code fault.Code, exhausted bool)
	// Relist counts lists of a source after the first.
	Relist(name string)
}

type silence struct{}

func (silence) Depth(string, int)                           {}
func (silence) Latency(string, time.Duration)               {}
func (silence) Work(string, time.Duration, outcome.Outcome) {}
func (silence) Retry(string, fault.Code, bool)              {}
func (silence) Relist(string)                               {}

func orSilence(m Metrics) Metrics {
	if m == nil {
		return silence{}
	}
	return m
}
