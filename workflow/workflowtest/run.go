package workflowtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing/synctest"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Run is a run of a test. The methods whose names begin with Want report with Errorf what is not as
// it is wanted, and the test goes on.
type Run struct {
	env *Env
	id  string
}

// ID is the id of the run.
func (r *Run) ID() string { return r.id }

// Load returns the run as it is stored.
func (r *Run) Load() *runtype.Run {
	r.env.t.Helper()
	loaded, _, err := r.env.memory.Load(context.Background(), r.id)
	if err != nil {
		r.env.t.Fatalf("run %s: %v", r.id, err)
	}
	return loaded
}

// History returns the events of the run.
func (r *Run) History() []runtype.Event {
	r.env.t.Helper()
	events, err := r.env.memory.History(context.Background(), r.id, 0, 0)
	if err != nil {
		r.env.t.Fatalf("history of run %s: %v", r.id, err)
	}
	return events
}

// Settle returns when the run is at rest: it has ended, is paused or queued, or waits for a signal,
// for a condition or for a call without a time. Run and the requests call it.
func (r *Run) Settle() {
	r.env.t.Helper()
	for {
		synctest.Wait()
		if r.env.restarting() {
			<-r.env.restarted
			continue
		}
		run := r.Load()
		if r.env.rests(run) {
			return
		}
		if r.env.replaced.exhausted() {
			r.env.t.Fatalf("%s was called %d times and nothing was saved: its wait does not end", current(run), r.env.options.Polls)
		}
		<-r.env.changed
	}
}

// rests reports whether a run does nothing until somebody acts.
func (e *Env) rests(r *runtype.Run) bool {
	switch r.Phase {
	case runtype.Succeeded, runtype.Cancelled, runtype.Queued:
		return true
	case runtype.Paused:
		return r.Fault == nil || !slices.ContainsFunc(r.State.Healing, func(h runtype.Healing) bool {
			return h.Code == r.Fault.Code && h.Ended == "" && (h.Open || !h.NextAt.IsZero())
		})
	case runtype.Waiting:
		for s := range r.Steps() {
			if s.Phase == runtype.StepRunning || s.Phase == runtype.StepRetrying || s.Phase == runtype.StepWaiting && !e.waitsForOthers(s) {
				return false
			}
		}
		return true
	}
	return false
}

// external are the reasons of waits that the mere passing of time does not end well.
var external = []string{"Signal", "Condition", "AwaitingSignal", "SignalRefused", "AwaitingApproval"}

func (e *Env) waitsForOthers(s *runtype.StepRecord) bool {
	w := s.Wait
	switch {
	case w == nil:
		return false
	case w.Child != "":
		child, _, err := e.memory.Load(context.Background(), w.Child)
		return err == nil && !child.Phase.Final() && e.rests(child)
	}
	return w.Signal != "" || slices.Contains(external, w.Reason) || s.NextAt.IsZero() && w.Until.IsZero() && w.Every == 0
}

func current(r *runtype.Run) string {
	if s := r.Current(); s != nil {
		return s.Name
	}
	return "the run"
}

func (r *Run) request(what string, do func(*workflow.Engine, workflow.Actor) error) {
	r.env.t.Helper()
	err := r.env.ask(func(engine *workflow.Engine, id string) error {
		return do(engine, workflow.Actor{Name: "test", RequestID: id})
	})
	if err != nil {
		r.env.t.Fatalf("%s: %v", what, err)
	}
	r.Settle()
}

// Signal sends a signal; a nil payload is none.
func (r *Run) Signal(name string, payload any) {
	r.env.t.Helper()
	data := r.env.encode(payload)
	r.request("signal "+name, func(e *workflow.Engine, by workflow.Actor) error {
		return e.Send(context.Background(), r.id, runtype.Signal{ID: by.RequestID, Name: name, Payload: data, Actor: by.Name})
	})
}

// Pause pauses the run.
func (r *Run) Pause() {
	r.env.t.Helper()
	r.request("pause", func(e *workflow.Engine, by workflow.Actor) error { return e.Pause(context.Background(), r.id, by) })
}

// Resume resumes the run from workflow.FromFailed, FromFirst or the name of a step.
func (r *Run) Resume(from workflow.From) {
	r.env.t.Helper()
	r.request("resume", func(e *workflow.Engine, by workflow.Actor) error {
		return e.Resume(context.Background(), r.id, from, "", by)
	})
}

// Cancel cancels the run with mode Hold, Undo or Drop.
func (r *Run) Cancel(mode runtype.Mode) {
	r.env.t.Helper()
	r.request("cancel", func(e *workflow.Engine, by workflow.Actor) error {
		return e.Cancel(context.Background(), r.id, mode, false, by)
	})
}

// Skip skips a failed or waiting step with force; a nil output is none.
func (r *Run) Skip(step string, output any) {
	r.env.t.Helper()
	r.request("skip "+step, func(e *workflow.Engine, by workflow.Actor) error {
		return e.Skip(context.Background(), r.id, step, output, true, by)
	})
}

// With decodes the parameters with which the action of a step was called last. It reports false if
// it was not called.
func (r *Run) With(step string, to any) bool {
	r.env.t.Helper()
	r.env.replaced.mu.Lock()
	data, ok := r.env.replaced.with[r.id+"/"+step]
	r.env.replaced.mu.Unlock()
	if ok {
		r.decode("the parameters of "+step, data, to)
	}
	return ok
}

