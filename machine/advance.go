package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

const (
	soon  = time.Millisecond // delay of the next pass after an act
	tries = 5                // of a pass whose compare-and-set fails
)

// Report is the result of one pass.
type Report[T any] struct {
	Snapshot[T]          // of the decision
	Found       bool     // false: there is no such object
	Position    Position // after the pass
	Ending      *RunFacts
	Decision    Decision
	Wrote       bool // a position was written in this pass
	Outcome     outcome.Outcome
}

// Advance makes one pass over the object: at most one transition, one start or end of a
// run, or one call of Do. Done: the object rests. Wait: something must happen first.
// Later: an ignored event holds. Fail: the pass failed. An object that is gone is Done.
func (m *Machine[T]) Advance(ctx context.Context, ref control.Ref) outcome.Outcome {
	return m.Pass(ctx, ref).Outcome
}

// Pass is Advance with a full report.
func (m *Machine[T]) Pass(ctx context.Context, ref control.Ref) Report[T] {
	return m.passFrom(ctx, ref, nil)
}

// PassFrom is Pass for a caller that has just loaded or written the object. It decides
// by this snapshot and loads again only if the snapshot is stale.
func (m *Machine[T]) PassFrom(ctx context.Context, ref control.Ref, first Snapshot[T]) Report[T] {
	return m.passFrom(ctx, ref, &first)
}

func (m *Machine[T]) passFrom(ctx context.Context, ref control.Ref, first *Snapshot[T]) Report[T] {
	report := m.pass(ctx, ref, first)
	if m.options.Inline && report.Outcome.IsWait() && report.Outcome.After() != soon {
		m.inline(ctx, &report) // the key is free meanwhile
	}
	return report
}

// inline advances the run that the object waits for, paused ones too: a request to
// resume may have come.
func (m *Machine[T]) inline(ctx context.Context, report *Report[T]) {
	run := report.Ending
	if run.final() {
		run = FactsOf(report.Run)
	}
	if run.final() {
		return
	}
	out := m.options.Flows.Advance(ctx, run.ID)
	read, err := m.run(ctx, run.ID)
	switch after := FactsOf(read); {
	case err != nil:
		report.Outcome = outcome.Fail(err)
	case after != nil && after.Revision == run.Revision && run.Phase == runtype.Paused: // as before
	case out.IsWait(), out.IsLater(), after != nil && after.Revision == run.Revision && after.Phase == run.Phase:
		report.Outcome = reported(out, report.Decision.Err)
	case ctx.Err() == nil:
		report.Outcome = outcome.Wait(soon, "RunMoved", "run %s has moved", run.ID)
	}
}

func (m *Machine[T]) pass(ctx context.Context, ref control.Ref, first *Snapshot[T]) Report[T] {
	unlock, err := m.keys.lock(ctx, ref)
	if err != nil {
		return Report[T]{Outcome: outcome.Fail(err)}
	}
	defer unlock()
	var report Report[T]
	for range tries { // load and decide again after a conflict
		if report, err = m.once(ctx, ref, first); !stale(err) {
			break
		}
		first = nil
	}
	if err != nil {
		report.Outcome = outcome.Fail(err)
	}
	return report
}

// once loads (unless it has a snapshot), decides and acts. After an error nothing was
// done.
func (m *Machine[T]) once(ctx context.Context, ref control.Ref, first *Snapshot[T]) (report Report[T], err error) {
	if first != nil {
		report.Snapshot = *first
	} else if report.Snapshot, err = m.options.Objects.Load(ctx, ref); errors.Is(err, control.NotFound) {
		return report, nil // nothing is left to do
	} else if err != nil {
		return report, err
	}
	report.Found = true
	f, err := m.facts(ctx, &report.Snapshot)
	report.Position, report.Ending = f.Position, f.Ending
	if err != nil {
		return report, err
	}
	if report.Position.State == "" {
		report.Position.State = m.table.Initial
	}
	d := Decide(m.table, report.Object, f)
	report.Decision, report.Outcome = d, d.Outcome
	switch d.Act {
	case Moves:
		err = m.write(ctx, &report, report.Object, d.Move)
	case Start:
		err = m.start(ctx, &report, f)
	case End:
		err = m.end(ctx, &report)
	case Work:
		err = m.work(ctx, &report, ref)
	}
	if d.Act != Rest {
		return report, err
	}
	if report.Outcome.IsWait() && report.Outcome.After() == 0 && m.options.PollInterval > 0 {
		report.Outcome = outcome.Wait(m.options.PollInterval, report.Outcome.Reason(), "%s", report.Outcome.Message())
	}
	return report, nil
}

