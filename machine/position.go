package machine

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// Position is where an object stands. It is kept in the object and written
// compare-and-set. The zero Position is the table's Initial.
type Position struct {
	State    State     `json:"state"`
	Previous State     `json:"previous,omitempty"`
	Rest     State     `json:"rest,omitempty"` // the stable state it set out from: the default of Abort
	Visit    int64     `json:"visit"`          // raised by each change of state but a pause and its end
	Since    time.Time `json:"since,omitzero"`

	Event  string          `json:"event,omitempty"`  // the one that won
	Params json.RawMessage `json:"params,omitempty"` // its parameters: the input of the run
	Flow   string          `json:"flow,omitempty"`   // of this visit, if the event chose another than the state's
	Run    string          `json:"run,omitempty"`    // of this visit
	Ending *Ending         `json:"ending,omitempty"` // the run of an earlier visit, to be ended first

	Generation int64  `json:"generation,omitempty"` // of the object when the event won
	Wish       string `json:"wish,omitempty"`       // hash of what the event carries out
	Turns      []Turn `json:"turns,omitempty"`      // events that have won, until they are seen not to hold

	Held    bool       `json:"held,omitempty"` // in the Else state: goes back to Previous when the run goes on
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

// entered is the position after a change of state that opens a new visit. The
// work of the visit before is behind it.
func (p Position) entered(to State, fromStable bool, now time.Time) Position {
	next := Position{State: to, Previous: p.State, Rest: p.Rest, Visit: p.Visit + 1, Since: now, Ending: p.Ending, Turns: p.Turns}
	if fromStable {
		next.Rest = p.State
	}
	return next
}

// finished is entered for a place whose work has come to its end. A further
// place that works gets what the event has brought.
func (p Position) finished(to State, works bool, now time.Time) Position {
	next := p.entered(to, false, now)
	next.Event, next.Generation, next.Wish = p.Event, p.Generation, p.Wish
	if works {
		next.Params = p.Params
	}
	return next
}

// held is the Else state: visit, run and parameters stay, for the way back.
func (p Position) held(to State, now time.Time) Position {
	p.Previous, p.State, p.Since, p.Held = p.State, to, now, true
	return p
}

// recovered is the way back from the Else state.
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
	ByRepair  Cause = "repair"  // same state: what is recorded of a run was out of date
)

// Changes reports a cause that changes the state.
func (c Cause) Changes() bool { return c != ByStart && c != ByRepair }

// Move is one write of a position.
type Move struct {
	From, To Position
	Cause    Cause
}
