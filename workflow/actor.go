package workflow

import (
	"encoding/json"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Signals whose name has this prefix belong to the engine: requests of people and programs, and
// messages of child runs.
const reserved = "pawl/"

// verbChild is the message of a child run to its parent.
const verbChild runtype.Verb = "child"

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
	Mode       runtype.Mode      `json:"mode,omitempty"`
	From       From              `json:"from,omitempty"`
	Step       string            `json:"step,omitempty"`
	Output     json.RawMessage   `json:"output,omitempty"`
	Force      bool              `json:"force,omitempty"`
	GiveUp     bool              `json:"giveUp,omitempty"`
	Definition string            `json:"definition,omitempty"` // old, new
	Progress   *runtype.Progress `json:"progress,omitempty"`
	Phase      runtype.Phase     `json:"phase,omitempty"` // for messages of a child run
	Fault      *runtype.Fault    `json:"fault,omitempty"`
	Child      string            `json:"child,omitempty"`
}
