package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Engine starts and cancels runs. A *workflow.Engine is one.
type Engine interface {
	Start(ctx context.Context, req workflow.Request) (*runtype.Run, error)
	Cancel(ctx context.Context, id string, mode runtype.Mode, giveUp bool, by workflow.Actor) error
}

// Runs lists runs. A runstore.Lister is one.
type Runs interface {
	List(ctx context.Context, q runstore.Query) (runs []*runtype.Run, cursor string, err error)
}

// Options of a scheduler. Objects, Engine and Runs are required.
type Options struct {
	Objects control.Objects
	Engine  Engine
	Runs    Runs
	Workers int // schedules at once; default 64: stores gather the writes of many
	Logger  *slog.Logger
	Metrics control.Metrics  // nil: none
	Now     func() time.Time // default time.Now
}

// afterFailure is when a schedule is looked at again at the latest after a pass that failed.
const afterFailure = time.Minute

// Scheduler starts the runs of the schedules of a store. Several may share the store.
type Scheduler struct {
	options Options
	clock   *alarmClock
}

// New returns a scheduler.
func New(o Options) *Scheduler {
	if o.Workers == 0 {
		o.Workers = 64
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Scheduler{options: o, clock: newAlarmClock(o.Now)}
}

// Serve starts runs until the context ends, then drains.
func (s *Scheduler) Serve(ctx context.Context) error {
	shared := control.NewShared(s.options.Objects.Feed(Kind), control.SharedOptions[control.Object]{
		Name: Kind, Metrics: s.options.Metrics, Log: s.options.Logger})
	return control.Run(ctx, []control.Runner{shared}, []control.Runner{control.Controller{
		Name: Kind, Workers: s.options.Workers, Metrics: s.options.Metrics, Log: s.options.Logger,
		Triggers:  []control.Trigger{control.For(shared, asked), control.Signals(s.clock.run)},
		Reconcile: s.reconcile,
	}})
}

// asked holds for what a person changed, and not for what a scheduler wrote.
func asked(e control.Event[control.Object]) bool {
	return e.Created || e.Deleted || e.Resync || control.DesiredChanged(e)
}

func (s *Scheduler) reconcile(ctx context.Context, key string) outcome.Outcome {
	ref, err := control.ParseRef(key)
	if err != nil {
		return outcome.Fail(err)
	}
	next, err := s.Pass(ctx, ref)
	if err != nil {
		s.clock.set(key, s.options.Now().Add(afterFailure)) // the controller gives up at some point
		return outcome.Fail(err)
	}
	s.clock.set(key, next)
	return outcome.Done()
}

// Pass decides what is due of one schedule and starts it. It returns when the next tick begins; zero: none does.
func (s *Scheduler) Pass(ctx context.Context, ref control.Ref) (next time.Time, err error) {
	for ctx.Err() == nil {
		o, err := s.options.Objects.Get(ctx, ref)
		if fault.Of(err) == control.NotFound || err == nil && o.Deleting() {
			return time.Time{}, nil
		}
		if err != nil {
			return time.Time{}, err
		}
		next, again, err := s.step(ctx, o)
		switch {
		case fault.Of(err) == fault.WriteConflict: // another server was faster, or a person changed it
		case fault.Of(err) == control.NotFound:
			return time.Time{}, nil
		case err != nil || !again:
			return next, err
		}
	}
	return time.Time{}, ctx.Err()
}

// step makes one write: of the decision, or of what became of the pending ticks.
func (s *Scheduler) step(ctx context.Context, o control.Object) (next time.Time, again bool, err error) {
	status, err := StatusOf(o)
	if err != nil { // nobody but a scheduler writes it
		return next, false, Invalid.Errorf("status of %s: %w", o.Ref, err)
	}
	if status.Pending != nil {
		if err := s.start(ctx, o, &status); err != nil {
			return next, false, err
		}
		return next, true, s.save(ctx, o, status)
	}
	timetable, err := Parse(o.Spec)
	if err != nil {
		return next, false, s.refuse(ctx, o, status, err)
	}
	paused := Paused(o)
	f := Facts{Timetable: timetable, Status: status, Generation: o.Generation, CreatedAt: o.CreatedAt, Paused: paused,
		Subject: SubjectOf(o, timetable.Spec), Offset: timetable.Offset(o.UID), Now: s.options.Now()}
	if timetable.Overlap == Skip && f.Due() {
		if f.Active, err = s.active(ctx, o, f.Subject); err != nil {
			return next, false, err
		}
	}
	d := Decide(f)
	if !d.Write {
		return d.Next, false, nil
	}
	return d.Next, d.Status.Pending != nil, s.save(ctx, o, d.Status)
}

func (s *Scheduler) save(ctx context.Context, o control.Object, status Status) error {
	data, err := json.Marshal(status)
	if err != nil {
		return err
	}
	next := o.Copy()
	next.Status = data
	_, err = s.options.Objects.Update(ctx, next)
	return err
}

// refuse tells in the status why a spec cannot be used. Its next change is looked at again.
func (s *Scheduler) refuse(ctx context.Context, o control.Object, status Status, why error) error {
	if status.Fault != nil && status.ObservedGeneration == o.Generation {
		return nil
	}
	err := Invalid.Errorf("spec: %w", why)
	status.Fault = &control.FaultRecord{Code: Invalid.Code, Class: Invalid.Class, Title: Invalid.Title, Remedy: Invalid.Remedy,
		Message: fault.Message(err), ObservedGeneration: o.Generation, At: s.options.Now().UTC()}
	status.enter(StateInvalid, o.Generation, s.options.Now())
	s.options.Logger.Warn("a schedule cannot be used", "schedule", o.Ref.String(), "error", err)
	return s.save(ctx, o, status)
}

// open returns the runs of a schedule that have not ended, except one.
func (s *Scheduler) open(ctx context.Context, o control.Object, subject string) ([]*runtype.Run, error) {
	runs, _, err := s.options.Runs.List(ctx, runstore.Query{Subject: subject, Active: true, OldestFirst: true, Limit: 1000,
		Labels: []runstore.LabelTerm{{Key: LabelSchedule, Value: o.Namespace + "/" + o.Name}}})
	return runs, err
}

// active tells of a run that has not ended; empty: there is none.
func (s *Scheduler) active(ctx context.Context, o control.Object, subject string) (string, error) {
	runs, err := s.open(ctx, o, subject)
	if err != nil || len(runs) == 0 {
		return "", err
	}
	return fmt.Sprintf("run %s is %s", runs[0].ID, runs[0].Phase), nil
}

// start starts the pending ticks, or again what was started before, and records each.
func (s *Scheduler) start(ctx context.Context, o control.Object, status *Status) error {
	p := *status.Pending
	for _, tick := range p.Ticks {
		req := RunOf(o, p, tick)
		id := workflow.RunID(req.Subject, req.Flow, req.RequestID)
		run, err := s.options.Engine.Start(ctx, req)
		switch {
		case err == nil:
			status.record(Record{Tick: tick, Run: run.ID})
		case workflow.IsStoreError(err) || fault.Of(err).Class != fault.Invalid:
			return err
		default: // a flow that changed since may refuse what exists
			found, _, listErr := s.options.Runs.List(ctx, runstore.Query{IDs: []string{id}})
			if listErr != nil {
				return listErr
			}
			if len(found) == 1 {
				status.record(Record{Tick: tick, Run: id})
				continue
			}
			status.record(Record{Tick: tick, Reason: ReasonRefused, Message: string(fault.Of(err).Code) + ": " + fault.Message(err)})
			s.options.Logger.Warn("the run of a tick is refused", "schedule", o.Ref.String(), "tick", tick, "error", err)
			continue
		}
		if p.Replace {
			if err := s.cancelOthers(ctx, o, p.Subject, id); err != nil {
				return err
			}
		}
	}
	status.Pending = nil
	return nil
}

// cancelOthers cancels the open runs of a schedule but one.
func (s *Scheduler) cancelOthers(ctx context.Context, o control.Object, subject, id string) error {
	runs, err := s.open(ctx, o, subject)
	if err != nil {
		return err
	}
	for _, r := range runs {
		if r.ID == id {
			continue
		}
		err := s.options.Engine.Cancel(ctx, r.ID, runtype.Drop, false, workflow.Actor{Name: o.Ref.String(), Reason: "replaced by the run of a newer tick", RequestID: "replace/" + id})
		if kind := fault.Of(err); err != nil && kind != workflow.RunFinished && kind != workflow.RunNotFound && !errors.Is(err, runstore.ErrFinal) {
			return err
		}
	}
	return nil
}
