package workflow

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// attempt is one execution of a step, in its own goroutine.
type attempt struct {
	node       *node
	rec        *runtype.StepRecord
	round      int // round of the record when the attempt was opened
	poll       bool
	abandoned  bool
	isolated   bool
	pollAgain  bool // something happened while it was open: poll once more if it waits
	slot       bool // it uses a slot of the worker
	endForSkip bool // it must end, because a skip and a cancel wait for it
	heal       *Healer
	code       fault.Code
	stop       *runtype.Stop // the stop that opened it, if it is part of the end of the run
	cancel     context.CancelCauseFunc

	ends          time.Time // its timeout
	cancelledAt   time.Time // time of the cancellation of its context; zero: not cancelled
	lastHeartbeat atomic.Int64
	progress      atomic.Pointer[runtype.Progress]
	stored        time.Time // time of the last stored progress
	wake          func()
}

// attempts opens the attempts of a run and watches over them.
type attempts struct{ *driver }

func (d *driver) attempts() attempts { return attempts{d} }

// report takes the progress of a task. Progress counts as a heartbeat and wakes the driver.
func (a *attempt) report(p runtype.Progress) {
	a.progress.Store(&p)
	a.lastHeartbeat.Store(p.At.UnixNano())
	a.wake()
}

// slot reports whether an opening needs a slot of the worker.
func (o opening) slot() bool { return o.heal == nil && !o.node.closes }

// launch starts the attempts that the last decision has opened and the last save has recorded.
func (d attempts) launch() {
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

func (d attempts) start(o opening) {
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
		r.printed = task.printed.close()
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
func (d attempts) work(o opening) Func {
	switch {
	case o.heal != nil:
		if o.heal.Do != nil {
			return o.heal.Do
		}
		return d.children().healByFlow(o)
	case o.node.kind == childNode && o.rec.Undoing && o.node.undo == nil:
		return d.children().endChild
	case o.node.kind == childNode && !o.rec.Undoing:
		return d.children().runChild(o.node)
	case o.rec.Undoing:
		return o.node.undo
	default:
		return o.node.do
	}
}

func (d attempts) task(ctx context.Context, o opening, a *attempt) *Task {
	s, r, step := d.s, d.s.run, o.node.step
	t := &Task{
		facts: TaskFacts{
			Run: r.ID, Flow: r.Flow, Subject: r.Subject, Step: o.rec.Name, Round: o.rec.Round, Attempt: max(o.rec.Attempt, 1),
			Failures: o.rec.Failures, Epoch: r.Epoch, Undoing: o.rec.Undoing, Input: r.Input, With: step.With,
			MaxOutput: step.MaxOutput, Secrets: step.Secrets, Retry: step.Retry,
		},
		ctx: ctx, secrets: d.e.options.Secrets, addSecret: d.redactor.Add, capacity: s.capacity(o.rec, d.e.runLimit()), limit: d.e.runLimit(), baseLogger: d.log, redactor: &d.redactor,
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
	if _, shared := d.e.store.(runstore.Claimer); shared {
		t.facts.Lease = func() time.Duration { return d.e.lease.Remaining(int(d.term.Load())) }
	}
	t.printed.writer = d.e.logs
	t.reporter = a
	a.wake = d.wake
	t.view = View{source: driverSource{d.driver}, scope: scopeOf(o.rec.Name)}
	return t
}

// call runs the step with its resolved parameters. It turns a panic into a failure.
func (d attempts) call(ctx context.Context, do Func, t *Task) (o outcome.Outcome) {
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
func (d attempts) redactResult(r *result) {
	if !d.redactor.Any() {
		return
	}
	if r.output != nil {
		r.output = d.redactor.JSON(r.output)
	}
	if r.progress != nil {
		p := *r.progress
		p.Text = d.redactor.Text(p.Text)
		r.progress = &p
	}
	if err := r.outcome.Err(); err != nil {
		clean := fault.Of(err).Errorf("%s", d.redactor.Text(fault.Message(err)))
		for key, value := range fault.Details(err) {
			clean = clean.With(key, d.redactor.Value(value))
		}
		r.outcome = outcome.Fail(clean)
	} else if !r.outcome.IsDone() {
		r.outcome = outcome.Wait(r.outcome.After(), r.outcome.Reason(), "%s", d.redactor.Text(r.outcome.Message()))
	}
}

// nextAlarm returns the earliest time at which the driver must act without a wake-up.
func (d attempts) nextAlarm() time.Time {
	at := d.fetchMailAt
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	sooner(d.s.soonest)
	if len(d.s.ended) > 0 {
		sooner(d.s.releaseAt)
	}
	for _, a := range d.s.open {
		if a.abandoned {
			continue
		}
		_, grace, heartbeat := a.node.timeout()
		if !a.cancelledAt.IsZero() {
			sooner(a.cancelledAt.Add(time.Duration(grace)))
			continue
		}
		sooner(a.ends)
		if heartbeat > 0 {
			sooner(time.Unix(0, a.lastHeartbeat.Load()).Add(time.Duration(heartbeat)))
		}
		if p := a.progress.Load(); p != nil && p.At.After(a.stored) {
			sooner(a.stored.Add(d.e.options.ProgressInterval))
		}
		if a.isolated && d.hasTurn {
			sooner(a.rec.AttemptAt.Add(d.e.slots.Turn(d.e.options.IsolationTime, a.rec.Lost)))
		}
	}
	return at
}

// checkAttempts checks the open attempts: heartbeats, timeouts, grace periods, progress, and
// whether the turn of a suspected step is over.
func (d attempts) checkAttempts() {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := now()
	d.s.now = t
	for _, a := range d.s.open {
		_, grace, heartbeat := a.node.timeout()
		if a.cancelledAt.IsZero() && !t.Before(a.ends) {
			a.cancelledAt = t
			a.cancel(errTimeout)
		}
		if silent := time.Unix(0, a.lastHeartbeat.Load()).Add(time.Duration(heartbeat)); heartbeat > 0 && a.cancelledAt.IsZero() && !t.Before(silent) {
			a.cancelledAt = t
			a.cancel(errSilent)
		}
		if !a.cancelledAt.IsZero() && !a.abandoned && !t.Before(a.cancelledAt.Add(time.Duration(grace))) {
			d.s.results().markAbandoned(a)
			continue
		}
		if p := a.progress.Load(); p != nil && p.At.After(a.stored) && !t.Before(a.stored.Add(d.e.options.ProgressInterval)) {
			a.stored = t
			if rec := d.s.run.Step(a.rec.Name); rec != nil && a.heal == nil {
				q := *p
				q.Text = d.redactor.Text(q.Text)
				d.s.progress(rec, q)
			}
		}
		if a.isolated && d.hasTurn && !t.Before(a.rec.AttemptAt.Add(d.e.slots.Turn(d.e.options.IsolationTime, a.rec.Lost))) {
			d.hasTurn, a.isolated = false, false
			a.rec.Isolated = false
			d.s.put(a.rec)
			d.e.slots.EndTurn(&d.holder)
		}
	}
}

// abort cancels the contexts of the attempts that must not finish because the run is being
// cancelled.
func (d attempts) abort() {
	for _, a := range d.s.open {
		end := d.s.abort && a.stop != d.s.run.State.Stop && !a.node.closes && !a.rec.Undoing && !a.node.finally || a.endForSkip
		if a.heal != nil {
			h := d.s.healings().healing(a.code)
			end = h == nil || h.Ended != ""
		}
		if end && a.cancelledAt.IsZero() {
			a.cancelledAt = d.s.now
			a.cancel(ErrCancelled)
		}
	}
}
