package machine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Facts are the input of a decision besides the object.
type Facts struct {
	Position Position
	Run      *RunFacts // of Position.Run; nil: it has none, or the store no longer knows it
	Ending   *RunFacts // of Position.Ending, in the same way
	Now      time.Time
	// Check returns why a run of a flow with this input would be refused. nil: not known.
	Check func(flow string, input json.RawMessage) error
}

// RunFacts are what a machine reads of a run.
type RunFacts struct {
	ID       string
	Phase    runtype.Phase
	Revision int64
	Fault    *runtype.Fault
	Step     string
	Stopped  bool         // by a person, whatever its fault is
	Stop     runtype.Mode // of the cancel under way; "": none
}

func (r *RunFacts) final() bool { return r == nil || r.Phase.Final() }

// Act is what a pass does.
type Act string

// The acts.
const (
	Rest  Act = "rest"  // nothing: the object is where it should be, or must wait
	Moves Act = "move"  // write Decision.Move
	Start Act = "start" // start the run of this visit
	End   Act = "end"   // end the run of an earlier visit
	Work  Act = "work"  // call Do
)

// Decision is what an object needs next, and why.
type Decision struct {
	Act        Act
	Move       Move            // of Moves
	Considered []Considered    // the transitions, in the order in which they were tried
	Err        error           // EVENT_FAILED: a transition could not be evaluated; it blocks those behind it
	Rejected   error           // of the first transition whose predicate holds and whose work would be refused; those behind it are tried
	Loops      []Loop          // transitions that are delayed because they run in a loop
	Outcome    outcome.Outcome // of Rest
}

// Verdict is the result of trying a transition.
type Verdict string

// The verdicts.
const (
	Chosen     Verdict = "chosen"
	Refused    Verdict = "refused"     // its predicate does not hold
	Ignored    Verdict = "ignored"     // it holds, and the table says not to act on it
	Impossible Verdict = "impossible"  // it holds, and the run that would do its work would be refused
	Delayed    Verdict = "delayed"     // it still holds after its work was done: it waits
	Failed     Verdict = "failed"      // its predicate or parameters could not be evaluated
	NotReached Verdict = "not reached" // one before it won or failed
)

// Considered is a transition and its verdict.
type Considered struct {
	Event   string  `json:"event"`
	To      State   `json:"to"`
	Why     string  `json:"why,omitempty"`
	When    string  `json:"when,omitempty"`
	Verdict Verdict `json:"verdict"`
	Message string  `json:"message,omitempty"`
}

// Decide returns the next act of an object. It is pure; the table must be valid
// (Check).
func Decide[T any](table Table[T], obj T, f Facts) Decision {
	j := decider[T]{table: table, obj: obj, f: f, p: f.Position, d: Decision{Act: Rest}}
	if j.p.State == "" {
		j.p.State = table.Initial
	}
	place, known := table.States[j.p.State]
	j.state = place
	switch {
	case !known:
		return j.fail(StateUnknown.Errorf("state %s: machine %s has no such state", j.p.State, table.Name).With("state", string(j.p.State)))
	case place.Transient() && j.p.Visit == 0:
		return j.enter()
	case place.Flow != "" && f.Run == nil && f.Ending.final():
		// A pass that died before it recorded the run may have started it. A second
		// start returns the same run, so none is left behind.
		j.d.Act = Start
		return j.d
	case !place.Final() && j.try(table.Any):
		return j.d
	case j.p.Held && f.Run != nil && f.Run.Phase != runtype.Paused:
		return j.move(ByRecover, j.p.recovered(f.Now))
	case !place.Transient() && j.d.Err == nil && j.f.Ending.final() && j.try(place.On):
		return j.d
	case j.p.Ending != nil:
		return j.end()
	case place.Do != nil:
		j.d.Act = Work
		return j.d
	case place.Flow != "":
		return j.follow()
	case j.stopped() && j.changed():
		return j.d
	case j.p.Held:
		return j.hold()
	default:
		return j.rest()
	}
}

// decider makes one decision.
type decider[T any] struct {
	table Table[T]
	obj   T
	f     Facts
	p     Position
	state StateSpec[T]
	note  string // of a run that stays although the spec was changed
	d     Decision
}

func (j *decider[T]) fail(err error) Decision {
	j.d.Act, j.d.Err, j.d.Outcome = Rest, err, outcome.Fail(err)
	return j.d
}

func (j *decider[T]) wait(reason, format string, args ...any) Decision {
	j.d.Act, j.d.Outcome = Rest, reported(outcome.Wait(0, reason, format, args...), j.d.Err)
	return j.d
}

