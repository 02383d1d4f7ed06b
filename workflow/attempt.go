package workflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// attempt is one execution of a step, in its own goroutine.
type attempt struct {
	node       *node
	rec        *StepRecord
	round      int // round of the record when the attempt was opened
	poll       bool
	abandoned  bool
	isolated   bool
	pollAgain  bool // something happened while it was open: poll once more if it waits
	slot       bool // it uses a slot of the worker
	endForSkip bool // it must end, because a skip and a cancel wait for it
	heal       *Healer
	code       fault.Code
	stop       *Stop // the stop that opened it, if it is part of the end of the run
	cancel     context.CancelCauseFunc

	ends          time.Time // its timeout
	cancelledAt   time.Time // time of the cancellation of its context; zero: not cancelled
	lastHeartbeat atomic.Int64
	progress      atomic.Pointer[Progress]
	stored        time.Time // time of the last stored progress
	wake          func()
}

// report takes the progress of a task. Progress counts as a heartbeat and wakes the driver.
func (a *attempt) report(p Progress) {
	a.progress.Store(&p)
	a.lastHeartbeat.Store(p.At.UnixNano())
	a.wake()
}

// slot reports whether an opening needs a slot of the worker.
func (o opening) slot() bool { return o.heal == nil && !o.node.closes }

// launch starts the attempts that the last decision has opened and the last save has recorded.
func (d *driver) launch() {
	if len(d.s.opens) == 0 {
		return
	}
	d.mu.Lock() // SendRequest reads the open attempts concurrently
	defer d.mu.Unlock()
	for _, o := range d.s.opens {
		d.start(o)
	}
	d.s.opens = d.s.opens[:0]
}

func (d *driver) start(o opening) {
	a := &attempt{node: o.node, rec: o.rec, round: o.rec.Round, poll: o.poll, isolated: o.rec.Isolated && !o.poll, heal: o.heal, code: o.code, stop: d.s.run.State.Stop}
	a.slot = o.slot()
	timeout, _, _ := o.node.timeout()
	a.ends = d.s.now.Add(time.Duration(timeout))
	base, cancel := context.WithCancelCause(d.ctx)
	ctx := deadline{base, a.ends}
	a.cancel = cancel
	a.lastHeartbeat.Store(d.s.now.UnixNano())
	d.s.open[o.rec.Name] = a
	task := d.task(ctx, o, a)
	do := d.work(o)
	d.running.Add(1)
	go func() {
		defer d.running.Done()
		r := result{attempt: a}
		r.outcome = d.call(ctx, do, task)
		r.cause = causeOf(ctx)
		if err := r.outcome.Err(); r.cause == nil && errors.Is(err, ErrLeaseLost) {
			r.cause = ErrLeaseLost
		}
		task.mu.Lock()
		r.output, r.taken, r.progress = task.output, task.taken, task.progress
		task.mu.Unlock()
		d.redactResult(&r)
		a.cancel(nil)
		select {
		case d.results <- r:
		case <-d.stopped:
		}
	}()
}

// deadline exposes the timeout to the attempt. The timer of the driver enforces it.
type deadline struct {
	context.Context
	at time.Time
}

func (d deadline) Deadline() (time.Time, bool) { return d.at, true }

// work returns the function that an attempt calls.
func (d *driver) work(o opening) Func {
	switch {
	case o.heal != nil:
		if o.heal.Do != nil {
			return o.heal.Do
		}
		return d.healByFlow(o)
	case o.node.kind == childNode && o.rec.Undoing && o.node.undo == nil:
		return d.endChild
	case o.node.kind == childNode && !o.rec.Undoing:
		return d.runChild(o.node)
	case o.rec.Undoing:
		return o.node.undo
	default:
		return o.node.do
	}
}

func (d *driver) task(ctx context.Context, o opening, a *attempt) *Task {
	s, r, step := d.s, d.s.run, o.node.step
	t := &Task{
		facts: TaskFacts{
			Run: r.ID, Flow: r.Flow, Subject: r.Subject, Step: o.rec.Name, Round: o.rec.Round, Attempt: max(o.rec.Attempt, 1),
			Failures: o.rec.Failures, Epoch: r.Epoch, Undoing: o.rec.Undoing, Input: r.Input, With: step.With,
			MaxOutput: step.MaxOutput, Secrets: step.Secrets, Retry: step.Retry,
		},
		ctx: ctx, secrets: d.e.options.Secrets, addSecret: d.redactor.add, capacity: s.capacity(o.rec, d.e.runLimit()), limit: d.e.runLimit(), baseLogger: d.log, redactor: &d.redactor,
	}
	if len(s.mail) > 0 {
		t.facts.Signals = slices.Clone(s.mail)
	}
	if o.rec.Wait != nil {
		w := *o.rec.Wait
		t.facts.Wait = &w
	}
	if o.heal != nil {
		t.facts.Fault = r.Fault
	} else if o.rec.Fault != nil {
		t.facts.Fault = o.rec.Fault
	}
	if _, shared := d.e.store.(Claimer); shared {
		t.facts.Lease = func() time.Duration { return d.e.lease.remaining(int(d.term.Load())) }
	}
	t.reporter = a
	a.wake = d.wake
	t.view = View{source: driverSource{d}, scope: scopeOf(o.rec.Name)}
	return t
}

