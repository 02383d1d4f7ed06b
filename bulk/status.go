package bulk

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
)

// PauseAnnotation on a bulk stops it until it is removed; its value is why.
const PauseAnnotation = control.RequestPrefix + "pause"

// Limits of a record. The counts are of all runs, whatever a record names.
const (
	MaxRefusals = 50 // codes
	MaxExamples = 10 // runs of one code
)

// The states of bulks.
const (
	StateRunning  = "Running"
	StatePaused   = "Paused"   // its annotation says why
	StateComplete = "Complete" // each run has been asked
	StateInvalid  = "Invalid"  // its fault says why
)

// Status is what a worker keeps in the status of a bulk.
type Status struct {
	State              string               `json:"state,omitempty"`      // Running, Paused, Complete, Invalid
	Conditions         []Condition          `json:"conditions,omitempty"` // Complete
	ObservedGeneration int64                `json:"observedGeneration,omitempty"`
	StartedAt          time.Time            `json:"startedAt,omitzero"`
	EndedAt            time.Time            `json:"endedAt,omitzero"`
	Cursor             string               `json:"cursor,omitempty"`  // of the list, behind the pending runs
	Listed             bool                 `json:"listed,omitempty"`  // nothing is behind the pending runs
	Pending            []string             `json:"pending,omitempty"` // runs that are asked now, and may have been before
	Done               int64                `json:"done"`              // runs that accepted the request
	Refused            int64                `json:"refused"`
	Refusals           []Refusal            `json:"refusals,omitempty"` // most frequent first
	Holder             string               `json:"holder,omitempty"`   // server that works on it
	HeldUntil          time.Time            `json:"heldUntil,omitzero"`
	Fault              *control.FaultRecord `json:"fault,omitempty"`
}

// Refusal tells of the runs that refused for one reason.
type Refusal struct {
	Code    fault.Code `json:"code"`
	Count   int64      `json:"count"`
	Runs    []Example  `json:"runs"` // the first
	Remedy  string     `json:"remedy,omitempty"`
	Message string     `json:"message"` // of the first
}

// Example is a run that refused.
type Example struct {
	Run     string `json:"run"`
	Message string `json:"message"`
}

// Condition is a statement about a bulk, in the form of Kubernetes.
type Condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	ObservedGeneration int64     `json:"observedGeneration"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// Ended reports a bulk that does nothing any more.
func (s Status) Ended() bool { return s.State == StateComplete || s.State == StateInvalid }

// enter sets the state of a generation, and reports whether that changed anything.
func (s *Status) enter(state string, generation int64, now time.Time) bool {
	if s.State == state && s.ObservedGeneration == generation {
		return false
	}
	complete := Condition{Type: "Complete", Status: "False", Reason: state, ObservedGeneration: generation, LastTransitionTime: now.UTC()}
	if state == StateComplete {
		complete.Status = "True"
	}
	if len(s.Conditions) == 1 && s.Conditions[0].Status == complete.Status {
		complete.LastTransitionTime = s.Conditions[0].LastTransitionTime
	}
	s.State, s.ObservedGeneration, s.Conditions = state, generation, []Condition{complete}
	return true
}

// record notes what became of the request to a run; nil: it was accepted.
func (s *Status) record(run string, err error) {
	if err == nil {
		s.Done++
		return
	}
	s.Refused++
	kind, message := fault.Of(err), fault.Message(err)
	at := slices.IndexFunc(s.Refusals, func(r Refusal) bool { return r.Code == kind.Code })
	if at < 0 && len(s.Refusals) == MaxRefusals {
		return
	}
	if at < 0 {
		at = len(s.Refusals)
		s.Refusals = append(s.Refusals, Refusal{Code: kind.Code, Remedy: kind.Remedy, Message: message})
	}
	r := &s.Refusals[at]
	if r.Count++; len(r.Runs) < MaxExamples {
		r.Runs = append(slices.Clone(r.Runs), Example{run, message})
	}
	slices.SortStableFunc(s.Refusals, func(a, b Refusal) int { return cmp.Compare(b.Count, a.Count) })
}

// StatusOf reads the status of a bulk.
func StatusOf(o control.Object) (Status, error) {
	var s Status
	if len(o.Status) == 0 {
		return s, nil
	}
	err := json.Unmarshal(o.Status, &s)
	return s, err
}