// reported adds to a wait which event could not be evaluated. It stays a wait: the
// work of the state goes on.
func reported(out outcome.Outcome, err error) outcome.Outcome {
	if err == nil || !out.IsWait() && !out.IsLater() {
		return out
	}
	return outcome.Wait(out.After(), fault.Of(err).Reason(), "%s; meanwhile: %s", fault.Message(err), out.Message())
}

func (j *decider[T]) move(cause Cause, to Position) Decision {
	j.d.Act, j.d.Move = Moves, Move{From: j.f.Position, To: to, Cause: cause}
	return j.d
}

// enter returns the first position of an object whose initial state is transient.
func (j *decider[T]) enter() Decision {
	params, err := params(j.table.Input, j.obj)
	if err != nil {
		return j.fail(EventFailed.Errorf("input of the initial state: %w", err))
	}
	purpose, err := j.purposeOf(nil)
	if err != nil {
		return j.fail(EventFailed.Errorf("the purpose of the initial state: %w", err))
	}
	return j.move(ByInitial, Position{State: j.p.State, Visit: 1, Since: j.f.Now, Params: params, Reason: "Initial", Generation: j.generation(), Purpose: purpose})
}

// try tries transitions in order and reports whether one won. A transition that cannot
// be evaluated ends the search: it might have won.
func (j *decider[T]) try(on []Transition[T]) bool {
	ended := false
	for _, t := range on {
		if t.To == j.p.State {
			continue
		}
		c := Considered{Event: t.Event, To: t.To, Why: t.Why, When: t.Text, Verdict: NotReached}
		if !ended {
			ended = j.consider(t, &c)
		}
		j.d.Considered = append(j.d.Considered, c)
	}
	return j.d.Act == Moves
}

// consider tries one transition and reports whether the search has ended.
func (j *decider[T]) consider(t Transition[T], c *Considered) (ended bool) {
	holds, err := when(t.When, j.obj)
	ignored := slices.Contains(j.table.Ignore, t.Event)
	var input json.RawMessage
	if err == nil && holds && !ignored {
		source := t.Params
		if source == nil && j.table.States[t.To].Flow != "" {
			source = j.table.Input
		}
		input, err = params(source, j.obj)
	}
	var purpose string
	var repeats []Repeat
	var next Repeat
	var wait time.Duration
	if err == nil && holds && !ignored {
		if purpose, err = j.purposeOf(&t); err == nil {
			repeats, next, wait, err = j.repeat(t, input)
		}
	}
	switch {
	case err != nil:
		c.Verdict, c.Message = Failed, err.Error()
		if !ignored {
			j.d.Err = EventFailed.Errorf("event %s of state %s: %w", t.Event, j.p.State, err).
				With("event", t.Event).With("state", string(j.p.State))
		}
		return !ignored
	case !holds:
		c.Verdict = Refused
		return false
	case ignored:
		c.Verdict = Ignored
		return false
	case wait > 0:
		loop := Loop{Event: t.Event, State: j.p.State, Repeats: next.Count - 1, Wait: wait}
		c.Verdict, c.Message = Delayed, fmt.Sprintf("%s: the next begins in %s", loop.Why(), wait.Round(time.Second))
		j.d.Loops = append(j.d.Loops, loop)
		return false
	default:
		if err := j.possible(t, input); err != nil {
			c.Verdict, c.Message = Impossible, fault.Message(err)
			if j.d.Rejected == nil {
				j.d.Rejected = err
			}
			return false
		}
		c.Verdict = Chosen
		to := j.p.entered(t.To, !j.state.Transient(), j.f.Now)
		to.Event, to.Params, to.Flow, to.Reason, to.Message = t.Event, input, t.Flow, camel(t.Event), t.Why
		to.Generation, to.Purpose, to.Repeats = j.generation(), purpose, repeats
		if !j.f.Run.final() {
			to.Ending = &Ending{Run: j.f.Run.ID, Mode: t.Cancel}
		} else if j.f.Ending.final() {
			to.Ending = nil
		}
		if to.Ending != nil && (to.Ending.Mode == "" || t.Cancel != Undo && j.f.Run.final()) { // the later event decides how an earlier run ends
			to.Ending = &Ending{Run: to.Ending.Run, Mode: Drop}
		}
		j.move(ByEvent, to)
		return true
	}
}

