package bulk

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Engine sends requests and signals to runs. A *workflow.Engine is one.
type Engine interface {
	Find(ctx context.Context, id string) (runstore.Loaded, error)
	SendRequest(ctx context.Context, to runstore.Loaded, verb runtype.Verb, request workflow.RunRequest) error
	Post(ctx context.Context, to runstore.Loaded, s runtype.Signal) error
}

// Options of a worker. Objects, Engine and Runs are required.
type Options struct {
	Objects  control.Objects
	Engine   Engine
	Runs     Lister
	Alone    bool // no other process works on the store: leases of others have ended
	Workers  int  // bulks at once; default 4
	Parallel int  // runs of a bulk that are asked at once; default 16: stores gather the writes of many
	// Accepted is called with each run that has accepted its request, up to Parallel times at once; nil: nothing is.
	Accepted func(ctx context.Context, run string)
	Logger   *slog.Logger
	Metrics  control.Metrics  // nil: none
	Now      func() time.Time // default time.Now
}

const (
	// pageSize is how many runs a list returns. A bulk has fewer than two pages pending.
	pageSize = 200
	// leaseFor is how long a worker that has died keeps the others waiting.
	leaseFor = 30 * time.Second
	// afterFailure is when a bulk is tried again while the store refuses.
	afterFailure = 5 * time.Second
	// releaseFor is how long a worker that ends tries to give its lease back.
	releaseFor = 5 * time.Second
)

// Worker carries out bulks. Several may share a store.
type Worker struct {
	options Options
	name    string
}