// call runs the step with its resolved parameters. It turns a panic into a failure.
func (d *driver) call(ctx context.Context, do Func, t *Task) (o outcome.Outcome) {
	defer func() {
		if r := recover(); r != nil {
			o = outcome.Fail(fault.Panic.Errorf("%v", r).With("stack", stack()))
		}
	}()
	n := d.s.plan.node(t.facts.Step)
	if n != nil {
		resolve := n.step.Resolve
		if t.facts.Undoing {
			resolve, t.facts.With = nil, nil
			if call := n.step.UndoCall; call != nil {
				resolve, t.facts.With = call.Resolve, call.With
			}
		}
		if resolve != nil {
			with, err := resolve(t.view)
			if err != nil {
				if fault.Of(err) == fault.Unknown {
					err = ExpressionFailed.Errorf("with: %w", err)
				}
				return outcome.Fail(err)
			}
			t.facts.With = with
		}
	}
	if left, leased := t.Lease(); leased && left <= 0 { // the process may have been suspended since the run was saved
		return outcome.Fail(ErrLeaseLost)
	}
	return do(ctx, t)
}

// causeOf returns the cause for which the context of an attempt ended; nil if it has not ended.
func causeOf(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// redactResult redacts the values of secrets in a result.
func (d *driver) redactResult(r *result) {
	if !d.redactor.any() {
		return
	}
	if r.output != nil {
		r.output = d.redactor.redactJSON(r.output)
	}
	if r.progress != nil {
		p := *r.progress
		p.Text = d.redactor.redact(p.Text)
		r.progress = &p
	}
	if err := r.outcome.Err(); err != nil {
		clean := fault.Of(err).Errorf("%s", d.redactor.redact(fault.Message(err)))
		for key, value := range fault.Details(err) {
			clean = clean.With(key, d.redactor.redactValue(value))
		}
		r.outcome = outcome.Fail(clean)
	} else if !r.outcome.IsDone() {
		r.outcome = outcome.Wait(r.outcome.After(), r.outcome.Reason(), "%s", d.redactor.redact(r.outcome.Message()))
	}
}

// driverSource answers a View for attempts, which run concurrently with the driver.
type driverSource struct{ d *driver }

func (w driverSource) info() RunInfo          { return infoOf(w.d.s.run) }
func (w driverSource) input() json.RawMessage { return bytes.Clone(w.d.s.run.Input) }
func (w driverSource) lookup(inst string) (StepView, bool) {
	w.d.mu.RLock()
	defer w.d.mu.RUnlock()
	v, ok := stateSource{w.d.s}.lookup(inst)
	v.Output = bytes.Clone(v.Output)
	return v, ok
}
func (w driverSource) item(scope, as string) (json.RawMessage, bool) {
	w.d.mu.RLock()
	defer w.d.mu.RUnlock()
	return stateSource{w.d.s}.item(scope, as)
}
func (w driverSource) params(scope string) (json.RawMessage, error) {
	w.d.mu.RLock()
	defer w.d.mu.RUnlock()
	return stateSource{w.d.s}.params(scope)
}
func (w driverSource) object() (json.RawMessage, error) {
	if w.d.s.object == nil {
		return json.RawMessage("null"), nil
	}
	return w.d.s.object()
}
func (w driverSource) outputs() []namedOutput {
	w.d.mu.RLock()
	defer w.d.mu.RUnlock()
	var all []namedOutput
	for rec := range w.d.s.run.Steps() {
		if rec.Output != nil {
			all = append(all, namedOutput{rec.Name, bytes.Clone(rec.Output)})
		}
	}
	return all
}

type namedOutput struct {
	name   string
	output json.RawMessage
}

// runChild starts the child run of a step, once, and waits for its end.
func (d *driver) runChild(n *node) Func {
	return func(ctx context.Context, t *Task) outcome.Outcome {
		subject, inline := d.s.run.Subject, true
		if n.step.FlowSubject != nil {
			other, err := n.step.FlowSubject(t.view)
			if err != nil {
				return outcome.Fail(ExpressionFailed.Errorf("subject: %w", err))
			}
			if other != "" && other != subject {
				subject, inline = other, false
			}
		}
		if d.s.run.Depth+1 > maxChildDepth {
			return outcome.Fail(FlowInvalid.Errorf("sub-flows are nested deeper than %d", maxChildDepth))
		}
		for round := range t.facts.Round {
			if out := d.endFormerChild(ctx, t, childID(d.s.run.ID, subject, n.step.Flow, t.Step(), round)); !out.IsDone() {
				return out
			}
		}
		return d.child(ctx, t, Request{
			Flow: n.step.Flow, Subject: subject, Input: t.facts.With, Labels: d.s.run.Labels, Actor: Actor{Name: d.s.run.Actor, Reason: "step " + t.Step() + " of " + d.s.run.ID},
			RequestID: fmt.Sprintf("%s/%s/%d", d.s.run.ID, t.Step(), t.facts.Round),
		}, inline)
	}
}

// endFormerChild ends the child run of an earlier round before a new one starts, so that two of
// them never run at the same time. The request to cancel it may have been sent before the child was
// created.
func (d *driver) endFormerChild(ctx context.Context, t *Task, id string) outcome.Outcome {
	child, _, err := d.e.store.Load(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound) || err == nil && child.Phase.Final():
		return outcome.Done()
	case err != nil:
		return outcome.Fail(err)
	case child.State.Stop == nil || child.State.Stop.Mode != Drop:
		payload, _ := json.Marshal(RunRequest{Actor: Actor{Name: "parent " + t.RunID(), Reason: "it returns to an earlier step and starts another child run"}, Mode: Drop})
		err = d.e.store.Send(ctx, id, Signal{ID: t.Key() + "/former/" + id, Name: reserved + string(VerbCancel), Payload: payload, At: time.Now().UTC()})
		if err != nil && !errors.Is(err, ErrFinal) {
			return outcome.Fail(err)
		}
	case child.Phase == Paused && child.Fault != nil:
		return outcome.Fail(ChildPaused.Errorf("the former child run %s cannot end: %s: %s", id, child.Fault.Code, child.Fault.Message).With("child", id))
	}
	return outcome.Wait(0, "Child", "former child run %s ends", id)
}

