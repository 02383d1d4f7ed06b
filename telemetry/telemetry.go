// Package telemetry exports the events of runs: as Prometheus metrics, OpenTelemetry spans and log
// lines; and what their steps print, as OpenTelemetry log records.
//
//	              ┌─ Metrics.Hook ─▶ counters, histograms ─▶ /metrics
//	saved event ──┼─ Traces.Hook ──▶ a span per run and attempt ─▶ OTLP
//	              └─ Log ──────────▶ slog: at most two lines a step
//	printed line ─── Logs.Hook ────▶ a log record in the trace of its run ─▶ OTLP
//
// All are hooks of the engine: they cannot fail, delay or change a run. Ids are never labels.
package telemetry

import (
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

// maxOpen limits the entries of a stopwatch, so that waiting runs need little memory.
const maxOpen = 10_000

// stopwatch stores the start times of open runs and attempts.
type stopwatch struct {
	mu    sync.Mutex
	runs  map[string]time.Time
	steps map[[2]string]time.Time
}

func newStopwatch() *stopwatch {
	return &stopwatch{runs: map[string]time.Time{}, steps: map[[2]string]time.Time{}}
}

// observe handles an event. If the event ends a run or an attempt, observe returns its start; zero
// if it started before this process.
func (s *stopwatch) observe(e runtype.Event) (begun time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	step := [2]string{e.Run, e.Step}
	switch {
	case e.Kind == runtype.RunCreated:
		if len(s.runs) < maxOpen {
			s.runs[e.Run] = e.At
		}
	case endsRun(e.Kind):
		begun = s.runs[e.Run]
		delete(s.runs, e.Run)
	case e.Kind == runtype.StepStarted:
		if len(s.steps) < maxOpen {
			s.steps[step] = e.At
		}
	case endsAttempt(e.Kind):
		begun = s.steps[step]
		delete(s.steps, step)
	}
	return begun
}

func endsRun(kind runtype.EventKind) bool {
	return kind == runtype.RunSucceeded || kind == runtype.RunCancelled
}

// endsAttempt reports whether an event ends an attempt of a step.
func endsAttempt(kind runtype.EventKind) bool {
	switch kind {
	case runtype.StepDoneEvent, runtype.StepFailedEvent, runtype.StepRetryingEvent, runtype.StepWaitingEvent, runtype.StepLost, runtype.StepUndoneEvent, runtype.StepSkippedEvent:
		return true
	}
	return false
}

// outcomeOf returns the end of an attempt as a label.
func outcomeOf(kind runtype.EventKind) string {
	return strings.ToLower(strings.TrimPrefix(string(kind), "Step"))
}

// withoutLoopKeys removes the keys of loops from the name of a step, so that the number of label
// values is limited by the definition: Replace[ro-2]/Create becomes Replace/Create.
func withoutLoopKeys(step string) string {
	for {
		open := strings.IndexByte(step, '[')
		if open < 0 {
			return step
		}
		end := strings.IndexByte(step[open:], ']')
		if end < 0 {
			return step
		}
		step = step[:open] + step[open+end+1:]
	}
}
