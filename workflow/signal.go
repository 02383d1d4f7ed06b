package workflow

import (
	"encoding/json"
	"time"
)

// Signal is a durable message to a run, delivered once per id.
type Signal struct {
	ID      string
	Name    string
	Payload json.RawMessage // at most 64 KiB
	Actor   string
	At      time.Time
}

// Names of signals that begin with this prefix are the engine's own: requests
// of people and programs, and news of child runs.
const reserved = "pawl/"

// Verb is an operation on a run from outside (workflow.md 2.4).
type Verb string

// The verbs.
const (
	VerbPause    Verb = "pause"
	VerbResume   Verb = "resume"
	VerbCancel   Verb = "cancel"
	VerbSkip     Verb = "skip"
	VerbProgress Verb = "progress"
	verbChild    Verb = "child"
)

// Mode is how a run is cancelled.
type Mode string

// Hold keeps what is done and ends Paused; Undo takes it back; Drop keeps it and ends.
const (
	Hold Mode = "hold"
	Undo Mode = "undo"
	Drop Mode = "drop"
)

// From is where a run goes on: FromFailed, FromFirst or the instance name of a step.
type From string

// The values of From besides a step's name. The zero From is what the flow says.
const (
	FromFailed From = "failed"
	FromFirst  From = "first"
)

// Actor is who asks, why, and what makes the request one request.
type Actor struct {
	Name      string `json:"name,omitempty"`
	Reason    string `json:"reason,omitempty"`
	RequestID string `json:"requestID,omitempty"` // the same id is accepted once; empty: a new one
	Revision  int64  `json:"revision,omitempty"`  // expected; 0: any
}

// Ask is the payload of a request's signal.
type RunRequest struct {
	Actor
	Mode       Mode            `json:"mode,omitempty"`
	From       From            `json:"from,omitempty"`
	Step       string          `json:"step,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
	Force      bool            `json:"force,omitempty"`
	GiveUp     bool            `json:"giveUp,omitempty"`
	Definition string          `json:"definition,omitempty"` // old, new
	Progress   *Progress       `json:"progress,omitempty"`
	Phase      Phase           `json:"phase,omitempty"` // news of a child
	Fault      *Fault          `json:"fault,omitempty"`
	Child      string          `json:"child,omitempty"`
}
