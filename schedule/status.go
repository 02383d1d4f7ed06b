package schedule

import (
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/workflow"
)

// The annotation and the labels of schedules.
const (
	PauseAnnotation = control.RequestPrefix + "pause"    // on a schedule; its value is why
	LabelSchedule   = control.RequestPrefix + "schedule" // of a run: namespace/name of its schedule
	LabelTick       = control.RequestPrefix + "tick"     // of a run: its tick
)

// MaxRecent is the number of records that a status keeps.
const MaxRecent = 10

// Status is what a scheduler keeps in the status of a schedule.
type Status struct {
	State              string               `json:"state,omitempty"`      // Active, Paused, Invalid
	Conditions         []Condition          `json:"conditions,omitempty"` // Ready
	ObservedGeneration int64                `json:"observedGeneration,omitempty"`
	Through            time.Time            `json:"through,omitzero"`     // every tick up to this time is decided
	PausedSince        time.Time            `json:"pausedSince,omitzero"` // zero: it is not paused
	Pending            *Pending             `json:"pending,omitempty"`    // decided, and perhaps not started yet
	Started            int64                `json:"started,omitempty"`    // ticks with a run
	Skipped            int64                `json:"skipped,omitempty"`    // ticks without one
	Recent             []Record             `json:"recent,omitempty"`     // newest first
	Fault              *control.FaultRecord `json:"fault,omitempty"`
}

// The states of schedules. They are the reasons of the condition Ready, too.
const (
	StateActive  = "Active"
	StatePaused  = "Paused"  // its annotation says why
	StateInvalid = "Invalid" // its fault says why
)

// Condition is a statement about a schedule, in the form of Kubernetes.
type Condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	ObservedGeneration int64     `json:"observedGeneration"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// enter sets the state of a generation, and reports whether that changed anything.
func (s *Status) enter(state string, generation int64, now time.Time) bool {
	if s.State == state && s.ObservedGeneration == generation {
		return false
	}
	ready := Condition{Type: "Ready", Status: "True", Reason: state, ObservedGeneration: generation, LastTransitionTime: now.UTC()}
	if state == StateInvalid {
		ready.Status = "False"
	}
	if s.State == state && len(s.Conditions) == 1 {
		ready.LastTransitionTime = s.Conditions[0].LastTransitionTime
	}
	s.State, s.ObservedGeneration, s.Conditions = state, generation, []Condition{ready}
	return true
}

// Pending are ticks whose runs are to be started, with all that decides the ids of these runs.
type Pending struct {
	Ticks   []time.Time     `json:"ticks"` // oldest first
	Flow    string          `json:"flow"`
	Subject string          `json:"subject"`
	Input   json.RawMessage `json:"input,omitempty"`
	Replace bool            `json:"replace,omitempty"` // cancel the earlier runs
}

// The reasons of records without a run.
const (
	ReasonOverlap  = "Overlap"  // an earlier run had not ended
	ReasonReplaced = "Replaced" // a newer tick was due at the same time
	ReasonMissed   = "Missed"   // no server was there, and catchUp does not cover it
	ReasonRefused  = "Refused"  // the engine refused the run
)

// Record tells what became of a tick, or of several in a row that were skipped for one reason.
type Record struct {
	Tick    time.Time `json:"tick"`
	Until   time.Time `json:"until,omitzero"`   // the last of several
	Count   int       `json:"count,omitempty"`  // of several; 0 with Until: not counted
	Run     string    `json:"run,omitempty"`    // id; empty: the tick was skipped
	Reason  string    `json:"reason,omitempty"` // why it was skipped
	Message string    `json:"message,omitempty"`
}

func (s *Status) record(r Record) {
	switch {
	case r.Run != "":
		s.Started++
	default:
		s.Skipped += int64(max(1, r.Count))
	}
	s.Recent = append([]Record{r}, s.Recent...)
	s.Recent = s.Recent[:min(len(s.Recent), MaxRecent)]
}

// StatusOf reads the status of a schedule.
func StatusOf(o control.Object) (Status, error) {
	var s Status
	if len(o.Status) == 0 {
		return s, nil
	}
	err := json.Unmarshal(o.Status, &s)
	return s, err
}

// SubjectOf returns the subject of the runs of a schedule.
func SubjectOf(o control.Object, s Spec) string {
	if s.Subject != "" {
		return s.Subject
	}
	return o.Ref.String() + "/" + o.UID
}

// RequestID is the request id of the run of a tick. With subject and flow it decides the id of the run.
func RequestID(uid string, tick time.Time) string {
	return uid + "/" + tick.UTC().Format(time.RFC3339Nano)
}

// RunOf is the request of the run of a tick.
func RunOf(o control.Object, p Pending, tick time.Time) workflow.Request {
	return workflow.Request{
		Flow: p.Flow, Subject: p.Subject, Input: p.Input, RequestID: RequestID(o.UID, tick), Actor: workflow.Actor{Name: o.Ref.String()},
		Labels: map[string]string{LabelSchedule: o.Namespace + "/" + o.Name, LabelTick: tick.UTC().Format(time.RFC3339)},
	}
}
