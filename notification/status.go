package notification

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/control"
)

// The annotations of notifications: what people ask for.
const (
	PauseAnnotation     = control.RequestPrefix + "pause"     // its value is why
	TestAnnotation      = control.RequestPrefix + "test"      // a new text sends a test
	RedeliverAnnotation = control.RequestPrefix + "redeliver" // webhook-id of a dead event, or "all"
)

// Limits of a status.
const (
	MaxWaiting = 200 // events to be sent again; with more, the history is not read on
	MaxDead    = 100 // newest events that were given up
	DeadFor    = 14 * 24 * time.Hour
)

// The states of notifications. They are the reasons of the condition Ready, too.
const (
	StateActive  = "Active"
	StatePaused  = "Paused"  // its annotation says why
	StateInvalid = "Invalid" // its fault says why: the spec, or a secret
	StateGone    = "Gone"    // the receiver answered 410
)

// Status is what a sender keeps in the status of a notification.
type Status struct {
	State              string               `json:"state,omitempty"`
	Conditions         []Condition          `json:"conditions,omitempty"` // Ready
	ObservedGeneration int64                `json:"observedGeneration,omitempty"`
	Cursor             string               `json:"cursor,omitempty"`   // how far the history of the runs was read
	Clusters           string               `json:"clusters,omitempty"` // how far that of the container clusters was read
	Objects            *Objects             `json:"objects,omitempty"`  // nil: they were not looked at yet
	Holder             string               `json:"holder,omitempty"`   // server that sends
	HeldUntil          time.Time            `json:"heldUntil,omitzero"`
	Waiting            []Delivery           `json:"waiting,omitempty"` // to be sent again
	Dead               []Delivery           `json:"dead,omitempty"`    // oldest first
	Sent               int64                `json:"sent,omitempty"`    // events that were accepted
	Failed             int64                `json:"failed,omitempty"`  // attempts that were not
	GivenUp            int64                `json:"givenUp,omitempty"` // events
	LastSent           time.Time            `json:"lastSent,omitzero"`
	Tested             *Tested              `json:"tested,omitempty"`
	Fault              *control.FaultRecord `json:"fault,omitempty"`
}

// Objects are those that were told of.
type Objects struct {
	Interrupted map[string]Interruption `json:"interrupted,omitempty"` // by UID
}

// Delivery is an event that was not accepted yet.
type Delivery struct {
	ID       string    `json:"id"` // webhook-id
	Event    Event     `json:"event"`
	Attempts int       `json:"attempts"`
	Next     time.Time `json:"next,omitzero"` // when it is sent again
	DiedAt   time.Time `json:"diedAt,omitzero"`
	Error    string    `json:"error,omitempty"` // of the last attempt
}

// Tested is what became of a test.
type Tested struct {
	Token string    `json:"token"`        // the annotation's value
	ID    string    `json:"id,omitempty"` // webhook-id; empty: nothing could be sent
	At    time.Time `json:"at"`
	Error string    `json:"error,omitempty"` // empty: it was accepted
}

// Condition is a statement about a notification, in the form of Kubernetes.
type Condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	ObservedGeneration int64     `json:"observedGeneration"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// untested is the token of the test that a notification asks for; empty: none, or it has its answer.
func (s *Status) untested(o control.Object) string {
	token := o.Annotations[TestAnnotation]
	if s.Tested != nil && s.Tested.Token == token {
		return ""
	}
	return token
}

// enter sets the state of a generation, and reports whether that changed anything.
func (s *Status) enter(state string, generation int64, now time.Time) bool {
	if s.State == state && s.ObservedGeneration == generation {
		return false
	}
	ready := Condition{Type: "Ready", Status: "False", Reason: state, ObservedGeneration: generation, LastTransitionTime: now.UTC()}
	if state == StateActive || state == StatePaused {
		ready.Status, s.Fault = "True", nil
	}
	if s.State == state && len(s.Conditions) == 1 {
		ready.LastTransitionTime = s.Conditions[0].LastTransitionTime
	}
	s.State, s.ObservedGeneration, s.Conditions = state, generation, []Condition{ready}
	return true
}

// giveUp keeps an event that is not sent again.
func (s *Status) giveUp(d Delivery, now time.Time) {
	d.Next, d.DiedAt = time.Time{}, now.UTC()
	s.GivenUp++
	s.Dead = slices.DeleteFunc(append(s.Dead, d), func(d Delivery) bool { return now.Sub(d.DiedAt) > DeadFor })
	s.Dead = s.Dead[max(0, len(s.Dead)-MaxDead):]
}

// redeliver makes dead events wait again, as if they had never been sent.
func (s *Status) redeliver(id string, now time.Time) {
	s.Dead = slices.DeleteFunc(s.Dead, func(d Delivery) bool {
		if id != "all" && d.ID != id || len(s.Waiting) >= MaxWaiting {
			return false
		}
		d.Attempts, d.DiedAt, d.Next = 0, time.Time{}, now.UTC()
		s.Waiting = append(s.Waiting, d)
		return true
	})
}

// StatusOf reads the status of a notification.
func StatusOf(o control.Object) (Status, error) {
	var s Status
	if len(o.Status) == 0 {
		return s, nil
	}
	err := json.Unmarshal(o.Status, &s)
	return s, err
}
