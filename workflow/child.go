package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// children executes the steps of a run that are flows.
type children struct{ *driver }

func (d *driver) children() children { return children{d} }

// runChild starts the child run of a step, once, and waits for its end.
func (d children) runChild(n *node) Func {
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
			Flow: n.step.Flow, Subject: subject, Input: t.facts.With, Labels: d.s.run.Labels, Priority: d.s.run.Priority, Actor: Actor{Name: d.s.run.Actor, Reason: "step " + t.Step() + " of " + d.s.run.ID},
			RequestID: fmt.Sprintf("%s/%s/%d", d.s.run.ID, t.Step(), t.facts.Round),
		}, inline)
	}
}

// endFormerChild ends the child run of an earlier round before a new one starts, so that two of
// them never run at the same time. The request to cancel it may have been sent before the child was
// created.
func (d children) endFormerChild(ctx context.Context, t *Task, id string) outcome.Outcome {
	child, _, err := d.e.store.Load(ctx, id)
	switch {
	case errors.Is(err, runstore.ErrNotFound) || err == nil && child.Phase.Final():
		return outcome.Done()
	case err != nil:
		return outcome.Fail(err)
	case child.State.Stop == nil || child.State.Stop.Mode != runtype.Drop:
		payload, _ := json.Marshal(RunRequest{Actor: Actor{Name: "parent " + t.RunID(), Reason: "it returns to an earlier step and starts another child run"}, Mode: runtype.Drop})
		err = d.e.store.Send(ctx, id, runtype.Signal{ID: t.Key() + "/former/" + id, Name: reserved + string(runtype.VerbCancel), Payload: payload, At: time.Now().UTC()})
		if err != nil && !errors.Is(err, runstore.ErrFinal) {
			return outcome.Fail(err)
		}
	case child.Phase == runtype.Paused && child.Fault != nil:
		return outcome.Fail(ChildPaused.Errorf("the former child run %s cannot end: %s: %s", id, child.Fault.Code, child.Fault.Message).With("child", id))
	}
	return outcome.Wait(0, "Child", "former child run %s ends", id)
}

func (d children) child(ctx context.Context, t *Task, req Request, inline bool) outcome.Outcome {
	id := RunID(req.Subject, req.Flow, req.RequestID)
	child, _, err := d.e.store.Load(ctx, id)
	if errors.Is(err, runstore.ErrNotFound) {
		child, err = d.e.startChild(ctx, req, d.s.run, t.Step(), inline)
	}
	if err != nil {
		return outcome.Fail(err)
	}
	switch child.Phase {
	case runtype.Succeeded:
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
	case runtype.Cancelled:
		return outcome.Fail(CancelledByPerson.Errorf("the child run %s was cancelled", id).With("child", id))
	case runtype.Paused:
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

func lastOutput(r *runtype.Run) json.RawMessage {
	var last json.RawMessage
	for rec := range r.Steps() {
		if rec.Output != nil {
			last = rec.Output
		}
	}
	return last
}

// endChild is the undo of a step whose child run has not ended: it cancels the child with the mode
// of its parent. A child that has ended stays as it is.
func (d children) endChild(ctx context.Context, t *Task) outcome.Outcome {
	d.mu.RLock()
	id := d.s.childID(d.s.run.Step(t.Step()))
	mode := runtype.Undo
	if stop := d.s.run.State.Stop; stop != nil && stop.Mode == runtype.Drop {
		mode = runtype.Drop
	}
	d.mu.RUnlock()
	child, _, err := d.e.store.Load(ctx, id)
	switch {
	case errors.Is(err, runstore.ErrNotFound):
		return outcome.Done()
	case err != nil:
		return outcome.Fail(err)
	case child.Phase.Final():
		return outcome.Done()
	case child.State.Stop == nil || child.State.Stop.Mode != mode:
		payload, _ := json.Marshal(RunRequest{Actor: Actor{Name: "parent " + t.RunID()}, Mode: mode})
		err = d.e.store.Send(ctx, id, runtype.Signal{ID: t.Key() + "/" + string(mode), Name: reserved + string(runtype.VerbCancel), Payload: payload, At: time.Now().UTC()})
		if err != nil && !errors.Is(err, runstore.ErrFinal) {
			return outcome.Fail(err)
		}
	case child.Phase == runtype.Paused && child.Fault != nil:
		return outcome.Fail(ChildPaused.Errorf("the child run %s cannot end: %s: %s", id, child.Fault.Code, child.Fault.Message).With("child", id))
	}
	return outcome.Wait(0, "Child", "child run %s ends", id)
}

// healByFlow runs a healer that is a flow, as a child of the paused run.
func (d children) healByFlow(o opening) Func {
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
