package runtype

import (
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// EventKind is the kind of an event.
type EventKind string

// The kinds of events.
const (
	RunCreated        EventKind = "RunCreated"
	RunStarted        EventKind = "RunStarted"
	RunWaiting        EventKind = "RunWaiting"
	RunPaused         EventKind = "RunPaused"
	RunResumed        EventKind = "RunResumed"
	RunCancelling     EventKind = "RunCancelling"
	RunCancelled      EventKind = "RunCancelled"
	RunSucceeded      EventKind = "RunSucceeded"
	StepStarted       EventKind = "StepStarted"
	StepRetryingEvent EventKind = "StepRetrying"
	StepWaitingEvent  EventKind = "StepWaiting"
	StepFailedEvent   EventKind = "StepFailed"
	StepDoneEvent     EventKind = "StepDone"
	StepSkippedEvent  EventKind = "StepSkipped"
	StepUndoneEvent   EventKind = "StepUndone"
	StepLost          EventKind = "StepLost"
	HealingBegun      EventKind = "HealingBegun"
	HealingEnded      EventKind = "HealingEnded"
	SignalReceived    EventKind = "SignalReceived"
	FlowMigrated      EventKind = "FlowMigrated"
	RequestRefused    EventKind = "RequestRefused"
)

// EventKinds lists every kind; a store may encode a kind by its index, so the order is fixed.
var EventKinds = []EventKind{
	RunCreated, RunStarted, RunWaiting, RunPaused, RunResumed, RunCancelling, RunCancelled, RunSucceeded,
	StepStarted, StepRetryingEvent, StepWaitingEvent, StepFailedEvent, StepDoneEvent, StepSkippedEvent, StepUndoneEvent, StepLost,
	HealingBegun, HealingEnded, SignalReceived, FlowMigrated, RequestRefused,
}

// Healed is the reason of a HealingEnded after which the fault was gone.
const Healed = "healed"

// Event is one line of the history. It is saved together with the change that it describes. The
// engine never reads it.
type Event struct {
	Run     string          `json:"run"`
	Seq     int64           `json:"seq"` // without gaps within the run, from 1
	At      time.Time       `json:"at"`  // UTC, nanoseconds
	Kind    EventKind       `json:"kind"`
	Step    string          `json:"step,omitempty"`
	Attempt int             `json:"attempt,omitempty"`
	Actor   string          `json:"actor,omitempty"`
	Reason  string          `json:"reason,omitempty"`
	Message string          `json:"message,omitempty"`
	Code    fault.Code      `json:"code,omitempty"` // of RunCancelled: the fault that ended the run; empty if somebody has asked for it
	Data    json.RawMessage `json:"data,omitempty"` // a stack trace, or the list of steps that were not undone
}