// Output decodes the output of a step.
func (r *Run) Output(step string, to any) {
	r.env.t.Helper()
	r.decode("the output of "+step, r.output(step), to)
}

// Outputs returns the outputs by step. Steps without output are not in it.
func (r *Run) Outputs() map[string]json.RawMessage {
	r.env.t.Helper()
	outputs := map[string]json.RawMessage{}
	for s := range r.Load().Steps() {
		if s.Output != nil {
			outputs[s.Name] = s.Output
		}
	}
	return outputs
}

func (r *Run) output(step string) json.RawMessage {
	if s := r.Load().Step(step); s != nil {
		return s.Output
	}
	return nil
}

func (r *Run) decode(what string, data json.RawMessage, to any) {
	r.env.t.Helper()
	if data == nil {
		r.env.t.Fatalf("%s: there is none", what)
	}
	if err := json.Unmarshal(data, to); err != nil {
		r.env.t.Fatalf("%s: %v", what, err)
	}
}

// steps returns the steps of the events of a kind, in their order.
func (r *Run) steps(kind runtype.EventKind) []string {
	r.env.t.Helper()
	names := []string{}
	for _, e := range r.History() {
		if e.Kind == kind {
			names = append(names, e.Step)
		}
	}
	return names
}

// Done returns the steps that were done, in their order.
func (r *Run) Done() []string { r.env.t.Helper(); return r.steps(runtype.StepDoneEvent) }

// Undone returns the steps that were undone, in their order.
func (r *Run) Undone() []string { r.env.t.Helper(); return r.steps(runtype.StepUndoneEvent) }

// Skipped returns the steps that were skipped, in their order.
func (r *Run) Skipped() []string { r.env.t.Helper(); return r.steps(runtype.StepSkippedEvent) }

// Tries returns the number of tries of a step; see [Func].
func (r *Run) Tries(step string) int {
	r.env.replaced.mu.Lock()
	defer r.env.replaced.mu.Unlock()
	return len(r.env.replaced.tries[r.id+"/"+step])
}

// WantPhase checks the phase of the run.
func (r *Run) WantPhase(phase runtype.Phase) {
	r.env.t.Helper()
	if run := r.Load(); run.Phase != phase {
		r.env.t.Errorf("the run is %s, want %s", Describe(run), phase)
	}
}

// WantFault checks that the run is paused by a fault with this code, in this step.
func (r *Run) WantFault(code fault.Code, step string) {
	r.env.t.Helper()
	run := r.Load()
	if run.Phase != runtype.Paused || run.Fault == nil || run.Fault.Code != code || run.Fault.Step != step {
		r.env.t.Errorf("the run is %s, want %s by %s in %s", Describe(run), runtype.Paused, code, step)
	}
}

// WantWaiting checks that the run waits at a step.
func (r *Run) WantWaiting(step string) {
	r.env.t.Helper()
	run := r.Load()
	if s := run.Step(step); run.Phase != runtype.Waiting || s == nil || s.Phase != runtype.StepWaiting {
		r.env.t.Errorf("the run is %s, want %s at %s", Describe(run), runtype.Waiting, step)
	}
}

// WantOutput checks the output of a step; nil: it has none.
func (r *Run) WantOutput(step string, want any) {
	r.env.t.Helper()
	r.wantJSON("the output of "+step, r.output(step), want)
}

// WantResult checks the result of the run; nil: it has none.
func (r *Run) WantResult(want any) {
	r.env.t.Helper()
	r.wantJSON("the result", r.Load().Result(), want)
}

func (r *Run) wantJSON(what string, got json.RawMessage, want any) {
	r.env.t.Helper()
	if wanted := r.env.encode(want); !SameJSON(got, wanted) {
		r.env.t.Errorf("%s is %s, want %s", what, textOf(got), textOf(wanted))
	}
}

// WantOrder checks that exactly these steps were done, in this order. Steps that were done again
// after a resume are named again.
func (r *Run) WantOrder(steps ...string) {
	r.env.t.Helper()
	r.wantSteps("done", r.Done(), steps)
}

// WantUndone checks that exactly these steps were undone, in this order.
func (r *Run) WantUndone(steps ...string) { r.env.t.Helper(); r.wantSteps("undone", r.Undone(), steps) }

// WantSkipped checks that exactly these steps were skipped, in this order.
func (r *Run) WantSkipped(steps ...string) {
	r.env.t.Helper()
	r.wantSteps("skipped", r.Skipped(), steps)
}

func (r *Run) wantSteps(what string, got, want []string) {
	r.env.t.Helper()
	if !slices.Equal(got, want) {
		r.env.t.Errorf("the steps that were %s are %s, want %s", what, orNone(strings.Join(got, ", ")), orNone(strings.Join(want, ", ")))
	}
}

// SameJSON reports whether two JSON values are equal. Nothing and null are equal.
func SameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := decoded(a)
	y, errY := decoded(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

func decoded(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	return runtype.Decode(raw)
}

func textOf(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "none"
	}
	return string(raw)
}

// Describe says in which phase a run is, and why.
func Describe(r *runtype.Run) string {
	switch s := r.Current(); {
	case r.Phase == runtype.Paused && r.Fault != nil:
		return fmt.Sprintf("%s by %s in %s (%s)", r.Phase, r.Fault.Code, r.Fault.Step, r.Fault.Message)
	case r.Phase == runtype.Waiting && s != nil:
		return fmt.Sprintf("%s at %s", r.Phase, s.Name)
	}
	return string(r.Phase)
}
