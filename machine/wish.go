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

// generation is that of the object; 0: it is not known.
func (j *judge[T]) generation() int64 {
	if j.table.Generation == nil {
		return 0
	}
	return j.table.Generation(j.obj)
}

// wishOf is what a transition carries out, as the object stands now. "" is no wish.
func (j *judge[T]) wishOf(t *Transition[T]) (string, error) {
	source := j.table.Wish
	if t != nil && t.Wish != nil {
		source = t.Wish
	}
	if source == nil {
		return "", nil
	}
	return guarded(source, j.obj)
}

func guarded[T any](source func(T) (any, error), obj T) (_ string, err error) {
	defer recovered(&err)
	value, err := source(obj)
	if err != nil {
		return "", err
	}
	return digest(value)
}

// won finds the transition whose event opened the present visit; nil: it was
// the initial state, or the table has it no more.
func (j *judge[T]) won() *Transition[T] {
	for _, on := range [][]Transition[T]{j.table.Any, j.table.States[j.p.Rest].On} {
		for i := range on {
			if on[i].Event == j.p.Event {
				return &on[i]
			}
		}
	}
	return nil
}

// stopped reports an object whose work has stopped, or that an event has put
// among those whose work has.
func (j *judge[T]) stopped() bool {
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

// changed leaves a state in which the work of an event has stopped, once the
// spec is another one than when the event won. Without a run the object is
// decided anew at once. A run that has stopped stays while it carries out what
// is wanted still; else it is ended by the rule of its state, and then the
// object is decided anew. It reports whether it leaves.
func (j *judge[T]) changed() bool {
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
	wish, err := j.wishOf(j.won())
	switch {
	case err != nil:
		j.d.Err = EventFailed.Errorf("what event %s carries out: %w", j.p.Event, err).With("event", j.p.Event).With("state", string(j.p.State))
		return false
	case j.p.Generation == 0 && j.p.Wish == "" && wish != "": // it was written before wishes were kept
		to := j.p
		to.Generation, to.Wish = now, wish
		j.move(ByRepair, to)
		return true
	case wish == j.p.Wish, wish == "":
		return false // the run carries out what is wanted still
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

// begun is the state in which the work of the event that won has begun.
func (j *judge[T]) begun() State {
	if t := j.won(); t != nil {
		return t.To
	}
	return j.table.Initial
}

// outdated notes that a run under way carries out what is not wanted any more.
func (j *judge[T]) outdated() {
	now := j.generation()
	if now == 0 || now == j.p.Generation {
		return
	}
	if wish, err := j.wishOf(j.won()); err == nil && wish != "" && wish != j.p.Wish {
		j.note = "it carries out the spec as it was before the last change, and the change comes after it; cancel the run if it is not to end"
	}
}

// anew sends an object to the stable state it set out from.
func (j *judge[T]) anew(ending *Ending, message string) bool {
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
	if j.table.States[to].Transient() { // objects begin there
		input, err := params(j.table.Input, j.obj)
		if err == nil {
			next.Wish, err = j.wishOf(nil)
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

// preview says how the transitions of the state stand to which the object goes.
func (j *judge[T]) preview(next Position) {
	then := judge[T]{table: j.table, obj: j.obj, f: Facts{Position: next, Now: j.f.Now, Check: j.f.Check}, p: next, state: j.table.States[next.State]}
	then.try(then.state.On)
	j.d.Considered = append(j.d.Considered, then.d.Considered...)
}

// byPerson reports a run that a person has stopped, and that only a person sends on.
func (r *RunFacts) byPerson() bool {
	return r.Stopped || r.Fault == nil || r.Fault.Code == workflow.PausedByPerson.Code || r.Fault.Code == workflow.CancelledByPerson.Code
}

// possible asks whether the runs of a visit could be begun with this input, as
// far as that can be known: those of the state it leads to, and of states that follow.
func (j *judge[T]) possible(t Transition[T], input json.RawMessage) error {
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