// write saves a position and triggers the next pass.
func (m *Machine[T]) write(ctx context.Context, report *Report[T], obj T, move Move) error {
	if err := m.options.Objects.Write(ctx, obj, move); err != nil {
		return fmt.Errorf("state %s of %s was not written: %w", move.To.State, m.options.Objects.Subject(obj), err)
	}
	report.Position, report.Wrote = move.To, true
	if move.Cause.Changes() {
		m.options.Logger.InfoContext(ctx, "state", "machine", m.table.Name, "object", m.options.Objects.Subject(obj),
			"from", move.From.State, "to", move.To.State, "cause", move.Cause, "event", move.To.Event, "visit", move.To.Visit, "reason", move.To.Reason)
	}
	report.Outcome = outcome.Wait(soon, "Moved", "%s: %s", move.To.State, move.To.Reason)
	return nil
}

// start starts the run of the visit and records its id.
func (m *Machine[T]) start(ctx context.Context, report *Report[T], f Facts) error {
	p, subject := report.Position, m.options.Objects.Subject(report.Object)
	input := p.Params
	if input == nil {
		input = json.RawMessage("{}")
	}
	run, err := m.options.Flows.Start(ctx, workflow.Request{
		Flow: m.table.States[p.State].flow(p), Subject: subject, RequestID: p.RequestID(), Input: input,
		Labels: map[string]string{"machine": m.table.Name, "state": string(p.State)},
		Actor:  m.actor(p.Message),
	})
	if err != nil {
		return m.refused(ctx, report, f, err)
	}
	report.Run, report.Ending = run, nil
	to := p
	to.Run, to.Ending = run.ID, nil
	if p.Run == run.ID && p.Ending == nil { // the store had lost it: it starts again
		report.Outcome = outcome.Wait(soon, "Started", "run %s began anew", run.ID)
		return nil
	}
	return m.write(ctx, report, report.Object, Move{From: f.Position, To: to, Cause: ByStart})
}

// refused handles a run that cannot be started: a fault that is not transient moves the
// object to the Else state.
func (m *Machine[T]) refused(ctx context.Context, report *Report[T], f Facts, err error) error {
	kind := fault.Of(err)
	place := m.table.States[report.Position.State]
	if kind.Class == fault.Transient || place.elseState(m.table) == report.Position.State {
		return err
	}
	f.Position = report.Position
	j := decider[T]{table: m.table, f: f, p: f.Position, state: place}
	return m.write(ctx, report, report.Object, j.moveToElse(kind.Code, fault.Message(err)).Move)
}

// end ends the run of an earlier visit.
func (m *Machine[T]) end(ctx context.Context, report *Report[T]) error {
	ending := *report.Position.Ending
	mode := runtype.Drop
	if ending.Mode == Undo {
		mode = runtype.Undo
	}
	by := m.actor(fmt.Sprintf("the object moved to %s", report.Position.State))
	by.RequestID = fmt.Sprintf("%s#%d/end/%d", m.table.Name, report.Position.Visit, report.Ending.Revision)
	err := m.options.Flows.Cancel(ctx, ending.Run, mode, false, by)
	switch {
	case errors.Is(err, workflow.RunFinished), errors.Is(err, workflow.RunNotFound):
		report.Outcome = outcome.Wait(soon, "RunEnded", "run %s has ended", ending.Run)
	case errors.Is(err, workflow.NoReturn) && mode == runtype.Undo:
		return m.drop(ctx, report)
	case err != nil:
		return err
	default:
		report.Outcome = outcome.Wait(m.options.PollInterval, "EndingRun", "run %s of an earlier visit is being ended", ending.Run)
	}
	return nil
}

