package machine

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Snapshot is an object and its run, read once per pass and passed down.
type Snapshot[T any] struct {
	Object T            // in exactly this version
	Run    *runtype.Run // of its position; nil: it has none, or Load did not read it
}

// Objects is where a machine finds its objects and keeps their positions.
type Objects[T any] interface {
	// Load reads the newest version of an object. It may read the run too; otherwise the
	// machine does. An object that is gone is control.NotFound.
	Load(ctx context.Context, ref control.Ref) (Snapshot[T], error)
	// Position reads what Write has kept; the zero Position if nothing was.
	Position(obj T) (Position, error)
	// Write keeps move.To in exactly the version of the object that was loaded. An object
	// that was changed in between is fault.WriteConflict. A move that the object must not
	// make is a Reconsider.
	Write(ctx context.Context, obj T, move Move) error
	// Subject names the object's runs: kind/namespace/name, and /uid where there is one.
	Subject(obj T) string
}

// Reconsider is the error of a move that the rules of the object do not allow, although its
// snapshot does: the pass loads a new snapshot and decides again.
type Reconsider struct{ Why string }

// Error implements error.
func (r Reconsider) Error() string { return r.Why }

// stale reports an error after which a pass begins again from a new snapshot.
func stale(err error) bool {
	var reconsider Reconsider
	return errors.Is(err, fault.WriteConflict) || errors.As(err, &reconsider)
}

// Flows starts and follows the runs of states. A *workflow.Engine is one.
type Flows interface {
	Start(ctx context.Context, req workflow.Request) (*runtype.Run, error)
	Get(ctx context.Context, id string) (*runtype.Run, error)
	Cancel(ctx context.Context, id string, mode runtype.Mode, giveUp bool, by workflow.Actor) error
	Advance(ctx context.Context, id string) outcome.Outcome
}

// Planner is an optional interface of Flows: the plan of a run.
type Planner interface {
	// Plan takes kind/flow: the flow that serves objects of this kind.
	Plan(flow string, input json.RawMessage) (workflow.Plan, error)
}

// Checker is an optional interface of Flows: why a run would be refused. With it a
// machine leaves no stable state for work that cannot begin.
type Checker interface {
	CheckInput(flow, subject string, input json.RawMessage) error
}

// Options of a machine. Objects is required, and Flows if a state names a flow.
type Options[T any] struct {
	Objects Objects[T]
	Flows   Flows
	// Known tells whether a flow exists. Default: the flows that Flows lists,
	// if it has a method Flows() []workflow.Flow; else flows are not checked.
	Known func(flow string) bool
	// Inline executes the runs within Advance. Otherwise Engine.Serve does, and a hook of
	// the engine triggers the next Advance.
	Inline bool
	// PollInterval is the delay of the next pass while a run is under way or paused.
	// 0: the next pass happens when something changes.
	PollInterval time.Duration
	Now          func() time.Time // default time.Now
	Logger       *slog.Logger     // default slog.Default()
}

// Machine moves the objects of a table. Its methods may be called at once from several goroutines.
type Machine[T any] struct {
	table   Table[T]
	options Options[T]
	keys    keys
}

// New returns a machine. MACHINE_INVALID lists every mistake of its table.
func New[T any](table Table[T], options Options[T]) (*Machine[T], error) {
	if options.Known == nil {
		if lister, ok := options.Flows.(interface{ Flows() []workflow.Flow }); ok {
			options.Known = func(flow string) bool {
				return workflow.FlowFor(lister.Flows(), flow, table.Kind) != nil
			}
		}
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	problems := table.Check(options.Known)
	for _, place := range table.States {
		if place.Flow != "" && options.Flows == nil {
			problems = append(problems, Problem{Message: "its states name flows, but Options.Flows is not set"})
			break
		}
	}
	if options.Objects == nil {
		problems = append(problems, Problem{Message: "Options.Objects is not set"})
	}
	if len(problems) > 0 {
		return nil, Invalid.Errorf("machine %s:\n%w", table.Name, error(problems)).With("machine", table.Name)
	}
	return &Machine[T]{table: table, options: options}, nil
}

// Table returns the table of the machine.
func (m *Machine[T]) Table() Table[T] { return m.table }

// facts gathers the facts of a decision. It adds the run to the snapshot.
func (m *Machine[T]) facts(ctx context.Context, s *Snapshot[T]) (Facts, error) {
	p, err := m.options.Objects.Position(s.Object)
	if err != nil {
		return Facts{}, PositionInvalid.Errorf("%w", err)
	}
	f := Facts{Position: p, Now: m.options.Now().UTC()}
	if checker, ok := m.options.Flows.(Checker); ok {
		subject := m.options.Objects.Subject(s.Object)
		f.Check = func(flow string, input json.RawMessage) error { return checker.CheckInput(flow, subject, input) }
	}
	if s.Run == nil || s.Run.ID != p.Run {
		if s.Run, err = m.run(ctx, p.Run); err != nil {
			return f, err
		}
	}
	f.Run = FactsOf(s.Run)
	if p.Ending != nil {
		var ending *runtype.Run
		ending, err = m.run(ctx, p.Ending.Run)
		f.Ending = FactsOf(ending)
	}
	return f, err
}

// run reads a run; nil: there is none.
func (m *Machine[T]) run(ctx context.Context, id string) (*runtype.Run, error) {
	if id == "" || m.options.Flows == nil {
		return nil, nil
	}
	run, err := m.options.Flows.Get(ctx, id)
	if errors.Is(err, workflow.RunNotFound) {
		return nil, nil
	}
	return run, err
}

// FactsOf returns what a decision needs of a run; nil for none.
func FactsOf(run *runtype.Run) *RunFacts {
	if run == nil {
		return nil
	}
	f := &RunFacts{ID: run.ID, Phase: run.Phase, Revision: run.Revision, Fault: run.Fault, Stopped: run.StoppedByPerson()}
	if step := run.Current(); step != nil {
		f.Step = step.Name
	}
	if stop := run.State.Stop; stop != nil && stop.Verb == runtype.VerbCancel {
		f.Stop = stop.Mode
	}
	return f
}
