package driver

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

// Defaults of a driver.
const (
	DefaultPollInterval    = time.Minute // between looks that nothing asked for
	DefaultMaxObservations = 8           // observations at once
)

// Engine is what a driver needs of the engine. A *workflow.Engine is one.
type Engine interface {
	machine.Flows
	Touch(ctx context.Context, subject string) error
}

// Options of a driver. Objects, Engine and Machines are required.
type Options struct {
	Objects  control.Objects
	Engine   Engine
	Machines []machine.Standalone // one for each kind
	Notifier *Notifier            // in the engine's hooks; nil: runs are only seen every Look
	Actions  []workflow.Action    // that observations use
	Secrets  workflow.Secrets     // of observations

	Workers         int           // objects of a kind at once; default control.DefaultWorkers
	MaxObservations int           // observations at once; default 8
	PollInterval    time.Duration // safety look at objects whose run is under way or paused, or whose machine reads now; default 1 m
	Drain           time.Duration // of passes, when Serve's context ended; default control.DefaultDrain

	Moved   func(control.Ref, machine.Move) // told of each change of state, after it was written
	Logger  *slog.Logger                    // default slog.Default()
	Metrics control.Metrics                 // nil: none
	Now     func() time.Time                // default time.Now
}

// Driver moves the objects of its machines.
type Driver struct {
	options Options
	kinds   map[string]*kind
	looks   *observer
}

// kind is a machine at work.
type kind struct {
	machine machine.Standalone
	objects *objects
	moves   *machine.Machine[*machine.Subject]
}

// New makes a driver. MACHINE_INVALID and ACTION_MISSING name what is wrong.
func New(o Options) (*Driver, error) {
	o.PollInterval = cmp.Or(o.PollInterval, DefaultPollInterval)
	o.MaxObservations = cmp.Or(o.MaxObservations, DefaultMaxObservations)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	d := &Driver{options: o, kinds: map[string]*kind{}}
	d.looks = newObserver(d)
	for _, m := range o.Machines {
		name := m.Table.Kind
		if _, twice := d.kinds[name]; twice || name == "" {
			return nil, machine.Invalid.Errorf("machine %s: kind %q: each machine needs a kind of its own", m.Table.Name, name)
		}
		for _, see := range m.Observe {
			if !slices.ContainsFunc(o.Actions, func(a workflow.Action) bool { return a.Name == see.Uses }) {
				return nil, workflow.ActionMissing.Errorf("observation %s of machine %s uses %s", see.Name, m.Table.Name, see.Uses)
			}
		}
		if m.Table.Generation == nil {
			m.Table.Generation = func(s *machine.Subject) int64 { return s.Object.Generation }
		}
		if m.Table.Purpose == nil {
			m.Table.Purpose = (*machine.Subject).Spec
		}
		k := &kind{machine: m, objects: &objects{store: o.Objects, machine: m, now: o.Now, moved: o.Moved}}
		var err error
		k.moves, err = machine.New(m.Table, machine.Options[*machine.Subject]{
			Objects: k.objects, Flows: o.Engine, PollInterval: o.PollInterval, Now: o.Now, Logger: o.Logger})
		if err != nil {
			return nil, err
		}
		d.kinds[name] = k
	}
	return d, nil
}

// Machine gives the machine of a kind.
func (d *Driver) Machine(name string) (machine.Standalone, bool) {
	k, ok := d.kinds[name]
	if !ok {
		return machine.Standalone{}, false
	}
	return k.machine, true
}

// Serve moves objects until the context ends, then drains. No goroutine of it is left.
func (d *Driver) Serve(ctx context.Context) error {
	sources, controllers := []control.Runner{d.looks}, []control.Runner{}
	for name, k := range d.kinds {
		shared := control.NewShared(d.options.Objects.Feed(name), control.SharedOptions[control.Object]{
			Name: name, Metrics: d.options.Metrics, Log: d.options.Logger})
		shared.Handle(d.touch)
		triggers := []control.Trigger{control.For(shared, news)}
		if d.options.Notifier != nil {
			triggers = append(triggers, control.Signals(func(ctx context.Context, add func(string)) { d.options.Notifier.subscribe(ctx, name, add) }))
		}
		sources = append(sources, shared)
		controllers = append(controllers, control.Controller{
			Name: name, Triggers: triggers, Workers: d.options.Workers, Drain: d.options.Drain,
			Metrics: d.options.Metrics, Log: d.options.Logger, Report: k.report,
			Reconcile: func(ctx context.Context, key string) outcome.Outcome { return d.reconcile(ctx, k, key) },
		})
	}
	return control.Run(ctx, sources, controllers)
}