// New returns a worker.
func New(o Options) *Worker {
	if o.Workers == 0 {
		o.Workers = 4
	}
	if o.Parallel == 0 {
		o.Parallel = 16
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Worker{options: o, name: control.NewUID()}
}

// Serve carries out the bulks of the store until the context ends, those first that another worker has begun.
func (w *Worker) Serve(ctx context.Context) error {
	shared := control.NewShared(w.options.Objects.Feed(Kind), control.SharedOptions[control.Object]{
		Name: Kind, Metrics: w.options.Metrics, Log: w.options.Logger})
	return control.Run(ctx, []control.Runner{shared}, []control.Runner{control.Controller{
		Name: Kind, Workers: w.options.Workers, Metrics: w.options.Metrics, Log: w.options.Logger,
		Triggers: []control.Trigger{control.For(shared, ordered)},
		Reconcile: func(ctx context.Context, key string) outcome.Outcome {
			ref, err := control.ParseRef(key)
			if err != nil {
				return outcome.Fail(err)
			}
			after, err := w.Pass(ctx, ref)
			switch {
			case err != nil && ctx.Err() == nil:
				w.options.Logger.Log(ctx, control.LogLevel(err), "a bulk waits", "bulk", key, "error", err)
				return outcome.Wait(afterFailure, "Waiting", "%v", err)
			case after > 0:
				return outcome.Wait(after, "Held", "another server works on it")
			}
			return outcome.Done()
		},
	}})
}

// ordered holds for what a person changed, and not for what a worker wrote.
func ordered(e control.Event[control.Object]) bool {
	return e.Created || e.Deleted || e.Resync || control.DesiredChanged(e)
}

// Pass carries out a bulk until it has ended, is paused or is gone. It returns when to come again; 0: that is not needed.
func (w *Worker) Pass(ctx context.Context, ref control.Ref) (after time.Duration, err error) {
	defer func() {
		if ctx.Err() != nil {
			w.release(ctx, ref)
		}
	}()
	for ctx.Err() == nil {
		o, err := w.options.Objects.Get(ctx, ref)
		if fault.Of(err) == control.NotFound || err == nil && o.Deleting() {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		after, again, err := w.step(ctx, o)
		switch {
		case fault.Of(err) == fault.WriteConflict: // another server was faster, or a person changed it
		case fault.Of(err) == control.NotFound:
			return 0, nil
		case err != nil || !again:
			return after, err
		}
	}
	return 0, ctx.Err()
}

// step asks the pending runs, and makes one write: of what became of them, and of the runs that are pending next.
func (w *Worker) step(ctx context.Context, o control.Object) (after time.Duration, again bool, err error) {
	status, err := StatusOf(o)
	if err != nil { // nobody but a worker writes it
		return 0, false, Invalid.Errorf("status of %s: %w", o.Ref, err)
	}
	now := w.options.Now()
	if status.Ended() && status.ObservedGeneration == o.Generation {
		return 0, false, nil
	}
	if left := status.HeldUntil.Sub(now); !w.options.Alone && status.Holder != w.name && left > 0 {
		return left, false, nil
	}
	if status.ObservedGeneration != 0 && status.ObservedGeneration != o.Generation {
		return 0, false, w.refuse(ctx, o, status, errors.New("it was changed after the bulk had begun"))
	}
	spec, err := Parse(o.Spec)
	if err != nil {
		return 0, false, w.refuse(ctx, o, status, err)
	}
	if _, paused := o.Annotations[PauseAnnotation]; paused {
		status.Holder, status.HeldUntil = "", time.Time{}
		if status.enter(StatePaused, o.Generation, now) {
			return 0, false, w.save(ctx, o, status)
		}
		return 0, false, nil
	}
	if status.StartedAt.IsZero() {
		status.StartedAt = now.UTC()
	}
	status.enter(StateRunning, o.Generation, now)
	if len(status.Pending) > 0 {
		results, err := w.ask(ctx, o, spec, status.Pending)
		if err != nil {
			return 0, false, err
		}
		for i, id := range status.Pending {
			status.record(id, results[i])
		}
		status.Pending = nil
	}
	if !status.Listed {
		if err := w.list(ctx, o, spec, &status); err != nil {
			return 0, false, err
		}
	}
	now = w.options.Now()
	status.Holder, status.HeldUntil = w.name, now.Add(leaseFor).UTC()
	if len(status.Pending) == 0 && status.Listed {
		status.enter(StateComplete, o.Generation, now)
		status.EndedAt, status.Cursor, status.Holder, status.HeldUntil = now.UTC(), "", "", time.Time{}
		if status.Refused > 0 {
			status.Fault = record(Refused, o.Generation, now, "%d of %d runs refused", status.Refused, status.Refused+status.Done)
		}
	}
	return 0, !status.Ended(), w.save(ctx, o, status)
}

// list makes the next runs of the selection pending.
func (w *Worker) list(ctx context.Context, o control.Object, spec Spec, status *Status) error {
	if spec.CreatedBefore.IsZero() { // what comes later was not meant
		spec.CreatedBefore = o.CreatedAt
	}
	for len(status.Pending) < pageSize/2 && !status.Listed {
		q, err := spec.query(status.Cursor)
		if err != nil {
			return err
		}
		page, next, err := w.options.Runs.List(ctx, q)
		if err != nil {
			return err
		}
		for _, r := range page {
			status.Pending = append(status.Pending, r.ID)
		}
		status.Cursor, status.Listed = next, next == ""
	}
	return nil
}

// ask sends the request to each run, and returns what became of it: nil, or the refusal. A store that refuses is an error.
func (w *Worker) ask(ctx context.Context, o control.Object, spec Spec, ids []string) ([]error, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make([]error, len(ids))
	next := make(chan int)
	var all sync.WaitGroup
	for range min(w.options.Parallel, len(ids)) {
		all.Go(func() {
			for i := range next {
				err := w.one(ctx, o, spec, ids[i])
				if err != nil && retryHelps(err) {
					cancel(err)
					return
				}
				if results[i] = err; err == nil && w.options.Accepted != nil {
					w.options.Accepted(ctx, ids[i])
				}
			}
		})
	}
feed:
	for i := range ids {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	all.Wait()
	return results, context.Cause(ctx)
}

// retryHelps reports an error of the store, which says nothing about the run.
func retryHelps(err error) bool {
	kind := fault.Of(err)
	return kind == runstore.StoreUnavailable || kind == runstore.StoreFull || workflow.IsStoreError(err) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func (w *Worker) one(ctx context.Context, o control.Object, spec Spec, id string) error {
	to, err := w.options.Engine.Find(ctx, id)
	if err != nil {
		return err
	}
	request := "bulk/" + o.UID // a run accepts it once
	if spec.Verb == VerbSignal {
		return w.options.Engine.Post(ctx, to, runtype.Signal{ID: request, Name: spec.Signal, Payload: spec.Data, Actor: spec.Actor, At: w.options.Now().UTC()})
	}
	step := spec.Step
	if spec.Verb == runtype.VerbSkip && step == "" && to.Run.Fault != nil {
		step = to.Run.Fault.Step
	}
	return w.options.Engine.SendRequest(ctx, to, spec.Verb, workflow.RunRequest{
		Actor: workflow.Actor{Name: spec.Actor, Reason: spec.Reason, RequestID: request},
		From:  spec.From, Definition: spec.Definition, Mode: mode(spec), GiveUp: spec.GiveUp,
		Step: step, Force: spec.Force, Output: spec.Output,
	})
}

func mode(s Spec) runtype.Mode {
	if s.Verb == runtype.VerbCancel && s.Mode == "" {
		return runtype.Hold
	}
	return s.Mode
}

func (w *Worker) save(ctx context.Context, o control.Object, status Status) error {
	data, err := json.Marshal(status)
	if err != nil {
		return err
	}
	next := o.Copy()
	next.Status = data
	_, err = w.options.Objects.Update(ctx, next)
	return err
}

// refuse tells in the status why a spec cannot be used.
func (w *Worker) refuse(ctx context.Context, o control.Object, status Status, why error) error {
	status.Fault = record(Invalid, o.Generation, w.options.Now(), "spec: %s", fault.Message(why))
	status.Holder, status.HeldUntil = "", time.Time{}
	status.enter(StateInvalid, o.Generation, w.options.Now())
	w.options.Logger.Warn("a bulk cannot be used", "bulk", o.Ref.String(), "error", why)
	return w.save(ctx, o, status)
}

func record(kind *fault.Kind, generation int64, now time.Time, format string, args ...any) *control.FaultRecord {
	return &control.FaultRecord{Code: kind.Code, Class: kind.Class, Title: kind.Title, Remedy: kind.Remedy,
		Message: fault.Message(kind.Errorf(format, args...)), ObservedGeneration: generation, At: now.UTC()}
}

// release ends the lease, so that the next worker need not wait for its end.
func (w *Worker) release(ctx context.Context, ref control.Ref) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseFor)
	defer cancel()
	o, err := w.options.Objects.Get(ctx, ref)
	if err != nil {
		return // it ends by itself
	}
	status, err := StatusOf(o)
	if err != nil || status.Holder != w.name {
		return
	}
	status.Holder, status.HeldUntil = "", time.Time{}
	if err := w.save(ctx, o, status); err != nil {
		w.options.Logger.Debug("a bulk stays held", "bulk", ref.String(), "error", err)
	}
}