func (d *driver) child(ctx context.Context, t *Task, req Request, inline bool) outcome.Outcome {
	id := RunID(req.Subject, req.Flow, req.RequestID)
	child, _, err := d.e.store.Load(ctx, id)
	if errors.Is(err, ErrNotFound) {
		child, err = d.e.startChild(ctx, req, d.s.run, t.Step(), inline)
	}
	if err != nil {
		return outcome.Fail(err)
	}
	switch child.Phase {
	case Succeeded:
		out := map[string]any{"run": id}
		if result := child.Result(); result != nil {
			out["output"] = result
		} else if last := lastOutput(child); last != nil {
			out["output"] = last
		}
		if err := t.Set(out); err != nil {
			return outcome.Fail(err)
		}
		return outcome.Done()
	case Cancelled:
		return outcome.Fail(CancelledByPerson.Errorf("the child run %s was cancelled", id).With("child", id))
	case Paused:
		e := ChildPaused.Errorf("the child run %s is paused", id).With("child", id)
		if f := child.Fault; f != nil {
			e = ChildPaused.Errorf("the child run %s is paused: %s: %s", id, f.Code, f.Message).With("child", id).With("code", string(f.Code))
			if kind, ok := fault.Lookup(string(f.Code)); ok {
				e = e.With("remedy", kind.Remedy)
			}
		}
		return outcome.Fail(e)
	}
	return outcome.Wait(0, "Child", "child run %s", id)
}

func lastOutput(r *Run) json.RawMessage {
	for _, rec := range slices.Backward(r.order) {
		if rec.Output != nil {
			return rec.Output
		}
	}
	return nil
}

// endChild is the undo of a step whose child run has not ended: it cancels the child with the mode
// of its parent. A child that has ended stays as it is.
func (d *driver) endChild(ctx context.Context, t *Task) outcome.Outcome {
	d.mu.RLock()
	id := d.s.childID(d.s.run.Step(t.Step()))
	mode := Undo
	if stop := d.s.run.State.Stop; stop != nil && stop.Mode == Drop {
		mode = Drop
	}
	d.mu.RUnlock()
	child, _, err := d.e.store.Load(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return outcome.Done()
	case err != nil:
		return outcome.Fail(err)
	case child.Phase.Final():
		return outcome.Done()
	case child.State.Stop == nil || child.State.Stop.Mode != mode:
		payload, _ := json.Marshal(RunRequest{Actor: Actor{Name: "parent " + t.RunID()}, Mode: mode})
		err = d.e.store.Send(ctx, id, Signal{ID: t.Key() + "/" + string(mode), Name: reserved + string(VerbCancel), Payload: payload, At: time.Now().UTC()})
		if err != nil && !errors.Is(err, ErrFinal) {
			return outcome.Fail(err)
		}
	case child.Phase == Paused && child.Fault != nil:
		return outcome.Fail(ChildPaused.Errorf("the child run %s cannot end: %s: %s", id, child.Fault.Code, child.Fault.Message).With("child", id))
	}
	return outcome.Wait(0, "Child", "child run %s ends", id)
}

// healByFlow runs a healer that is a flow, as a child of the paused run.
func (d *driver) healByFlow(o opening) Func {
	return func(ctx context.Context, t *Task) outcome.Outcome {
		input, err := json.Marshal(map[string]any{"fault": t.facts.Fault, "input": d.s.run.Input, "run": d.s.run.ID})
		if err != nil {
			return outcome.Fail(err)
		}
		return d.child(ctx, t, Request{
			Flow: o.heal.Flow, Subject: d.s.run.Subject, Input: input, Actor: Actor{Name: "healer", Reason: string(o.code)},
			RequestID: fmt.Sprintf("%s/%s%s/%d", d.s.run.ID, healingPrefix, o.code, o.rec.Attempt),
		}, true)
	}
}
