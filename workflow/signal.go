package workflow

import (
	"encoding/json"
	"time"
)

// Signal is a durable message to a run. It is delivered once per id.
type Signal struct {
	ID      string
	Name    string
	Payload json.RawMessage // at most 64 KiB
	Actor   string
	At      time.Time
}

// Signals whose name has this prefix belong to the engine: requests of people and programs, and
// messages of child runs.
const reserved = "pawl/"

// Verb is a request to a run.
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

// Mode says how a run is cancelled.
type Mode string

// Hold keeps the finished steps and ends in phase Paused. Undo undoes them. Drop keeps them and
// ends the run.
const (
	Hold Mode = "hold"
	Undo Mode = "undo"
	Drop Mode = "drop"
)

// From says where a run resumes: FromFailed, FromFirst or the instance name of a step.
type From string

// The values of From besides the name of a step. The zero From means the default of the flow.
const (
	FromFailed From = "failed"
	FromFirst  From = "first"
)

// Actor is the author of a request, with the reason and with the id that makes repeated deliveries
// one request.
type Actor struct {
	Name      string `json:"name,omitempty"`
	Reason    string `json:"reason,omitempty"`
	RequestID string `json:"requestID,omitempty"` // the same id is accepted once; empty: a new id
	Revision  int64  `json:"revision,omitempty"`  // expected revision of the run; 0: any
}

// RunRequest is the payload of the signal of a request.
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
	Phase      Phase           `json:"phase,omitempty"` // for messages of a child run
	Fault      *Fault          `json:"fault,omitempty"`
	Child      string          `json:"child,omitempty"`
}
