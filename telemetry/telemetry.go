// Package telemetry tells machines what runs do: Prometheus metrics, OpenTelemetry spans and log lines.
//
//	             ┌─ Metrics.Hook ─▶ counters, histograms ─▶ /metrics
//	saved event ─┼─ Traces.Hook ──▶ a span per run and attempt ─▶ OTLP
//	             └─ Log ──────────▶ slog: at most two lines a step
//
// All three are hooks of the engine (workflow.md 2.11): they cannot fail, delay
// or change a run. No id is ever a label.
package telemetry

import (
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/workflow"
)

// maxOpen bounds what a stopwatch remembers of runs, so that waiting runs stay cheap.
const maxOpen = 10_000

// stopwatch remembers when open runs and attempts began.
type stopwatch struct {
	mu    sync.Mutex
	runs  map[string]time.Time
	steps map[[2]string]time.Time
}

func newStopwatch() *stopwatch {
	return &stopwatch{runs: map[string]time.Time{}, steps: map[[2]string]time.Time{}}
}

// hear notes an event and gives the beginning of what it ends: a run, or an
// attempt of a step. begun is zero if that began before this process.
func (s *stopwatch) observe(e workflow.Event) (begun time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	step := [2]string{e.Run, e.Step}
	switch {
	case e.Kind == workflow.RunCreated:
		if len(s.runs) < maxOpen {
			s.runs[e.Run] = e.At
		}
	case endsRun(e.Kind):
		begun = s.runs[e.Run]
		delete(s.runs, e.Run)
	case e.Kind == workflow.StepStarted:
		if len(s.steps) < maxOpen {
			s.steps[step] = e.At
		}
	case endsAttempt(e.Kind):
		begun = s.steps[step]
		delete(s.steps, step)
	}
	return begun
}

func endsRun(kind workflow.EventKind) bool {
	return kind == workflow.RunSucceeded || kind == workflow.RunCancelled
}

// endsAttempt reports the kinds with which an attempt of a step is over.
func endsAttempt(kind workflow.EventKind) bool {
	switch kind {
	case workflow.StepDoneEvent, workflow.StepFailedEvent, workflow.StepRetryingEvent, workflow.StepWaitingEvent, workflow.StepLost, workflow.StepUndoneEvent, workflow.StepSkippedEvent:
		return true
	}
	return false
}

// outcomeOf is how an attempt ended, as a label.
func outcomeOf(kind workflow.EventKind) string {
	return strings.ToLower(strings.TrimPrefix(string(kind), "Step"))
}

// place is a step's name without the keys of loops: the number of its values
// is that of the definition's steps. Replace[ro-2]/Create is Replace/Create.
func withoutLoopKeys(step string) string {
	for {
		open := strings.IndexByte(step, '[')
		if open < 0 {
			return step
		}
		shut := strings.IndexByte(step[open:], ']')
		if shut < 0 {
			return step
		}
		step = step[:open] + step[open+shut+1:]
	}
}
