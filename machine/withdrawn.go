package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/workflow"
)

// digest names a value: equal values have equal digests. nil has none.
func digest(value any) (string, error) {
	if value == nil {
		return "", nil
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), nil
}

// generation returns the generation of the object; 0: not known.
func (j *decider[T]) generation() int64 {
	if j.table.Generation == nil {
		return 0
	}
	return j.table.Generation(j.obj)
}

// purposeOf returns the digest of what a transition carries out now; "": nothing.
func (j *decider[T]) purposeOf(t *Transition[T]) (string, error) {
	source := j.table.Purpose
	if t != nil && t.Purpose != nil {
		source = t.Purpose
	}
	if source == nil {
		return "", nil
	}
	return guarded(source, j.obj)
}

func guarded[T any](source func(T) (any, error), obj T) (_ string, err error) {
	defer panicError(&err)
	value, err := source(obj)
	if err != nil {
		return "", err
	}
	return digest(value)
}

// won returns the transition that opened this visit; nil: it was the initial state, or
// the table no longer has it.
func (j *decider[T]) won() *Transition[T] {
	for _, on := range [][]Transition[T]{j.table.Any, j.table.States[j.p.Rest].On} {
		for i := range on {
			if on[i].Event == j.p.Event {
				return &on[i]
			}
		}
	}
	return nil
}

// stopped reports an object whose work has stopped.
func (j *decider[T]) stopped() bool {
	if j.p.Held {
		return true
	}
	if j.state.Transient() || !j.state.Rests || j.p.Rest == "" || j.p.Rest == j.p.State {
		return false
	}
	if j.p.State == Interrupted {
		return true
	}
	for _, place := range j.table.States {
		if place.Transient() && place.Else == j.p.State {
			return true
		}
	}
	return false
}

// changed leaves a state whose work has stopped if the spec has changed since the event
// won. Without a run the object is decided anew at once. A stopped run stays while its
// purpose is still desired; otherwise it ends by the rule of its state, and then the
// object is decided anew. It reports whether the object leaves.
func (j *decider[T]) changed() bool {
	now := j.generation()
	if now == 0 || now == j.p.Generation || j.d.Err != nil {
		return false
	}
	working := j.p.State
	if j.p.Held {
		working = j.p.Previous
	}
	run := j.f.Run
	if run.final() {
		return j.anew(nil, "the spec was changed: it is decided anew")
	}
	purpose, err := j.purposeOf(j.won())
	switch {
	case err != nil:
		j.d.Err = EventFailed.Errorf("what event %s carries out: %w", j.p.Event, err).With("event", j.p.Event).With("state", string(j.p.State))
		return false
	case j.p.Generation == 0 && j.p.Purpose == "" && purpose != "": // the position was written before purposes were stored
		to := j.p
		to.Generation, to.Purpose = now, purpose
		j.move(ByRepair, to)
		return true
	case purpose == j.p.Purpose, purpose == "":
		return false // the purpose is still desired
	case run.byPerson():
		j.note = "the spec was changed since: resume the run, or cancel it"
		return false
	case j.table.States[working].Withdrawn == Keep:
		j.note = fmt.Sprintf("the spec was changed since, and %s leaves its run to a person: resume it, or cancel it", working)
		return false
	}
	ending := &Ending{Run: run.ID, Mode: Undo}
	what := "what it has done is taken back"
	if j.table.States[working].Withdrawn == Drop {
		ending.Mode, what = Drop, "what it has done stays"
	}
	if first := j.begun(); first != working {
		what += fmt.Sprintf(", what was done from %s on before it stays", first)
	}
	return j.anew(ending, fmt.Sprintf("the spec was changed: the run of %s is ended, %s, then it is decided anew", working, what))
}

// begun returns the state in which the work of the event began.
func (j *decider[T]) begun() State {
	if t := j.won(); t != nil {
		return t.To
	}
	return j.table.Initial
}

// outdated notes a run under way whose purpose is no longer desired.
func (j *decider[T]) outdated() {
	now := j.generation()
	if now == 0 || now == j.p.Generation {
		return
	}
	if purpose, err := j.purposeOf(j.won()); err == nil && purpose != "" && purpose != j.p.Purpose {
		j.note = "it carries out the spec as it was before the last change, and the change comes after it; cancel the run if it is not to end"
	}
}

// anew moves an object to the stable state before.
func (j *decider[T]) anew(ending *Ending, message string) bool {
	to := j.p.Rest
	if to == "" {
		to = j.table.Initial
	}
	next := j.p.entered(to, false, j.f.Now)
	next.Reason, next.Message, next.Generation = "SpecChanged", message, j.generation()
	if ending != nil {
		next.Ending = ending
	} else if j.f.Ending.final() {
		next.Ending = nil
	}
	if j.table.States[to].Transient() { // the initial state
		input, err := params(j.table.Input, j.obj)
		if err == nil {
			next.Purpose, err = j.purposeOf(nil)
		}
		if err != nil {
			j.d.Err = EventFailed.Errorf("input of the initial state: %w", err)
			return false
		}
		next.Params = input
	} else {
		j.preview(next)
	}
	j.move(ByChange, next)
	return true
}

// preview tries the transitions of the state to which the object moves.
func (j *decider[T]) preview(next Position) {
	then := decider[T]{table: j.table, obj: j.obj, f: Facts{Position: next, Now: j.f.Now, Check: j.f.Check}, p: next, state: j.table.States[next.State]}
	then.try(then.state.On)
	j.d.Considered = append(j.d.Considered, then.d.Considered...)
}

// byPerson reports a run that a person has stopped and only a person resumes.
func (r *RunFacts) byPerson() bool {
	return r.Stopped || r.Fault == nil || r.Fault.Code == workflow.PausedByPerson.Code || r.Fault.Code == workflow.CancelledByPerson.Code
}

// possible checks whether the runs of a visit could start with this input: those of the
// next state and of the transient states behind it.
func (j *decider[T]) possible(t Transition[T], input json.RawMessage) error {
	if j.f.Check == nil {
		return nil
	}
	if input == nil {
		input = json.RawMessage("{}")
	}
	seen := map[State]bool{}
	for s := t.To; j.table.States[s].Flow != "" && !seen[s]; s = j.table.States[s].Then {
		seen[s] = true
		flow := j.table.States[s].Flow
		if s == t.To && t.Flow != "" {
			flow = t.Flow
		}
		if err := j.f.Check(flow, input); err != nil {
			return err
		}
	}
	return nil
}