// end ends the run of an earlier visit, or forgets it when it has ended.
func (j *decider[T]) end() Decision {
	drops := j.p.Ending.Mode == Drop && j.f.Ending != nil && j.f.Ending.Stop == runtype.Undo
	switch run := j.f.Ending; {
	case run.final():
		to := j.p
		to.Ending = nil
		return j.move(ByRepair, to)
	case run.Phase == runtype.Cancelling && !drops:
		return j.wait("EndingRun", "run %s of an earlier visit is being ended", run.ID)
	case run.Phase == runtype.Paused && run.Fault != nil && run.Fault.Code == workflow.UndoFailed.Code && !drops:
		return j.wait(workflow.UndoFailed.Reason(), "run %s of an earlier visit: %s", run.ID, run.Fault.Message)
	default:
		j.d.Act = End
		return j.d
	}
}

// follow moves the object by the outcome of the run.
func (j *decider[T]) follow() Decision {
	switch run := j.f.Run; run.Phase {
	case runtype.Succeeded:
		return j.then()
	case runtype.Cancelled:
		to := j.state.Abort
		if to == "" {
			to = j.p.Rest
		}
		next := j.p.finished(to, j.table.States[to].Transient(), j.f.Now)
		next.Reason, next.Message = "Cancelled", fmt.Sprintf("the run of %s was cancelled", j.p.State)
		return j.move(ByAbort, next)
	case runtype.Paused:
		code, message := run.why()
		if j.state.elseState(j.table) == j.p.State {
			if j.changed() {
				return j.d
			}
			return j.wait(fault.Camel(code), "%s", j.noted(message))
		}
		return j.moveToElse(code, message)
	case runtype.Queued:
		return j.wait("Queued", "run %s waits for another run of the object, or for its limits", run.ID)
	default:
		j.outdated()
		return j.wait(string(j.p.State), "%s", j.noted(run.where()))
	}
}

// then leaves a state whose work is done.
func (j *decider[T]) then() Decision {
	to := j.state.Then
	next := j.p.finished(to, j.table.States[to].Transient(), j.f.Now)
	next.Reason, next.Message = "Succeeded", fmt.Sprintf("%s is done", j.p.State)
	return j.move(ByThen, next)
}

// moveToElse leaves a state whose work has stopped at a fault.
func (j *decider[T]) moveToElse(code fault.Code, message string) Decision {
	to := j.state.elseState(j.table)
	var next Position
	if j.table.States[to].Transient() {
		next = j.p.finished(to, true, j.f.Now)
	} else {
		next = j.p.held(to, j.f.Now)
	}
	next.Code, next.Reason, next.Message = code, fault.Camel(code), message
	return j.move(ByElse, next)
}

// hold stays in the Else state and updates the recorded fault.
func (j *decider[T]) hold() Decision {
	if j.d.Err != nil {
		return j.fail(j.d.Err)
	}
	if j.f.Run != nil {
		if code, message := j.f.Run.why(); code != j.p.Code || message != j.p.Message {
			to := j.p
			to.Code, to.Reason, to.Message = code, fault.Camel(code), message
			return j.move(ByRepair, to)
		}
	}
	return j.wait(j.p.Reason, "%s", j.noted(j.p.Message))
}

// noted adds why a run continues although the spec was changed.
func (j *decider[T]) noted(message string) string {
	if j.note == "" {
		return message
	}
	return message + "; " + j.note
}

// rest reports a stable state that no transition leaves now.
func (j *decider[T]) rest() Decision {
	if j.d.Err != nil {
		return j.fail(j.d.Err)
	}
	if to := j.settle(); to != nil {
		return j.move(ByRepair, *to)
	}
	if j.d.Rejected != nil {
		j.d.Outcome = outcome.Later(0, fault.Of(j.d.Rejected).Reason(), "%s", fault.Message(j.d.Rejected))
		return j.d
	}
	if len(j.d.Loops) > 0 {
		return j.delayed()
	}
	var names []string
	for _, c := range j.d.Considered {
		if c.Verdict == Ignored {
			names = append(names, c.Event)
		}
	}
	if names != nil {
		j.d.Outcome = outcome.Later(0, "Ignored", "the machine ignores: %s", strings.Join(names, ", "))
	}
	return j.d
}

func (r *RunFacts) why() (fault.Code, string) {
	if r.Fault == nil {
		return workflow.PausedByPerson.Code, "the run is paused"
	}
	message := r.Fault.Message
	if r.Fault.Step != "" {
		message = "step " + r.Fault.Step + ": " + message
	}
	return r.Fault.Code, message
}

func (r *RunFacts) where() string {
	if r.Step == "" {
		return fmt.Sprintf("run %s is %s", r.ID, strings.ToLower(string(r.Phase)))
	}
	return fmt.Sprintf("run %s is %s at step %s", r.ID, strings.ToLower(string(r.Phase)), r.Step)
}
