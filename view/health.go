package view

import (
	"strings"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Health says how good a state is. A terminal and the console show it as the color of the state.
type Health string

const (
	Unknown     Health = ""            // no color
	Healthy     Health = "Healthy"     // green
	Progressing Health = "Progressing" // yellow: under way, waiting, or held by a person
	Degraded    Health = "Degraded"    // red: failed, or held by a fault
	Inactive    Health = "Inactive"    // dim: it does nothing any more, and should not
)

//go:generate go test . -run ^TestHealthOfConsole$ -update

// Health colors a text.
func (s Style) Health(h Health, text string) string { return s.paint(h.color(), text) }

func (h Health) color() color {
	return map[Health]color{Healthy: green, Progressing: yellow, Degraded: red, Inactive: dim}[h]
}

// words are the states that tell by themselves how good they are, in small letters.
var words = map[string]Health{
	"running": Healthy, "ready": Healthy, "active": Healthy, "healthy": Healthy, "available": Healthy, "succeeded": Healthy, "done": Healthy,
	"enabled": Healthy, "true": Healthy, "yes": Healthy, "ok": Healthy, "passed": Healthy, "reconciled": Healthy, "present": Healthy, "completed": Healthy,
	"rolloutsucceed": Healthy, "complete": Healthy, "idle": Healthy, "the same": Healthy, "streaming": Healthy, "works": Healthy, "serves": Healthy,

	"queued": Progressing, "waiting": Progressing, "retrying": Progressing, "cancelling": Progressing, "paused": Progressing, "pending": Progressing,
	"created": Progressing, "new": Progressing, "intent": Progressing, "closing": Progressing, "progressing": Progressing, "recovery": Progressing,
	"drifted": Progressing, "rollinginbatches": Progressing, "rollingback": Progressing, "locatingtargetapp": Progressing, "verifyingspec": Progressing, "unknown": Progressing, "later": Progressing, "accepted": Progressing,

	"alert": Degraded, "expunge": Degraded, "failed": Degraded, "interrupted": Degraded, "refused": Degraded, "unavailable": Degraded, "unhealthy": Degraded,
	"false": Degraded, "orphan": Degraded, "unseen": Degraded, "wrong": Degraded, "aborted": Degraded, "rolloutfailing": Degraded, "leaked": Degraded, "dead": Degraded, "error": Degraded, "lost": Degraded, "rolloutfailed": Degraded, "degraded": Degraded,
	"down": Degraded, "unreachable": Degraded, "broken": Degraded, "failing": Degraded, "differ": Degraded, "invalid": Degraded, "revoked": Inactive, "expired": Inactive,

	"stopped": Inactive, "destroyed": Inactive, "cancelled": Inactive, "gone": Inactive, "never_created": Inactive, "forgotten": Inactive, "skipped": Inactive, "undone": Inactive,
	"disabled": Inactive, "hibernated": Inactive, "drained": Inactive, "to come": Inactive, "ended": Inactive, "inactive": Inactive,
}

// HealthOf judges a state by its word: Running is Healthy, Alert is Degraded. A word in -ing is Progressing.
func HealthOf(state string) Health {
	word := strings.ToLower(state)
	h, known := words[word]
	if !known && strings.HasSuffix(word, "ing") {
		return Progressing
	}
	return h
}

// HealthOfRun judges the phase of a run: one that a fault has paused is Degraded, one that a person has
// paused is Progressing.
func HealthOfRun(r Run) Health {
	switch r.Phase {
	case runtype.Succeeded:
		return Healthy
	case runtype.Cancelled:
		return Inactive
	case runtype.Paused:
		if r.Fault != nil && r.Fault.Code != workflow.PausedByPerson.Code && r.Fault.Code != workflow.CancelledByPerson.Code {
			return Degraded
		}
	}
	if r.Warning != "" {
		return Degraded
	}
	return Progressing
}

// healthOfStep judges the phase of a step.
func healthOfStep(phase runtype.StepPhase) Health {
	switch phase {
	case runtype.StepDone:
		return Healthy
	case runtype.StepFailed:
		return Degraded
	case runtype.StepSkipped, runtype.StepUndone, runtype.StepPending:
		return Inactive
	}
	return Progressing
}

// health judges the state of an object: with a fault it is Degraded, while work is in progress Progressing, else
// what its word says.
func (s State) health() Health {
	switch {
	case s.Fault != nil:
		return Degraded
	case s.Progressing || s.Behind:
		return Progressing
	}
	return HealthOf(s.State)
}

// health judges a condition whose type says that True is good.
func (c Condition) health() Health {
	switch c.Type {
	case "Ready", "Available", "Healthy", "Reconciled", "Succeeded":
		return HealthOf(c.Status)
	}
	return Unknown
}
