package machine

import (
	"context"

	"github.com/pawl-dev/pawl/outcome"
)

// State names a place of the table.
type State string

// Interrupted is the default of Place.Else in tables that have a state of this name.
const Interrupted State = "Interrupted"

// Table is a machine as it is written down: a place for each state.
type Table[T any] struct {
	Name    string // [A-Za-z][A-Za-z0-9_.-]{0,62}
	Kind    string // of the objects, for drawings and plans; may be empty
	Initial State  // of an object without a position
	States  map[State]StateSpec[T]
	// Any is tried before a place's own transitions, in transient places too,
	// but neither in final places nor in the transition's target.
	Any []Transition[T]
	// Ignore names events that are not acted on: they are reported as Ignored.
	Ignore []string
	// Input makes the parameters of events that have no Params. nil: none.
	Input func(T) (any, error)
	// Generation counts what was asked of an object: it is raised by each change
	// of its spec. An object that is interrupted is decided anew when it differs
	// from that of the event which won. nil, or 0: nobody counts, or it cannot be
	// told now.
	Generation func(T) int64
	// Wish is that of transitions that have none, and of a visit of an initial
	// state that works. nil: it is never withdrawn.
	Wish func(T) (any, error)
}

// StateSpec is what a state is: stable (it has On or Rests), transient (it has Do
// or Flow), or final (it has none of these).
type StateSpec[T any] struct {
	Description string
	On          []Transition[T] // the first whose predicate holds wins
	Rests       bool            // stable without transitions of its own: Any may leave it

	// Do is the work of a transient place. It runs at least once per visit,
	// may be repeated, and must be idempotent. Done leads to Then, Wait and
	// Later are reported, Fail leads to Else unless the fault is Free.
	Do   func(context.Context, T) outcome.Outcome
	Flow string // or the flow whose run does the work

	Then State // after Done or Succeeded
	Else State // after Fail, or when the run pauses; the state itself: stay. Default Interrupted
	// Abort is the state after Cancelled; default the stable state it came
	// from. An event that still holds there is taken again: whoever cancels
	// takes back what was asked for.
	Abort State
	// Withdrawn says what becomes of a run that has stopped at a fault, when the
	// wish it carries out was withdrawn: Undo (the default; Drop behind a step of
	// no return), Drop, or Keep. After Undo and Drop the object is decided anew in
	// the stable state it set out from.
	Withdrawn CancelMode
}

// Transient reports a place that works.
func (p StateSpec[T]) Transient() bool { return p.Do != nil || p.Flow != "" }

// flow is the one that does the work of a visit.
func (p StateSpec[T]) flow(at Position) string {
	if p.Flow != "" && at.Flow != "" {
		return at.Flow
	}
	return p.Flow
}

// Final reports a place that nothing leaves.
func (p StateSpec[T]) Final() bool { return !p.Transient() && !p.Rests && len(p.On) == 0 }

// Transition is a way out of a place. Its predicate is a level: it holds as
// long as the object is so, and nothing needs to remember that it happened.
type Transition[T any] struct {
	To    State
	Event string // [A-Za-z][A-Za-z0-9_.-]{0,62}, unique among the transitions tried in a place
	Why   string // one line for people
	When  func(T) (bool, error)
	Text  string // the predicate as it was written, for plans and drawings
	// Flow does the work of this visit instead of To's Flow; To must have one.
	Flow string
	// Params is evaluated once, when the event wins, and stored with the new
	// state: it becomes the run's input. nil: Table.Input.
	Params func(T) (any, error)
	Cancel CancelMode
	// Wish is what the event carries out: the part of the spec that it reads.
	// Once it is another one, that of the run is withdrawn. nil: Table.Wish.
	Wish func(T) (any, error)
	// Reads gives what When looks at. An event that wins again and again while
	// that stays as it is runs in a loop, and is delayed. nil: Params, in tables
	// that know a Generation; else loops are not looked for.
	Reads func(T) (any, error)
	// Fixed says that When reads nothing which the work of a state changes: true
	// for a predicate over the spec alone. It is for Lint.
	Fixed bool
}

// CancelMode says how an active run is ended before the new state's run begins.
type CancelMode string

// Drop keeps what the run has done, and is the default; Undo takes it back.
// Keep, which Place.Withdrawn knows only, leaves a stopped run to a person.
const (
	Drop CancelMode = "drop"
	Undo CancelMode = "undo"
	Keep CancelMode = "keep"
)
