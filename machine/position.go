package machine

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// Position is the state of an object and of its work. It is stored in the object by
// compare-and-set. The zero Position is Table.Initial.
type Position struct {
	State    State     `json:"state"`
	Previous State     `json:"previous,omitempty"`
	Rest     State     `json:"rest,omitempty"` // the stable state before: the default of Abort
	Visit    int64     `json:"visit"`          // raised by each change of state but a pause and its end
	Since    time.Time `json:"since,omitzero"`

	Event  string          `json:"event,omitempty"`  // the one that won
	Params json.RawMessage `json:"params,omitempty"` // its parameters: the input of the run
	Flow   string          `json:"flow,omitempty"`   // of this visit, if the event chose another than the state's
	Run    string          `json:"run,omitempty"`    // of this visit
	Ending *Ending         `json:"ending,omitempty"` // the run of an earlier visit, to be ended first

	Generation int64    `json:"generation,omitempty"` // of the object when the event won
	Purpose    string   `json:"purpose,omitempty"`    // hash of what the event carries out
	Repeats    []Repeat `json:"repeats,omitempty"`    // of events that have won, until they no longer hold

	Held    bool       `json:"held,omitempty"` // in the Else state: returns to Previous when the run goes on
	Code    fault.Code `json:"code,omitempty"` // of the fault that holds it
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
}

// Ending is a run that must be final before the new state's run begins.
type Ending struct {
	Run  string     `json:"run"`
	Mode CancelMode `json:"mode"`
}

// RequestID makes one visit one run.
func (p Position) RequestID() string {
	event := p.Event
	if event == "" {
		event = "initial"
	}
	return event + "#" + strconv.FormatInt(p.Visit, 10)
}

// entered returns the position of a new visit.
func (p Position) entered(to State, fromStable bool, now time.Time) Position {
	next := Position{State: to, Previous: p.State, Rest: p.Rest, Visit: p.Visit + 1, Since: now, Ending: p.Ending, Repeats: p.Repeats}
	if fromStable {
		next.Rest = p.State
	}
	return next
}

// finished is entered after the work of a state. A further transient state gets the
// parameters of the event.
func (p Position) finished(to State, works bool, now time.Time) Position {
	next := p.entered(to, false, now)
	next.Event, next.Generation, next.Purpose = p.Event, p.Generation, p.Purpose
	if works {
		next.Params = p.Params
	}
	return next
}

// held returns the position in the Else state: visit, run and parameters stay for the
// return.
func (p Position) held(to State, now time.Time) Position {
	p.Previous, p.State, p.Since, p.Held = p.State, to, now, true
	return p
}

// recovered returns the position before the Else state.
func (p Position) recovered(now time.Time) Position {
	p.Previous, p.State, p.Since, p.Held = p.State, p.Previous, now, false
	p.Code, p.Reason, p.Message = "", "Resumed", ""
	return p
}

// Cause is why a position is written.
type Cause string

// The causes of a move.
const (
	ByInitial Cause = "initial" // the object enters a transient initial state
	ByEvent   Cause = "event"
	ByThen    Cause = "then"
	ByElse    Cause = "else"
	ByAbort   Cause = "abort"
	ByRecover Cause = "recover" // back from the Else state
	ByChange  Cause = "change"  // the spec was changed while the object was interrupted: it is decided anew
	ByStart   Cause = "start"   // same state: its run is known now
	ByRepair  Cause = "repair"  // same state: the record of a run was out of date
)

// Changes reports a cause that changes the state.
func (c Cause) Changes() bool { return c != ByStart && c != ByRepair }

// Move is one write of a position.
type Move struct {
	From, To Position
	Cause    Cause
}