// drop gives up undoing a run that is past its point of no return.
func (m *Machine[T]) drop(ctx context.Context, report *Report[T]) error {
	from := report.Position
	to := from
	to.Ending = &Ending{Run: from.Ending.Run, Mode: Drop}
	return m.write(ctx, report, report.Object, Move{From: from, To: to, Cause: ByRepair})
}

// work calls Do and applies its outcome.
func (m *Machine[T]) work(ctx context.Context, report *Report[T], ref control.Ref) error {
	before := report.Position
	out := do(ctx, m.table.States[before.State].Do, report.Object)
	if out.IsWait() || out.IsLater() {
		report.Outcome = reported(out, report.Decision.Err)
		return nil
	}
	if err := out.Err(); err != nil && (ctx.Err() != nil || fault.Of(err).Uncharged) {
		return err // the control plane failed, not the work
	}
	for range tries { // Do may have changed the object: apply the outcome to the newest version
		s, err := m.options.Objects.Load(ctx, ref)
		if errors.Is(err, control.NotFound) {
			report.Found, report.Outcome = false, outcome.Done()
			return nil
		}
		if err != nil {
			return err
		}
		f, err := m.facts(ctx, &s)
		if err != nil {
			return err
		}
		raw := f.Position
		if f.Position.State == "" {
			f.Position.State = m.table.Initial
		}
		if f.Position.State != before.State || f.Position.Visit != before.Visit {
			return fault.WriteConflict.Errorf("the object moved to %s while %s worked", f.Position.State, before.State)
		}
		j := decider[T]{table: m.table, f: f, p: f.Position, state: m.table.States[before.State]}
		j.f.Position = raw
		var d Decision
		switch {
		case out.IsDone():
			d = j.then()
		case j.state.elseState(m.table) == before.State:
			return out.Err()
		default:
			d = j.moveToElse(fault.Of(out.Err()).Code, out.Message())
		}
		report.Snapshot = s
		if err := m.write(ctx, report, s.Object, d.Move); !stale(err) {
			return err
		}
	}
	return fault.WriteConflict.Errorf("the object was changed %d times while its state was written", tries)
}

func do[T any](ctx context.Context, work func(context.Context, T) outcome.Outcome, obj T) (out outcome.Outcome) {
	var err error
	defer func() {
		if err != nil {
			out = outcome.Fail(err)
		}
	}()
	defer panicError(&err)
	return work(ctx, obj)
}

// Resume moves an object from its Else state back to the state before, if there is no
// run to resume: its Do failed, or its run was refused or is lost. NOT_HELD otherwise.
func (m *Machine[T]) Resume(ctx context.Context, ref control.Ref) error {
	unlock, err := m.keys.lock(ctx, ref)
	if err != nil {
		return err
	}
	defer unlock()
	for range tries {
		s, err := m.options.Objects.Load(ctx, ref)
		if err != nil {
			return err
		}
		f, err := m.facts(ctx, &s)
		if err != nil {
			return err
		}
		if !f.Position.Held || f.Run != nil {
			return NotHeld.Errorf("%s is in state %s", ref, f.Position.State)
		}
		move := Move{From: f.Position, To: f.Position.recovered(f.Now), Cause: ByRecover}
		if err = m.write(ctx, &Report[T]{}, s.Object, move); !stale(err) {
			return err
		}
	}
	return fault.WriteConflict.Errorf("%s was changed %d times meanwhile; ask again", ref, tries)
}

func (m *Machine[T]) actor(reason string) workflow.Actor {
	return workflow.Actor{Name: "machine/" + m.table.Name, Reason: reason}
}
