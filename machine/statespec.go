package machine

import (
	"context"

	"github.com/pawl-dev/pawl/outcome"
)

// State is the name of a state.
type State string

// Interrupted is the default of StateSpec.Else in tables that have a state of this name.
const Interrupted State = "Interrupted"

// Table defines a machine: a StateSpec for each state.
type Table[T any] struct {
	Name    string // [A-Za-z][A-Za-z0-9_.-]{0,62}
	Kind    string // of the objects, for drawings and plans; may be empty
	Initial State  // of an object without a position
	States  map[State]StateSpec[T]
	// Any is tried before the transitions of a state, in transient states too, but
	// neither in final states nor in the target of the transition.
	Any []Transition[T]
	// Ignore names events that are not acted on: they are reported as Ignored.
	Ignore []string
	// Input returns the parameters of events without Params. nil: none.
	Input func(T) (any, error)
	// Generation is the version of the spec: each change raises it. An interrupted
	// object is decided anew when it differs from the generation at which its event
	// won. nil, or 0: it is not known.
	Generation func(T) int64
	// Purpose is the purpose of transitions without one, and of a visit of a transient
	// initial state. nil: it is never withdrawn.
	Purpose func(T) (any, error)
}

// StateSpec defines a state: stable (it has On or Rests), transient (it has Do
// or Flow), or final (it has none of these).
type StateSpec[T any] struct {
	Description string
	On          []Transition[T] // the first whose predicate holds wins
	Rests       bool            // stable without transitions of its own: Any may leave it

	// Do is the work of a transient state. It runs at least once per visit, may be
	// repeated, and must be idempotent. Done leads to Then, Wait and
	// Later are reported, Fail leads to Else unless the fault is Free.
	Do   func(context.Context, T) outcome.Outcome
	Flow string // or the flow whose run is the work

	Then State // after Done or Succeeded
	Else State // after Fail, or when the run pauses; the state itself: the object stays. Default Interrupted
	// Abort is the state after Cancelled; default the stable state before. An event
	// that still holds there wins again: to cancel for good, take the request back
	// too.
	Abort State
	// Withdrawn says how a run that has stopped at a fault ends when its purpose was
	// withdrawn: Undo (the default; Drop behind a step of no return), Drop, or Keep.
	// After Undo and Drop the object is decided anew in the stable state before.
	Withdrawn CancelMode
}

// Transient reports a state that works.
func (p StateSpec[T]) Transient() bool { return p.Do != nil || p.Flow != "" }

// flow returns the flow of a visit.
func (p StateSpec[T]) flow(at Position) string {
	if p.Flow != "" && at.Flow != "" {
		return at.Flow
	}
	return p.Flow
}

// Final reports a state that nothing leaves.
func (p StateSpec[T]) Final() bool { return !p.Transient() && !p.Rests && len(p.On) == 0 }

// Transition leads out of a state. Its predicate is a level: it depends on the object
// as it is, so nothing has to remember that it happened.
type Transition[T any] struct {
	To    State
	Event string // [A-Za-z][A-Za-z0-9_.-]{0,62}, unique among the transitions tried in a state
	Why   string // one line for people
	When  func(T) (bool, error)
	Text  string // source text of the predicate, for plans and drawings
	// Flow replaces the Flow of To for this visit; To must have one.
	Flow string
	// Params is evaluated once, when the event wins, and stored with the new
	// state: it becomes the run's input. nil: Table.Input.
	Params func(T) (any, error)
	Cancel CancelMode
	// Purpose is the part of the spec that the event carries out. When it changes, the
	// purpose of the run is withdrawn. nil: Table.Purpose.
	Purpose func(T) (any, error)
	// Reads returns what When reads. An event that wins again and again while this
	// stays the same runs in a loop and is delayed. nil: Params, in tables with a
	// Generation; otherwise loops are not detected.
	Reads func(T) (any, error)
	// Fixed says that When reads nothing that the work of a state changes, such as a
	// predicate over the spec alone. Loops uses it.
	Fixed bool
}

// CancelMode says how an active run is ended before the new state's run begins.
type CancelMode string

// Drop keeps what the run has done, and is the default; Undo takes it back.
// Keep, which only StateSpec.Withdrawn takes, leaves a stopped run to a person.
const (
	Drop CancelMode = "drop"
	Undo CancelMode = "undo"
	Keep CancelMode = "keep"
)