// touch tells the engine of a changed object, for the conditions of its run.
func (d *Driver) touch(ctx context.Context, e control.Event[control.Object]) {
	if e.Created || e.Deleted || e.Resync || !news(e) {
		return
	}
	if err := d.options.Engine.Touch(ctx, Subject(e.New)); err != nil && ctx.Err() == nil {
		d.options.Logger.Warn("the engine was not told of a changed object", "object", e.Key, "error", err)
	}
}

// reconcile is one pass over an object, and its status.
func (d *Driver) reconcile(ctx context.Context, k *kind, key string) outcome.Outcome {
	ref, err := control.ParseRef(key)
	if err != nil {
		return outcome.Fail(err)
	}
	pass := k.moves.Pass(ctx, ref)
	if !pass.Found {
		return pass.Outcome
	}
	out := pass.Outcome
	if !pass.Wrote {
		switch err := k.writeStatus(ctx, pass, nil); {
		case isGone(err):
			return outcome.Done()
		case err != nil && !out.IsFail():
			return outcome.Fail(fmt.Errorf("status of %s was not written: %w", ref, err))
		}
	}
	d.looks.plan(k, ref, pass)
	for _, loop := range pass.Decision.Loops {
		d.options.Logger.WarnContext(ctx, "a machine runs in a loop", "machine", k.machine.Table.Name, "object", key,
			"event", loop.Event, "state", loop.State, "repeats", loop.Repeats, "next", loop.Wait)
	}
	if place := k.machine.Table.States[pass.Position.State]; k.machine.Clock && (out.IsDone() || out.IsLater()) && !place.Final() {
		look := d.options.PollInterval
		if out.IsLater() && out.After() > 0 {
			look = min(look, out.After())
		}
		return outcome.Later(look, cmp.Or(out.Reason(), "Rests"), "%s", cmp.Or(out.Message(), "its machine reads the time"))
	}
	return out
}

// tell writes the status after a pass that wrote no position.
func (k *kind) writeStatus(ctx context.Context, pass machine.Report[*machine.Subject], given error) error {
	rec, err := recordOf(pass.Object.Object)
	rec.Position = pass.Position
	return k.objects.save(ctx, pass.Object.Object, rec, view{damaged: err != nil, position: pass.Position, run: machine.FactsOf(pass.Run), ending: pass.Ending, out: pass.Outcome, gaveUp: given,
		rejected: pass.Decision.Rejected, loops: pass.Decision.Loops})
}

// report writes the fault of an object that the controller has given up.
func (k *kind) report(ctx context.Context, key string, given error) error {
	if given == nil {
		return nil // each pass writes the whole truth
	}
	ref, err := control.ParseRef(key)
	if err != nil {
		return err
	}
	s, err := k.objects.Load(ctx, ref)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	p, _ := k.objects.Position(s.Object)
	if p.State == "" {
		p.State = k.machine.Table.Initial
	}
	return k.writeStatus(ctx, machine.Report[*machine.Subject]{Snapshot: s, Position: p}, given)
}

// Plan says what the next pass over an object would do. It writes nothing.
func (d *Driver) Plan(ctx context.Context, ref control.Ref) (machine.Plan, error) {
	o, err := d.options.Objects.Get(ctx, ref)
	if err != nil {
		return machine.Plan{}, err
	}
	return d.PlanFor(ctx, o)
}

// PlanFor is Plan for an object that may not be stored: what would become of
// it if it were. MACHINE_INVALID if no machine has its kind.
func (d *Driver) PlanFor(ctx context.Context, o control.Object) (machine.Plan, error) {
	k, ok := d.kinds[o.Kind]
	if !ok {
		return machine.Plan{}, machine.Invalid.Errorf("no machine moves objects of kind %q", o.Kind)
	}
	return k.moves.Plan(ctx, k.objects.subject(o))
}

// Resume sends an object on that waits in its Else state without a run that
// could be resumed. NOT_HELD otherwise.
func (d *Driver) Resume(ctx context.Context, ref control.Ref) error {
	k, ok := d.kinds[ref.Kind]
	if !ok {
		return machine.Invalid.Errorf("no machine moves objects of kind %q", ref.Kind)
	}
	if err := k.moves.Resume(ctx, ref); err != nil {
		return err
	}
	if d.options.Notifier != nil {
		d.options.Notifier.notify(ref)
	}
	return nil
}
