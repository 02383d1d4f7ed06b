package driver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Finalizer holds a deleted object until its machine has come to a final state.
const Finalizer = "pawl.dev/machine"

// Condition is one statement about an object, in the form of Kubernetes.
type Condition struct {
	Type               string    `json:"type"`   // Ready, Progressing; Looping while an event runs in a loop
	Status             string    `json:"status"` // True, False, Unknown
	Reason             string    `json:"reason"`
	Message            string    `json:"message,omitempty"`
	ObservedGeneration int64     `json:"observedGeneration"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// Run is what the status tells of the run of a visit.
type Run struct {
	ID    string        `json:"id"`
	Phase runtype.Phase `json:"phase,omitempty"`
	Step  string        `json:"step,omitempty"`
}

// record is the status key machine.
type record struct {
	machine.Position
	Old json.RawMessage `json:"old,omitempty"`
}

// view is what a status is made from.
type view struct {
	table    machine.Table[*machine.Subject]
	position machine.Position
	run      *machine.RunFacts // of the position's run, as far as it is known
	ending   *machine.RunFacts
	out      outcome.Outcome // of the pass; Done after a position was written
	gaveUp   error           // RETRIES_EXHAUSTED
	rejected error           // why an event that holds cannot be carried out
	loops    []machine.Loop  // events that hold again and again
	moved    bool            // it has come here just now: what is left to do is decided next
	damaged  bool            // the position cannot be read: it is left as it is
	deleting bool
	gen      int64
	now      time.Time
}

// stalled is the fault that keeps the object from going on, nil if there is none.
func (v view) stalled() *control.FaultRecord {
	record := control.FaultRecord{ObservedGeneration: v.gen, At: v.now}
	of := func(kind *fault.Kind, message string) *control.FaultRecord {
		record.Code, record.Class, record.Title, record.Remedy, record.Message = kind.Code, kind.Class, kind.Title, kind.Remedy, message
		return &record
	}
	named := func(code fault.Code, message string) *control.FaultRecord {
		kind, ok := fault.Lookup(string(code))
		if !ok {
			kind = &fault.Kind{Code: code, Title: "a fault that this process does not declare", Remedy: fault.Unknown.Remedy}
		}
		return of(kind, message)
	}
	switch {
	case v.gaveUp != nil:
		if cause, ok := fault.Details(v.gaveUp)["cause"].(string); ok {
			record.Cause = fault.Code(cause)
		}
		return of(fault.Of(v.gaveUp), fault.Message(v.gaveUp))
	case v.position.Held:
		return named(v.position.Code, v.position.Message)
	case v.run != nil && v.run.Phase == runtype.Paused && v.run.Fault != nil:
		return named(v.run.Fault.Code, v.run.Fault.Message)
	case v.ending != nil && v.ending.Phase == runtype.Paused && v.ending.Fault != nil && v.ending.Fault.Code == workflow.UndoFailed.Code:
		return named(v.ending.Fault.Code, v.ending.Fault.Message)
	case v.rejected != nil:
		return of(fault.Of(v.rejected), fault.Message(v.rejected))
	case len(v.loops) > 0:
		return of(machine.EventLoops, loopsOf(v.loops))
	case v.out.IsFail() && !fault.Of(v.out.Err()).Uncharged:
		return of(fault.Of(v.out.Err()), v.out.Message())
	}
	return nil
}

// conditions are Ready and Progressing.
func (v view) conditions(stalled *control.FaultRecord) []Condition {
	place, known := v.table.States[v.position.State]
	ready := Condition{Type: "Ready", Status: "True", Reason: "Rests", Message: fmt.Sprintf("it rests in state %s", v.position.State)}
	progressing := Condition{Type: "Progressing", Status: "False", Reason: "Rests", Message: ready.Message}
	switch {
	case stalled != nil:
		ready.Status, ready.Reason, ready.Message = "False", fault.Camel(stalled.Code), stalled.Message
		if known && place.Transient() {
			ready.Status = "Unknown" // the work has stopped half-way
		}
		progressing.Reason, progressing.Message = ready.Reason, ready.Message
	case known && place.Transient():
		ready.Status, ready.Reason, ready.Message = "Unknown", string(v.position.State), fmt.Sprintf("the work of state %s is under way", v.position.State)
		progressing.Status, progressing.Reason, progressing.Message = "True", ready.Reason, ready.Message
		if v.out.IsWait() || v.out.IsLater() {
			progressing.Reason, progressing.Message = v.out.Reason(), v.out.Message()
		}
	case place.Final():
		ready.Status, ready.Reason, ready.Message = "False", string(v.position.State), fmt.Sprintf("state %s is final", v.position.State)
		progressing.Reason, progressing.Message = ready.Reason, ready.Message
	case v.position.Ending != nil:
		progressing.Status, progressing.Reason, progressing.Message = "True", "EndingRun", fmt.Sprintf("run %s of an earlier visit is being ended", v.position.Ending.Run)
	case v.moved:
		progressing.Status, progressing.Reason, progressing.Message = "True", "Deciding", fmt.Sprintf("it has come to state %s; what is left to do is decided next", v.position.State)
	case v.deleting && v.out.IsDone():
		progressing.Reason, progressing.Message = "DeletionIgnored", fmt.Sprintf("deletion was asked for, but no event of machine %s holds in state %s", v.table.Name, v.position.State)
	case v.out.IsFail():
		ready.Status, ready.Reason, ready.Message = "Unknown", v.out.Reason(), v.out.Message()
		progressing.Status, progressing.Reason, progressing.Message = "Unknown", ready.Reason, ready.Message
	case v.out.IsWait(), v.out.IsLater():
		progressing.Reason, progressing.Message = v.out.Reason(), v.out.Message()
	}
	all := []Condition{ready, progressing}
	if len(v.loops) > 0 {
		all = append(all, Condition{Type: "Looping", Status: "True", Reason: machine.LoopReason, Message: loopsOf(v.loops)})
	}
	return all
}

// loopsOf names the events that run in a loop. How long the next turn waits is
// left out: it is another time at each pass.
func loopsOf(loops []machine.Loop) string {
	lines := make([]string, len(loops))
	for i, l := range loops {
		lines[i] = l.Why()
	}
	return strings.Join(lines, "; ")
}

// looping reports a position with an event that has run in a loop, and was not seen to end.
func looping(p machine.Position) bool {
	return slices.ContainsFunc(p.Repeats, func(t machine.Repeat) bool { return t.Count >= machine.FreeRepeats })
}

// compose makes the status of an object: what the driver keeps is replaced,
// all else stays.
func compose(status json.RawMessage, rec record, v view) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if status != nil {
		if err := json.Unmarshal(status, &all); err != nil {
			return nil, control.Invalid.Errorf("status: %w", err)
		}
	}
	var former []Condition
	_ = json.Unmarshal(all["conditions"], &former) // what cannot be read is replaced
	set := func(key string, value any) error {
		raw, err := json.Marshal(value)
		all[key] = raw
		return err
	}
	stalled := v.stalled()
	if stalled != nil {
		var before control.FaultRecord
		if json.Unmarshal(all[control.StatusFault], &before) == nil {
			if at := before.At; before.Code == stalled.Code && before.Message == stalled.Message {
				stalled.At = at
			}
		}
		if err := set(control.StatusFault, stalled); err != nil {
			return nil, err
		}
	} else {
		delete(all, control.StatusFault)
	}
	if err := set("conditions", transitions(former, v.conditions(stalled), v)); err != nil || v.damaged {
		raw, _ := json.Marshal(all)
		return raw, err
	}
	delete(all, "run")
	if rec.Run != "" {
		run := Run{ID: rec.Run}
		if v.run != nil {
			run.Phase, run.Step = v.run.Phase, v.run.Step
		}
		if err := set("run", run); err != nil {
			return nil, err
		}
	}
	for key, value := range map[string]any{"state": rec.State, "machine": rec} {
		if err := set(key, value); err != nil {
			return nil, err
		}
	}
	return json.Marshal(all)
}

// transitions keeps the time of conditions whose status did not change, and
// conditions of other types.
func transitions(former, fresh []Condition, v view) []Condition {
	for i := range fresh {
		fresh[i].ObservedGeneration, fresh[i].LastTransitionTime = v.gen, v.now
		j := slices.IndexFunc(former, func(c Condition) bool { return c.Type == fresh[i].Type })
		if j >= 0 && former[j].Status == fresh[i].Status {
			fresh[i].LastTransitionTime = former[j].LastTransitionTime
		}
	}
	for _, c := range former {
		if c.Type == "Looping" && !looping(v.position) {
			continue // it is over
		}
		if !slices.ContainsFunc(fresh, func(f Condition) bool { return f.Type == c.Type }) {
			fresh = append(fresh, c)
		}
	}
	return fresh
}
