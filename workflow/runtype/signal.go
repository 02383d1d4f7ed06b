package runtype

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

// Verb is a request to a run.
type Verb string

// The verbs.
const (
	VerbPause    Verb = "pause"
	VerbResume   Verb = "resume"
	VerbCancel   Verb = "cancel"
	VerbSkip     Verb = "skip"
	VerbProgress Verb = "progress"
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
