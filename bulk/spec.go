package bulk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Kind is the kind of the objects.
const Kind = "Bulk"

// VerbSignal is the verb that sends a signal. The others are requests: those of runtype.
const VerbSignal runtype.Verb = "signal"

// Verbs are the verbs of bulks.
var Verbs = []runtype.Verb{runtype.VerbResume, runtype.VerbPause, runtype.VerbCancel, runtype.VerbSkip, VerbSignal}

// MaxIDs is how many runs a selection names at most.
const MaxIDs = 1000

// maxText is the length of a text to look for.
const maxText = 200

// Selection selects the runs that match all of its fields. At least one of them is needed, and CreatedBefore is not enough.
type Selection struct {
	IDs      []string        `json:"ids,omitempty" maxItems:"1000" doc:"any of these runs: complete ids"`
	Flow     string          `json:"flow,omitempty" doc:"name of the flow"`
	Fault    fault.Code      `json:"fault,omitempty" doc:"code of the fault that a run is paused with"`
	Phases   []runtype.Phase `json:"phases,omitempty" enum:"Queued,Running,Waiting,Paused,Cancelling" doc:"any of these; default: those that the verb is for"`
	Selector string          `json:"selector,omitempty" doc:"labels: key=value, key!=value, key, !key, separated by commas"`
	Text     string          `json:"text,omitempty" maxLength:"200" doc:"occurs in the id, the flow, the subject or a label (key=value), in small or capital letters"`
	// CreatedAfter leaves out runs that were created earlier; zero: none.
	CreatedAfter time.Time `json:"createdAfter,omitzero" doc:"only runs that were created then or later"`
	// CreatedBefore leaves out runs that were created later; zero: none. A plan returns the time of its reading.
	CreatedBefore time.Time `json:"createdBefore,omitzero" doc:"only runs that were created up to this time"`
}

// Spec is the spec of a bulk: a verb, its arguments, and the runs that it is for.
type Spec struct {
	Verb runtype.Verb `json:"verb" enum:"resume,pause,cancel,skip,signal"`
	Selection
	Actor   string `json:"actor,omitempty" maxLength:"200" doc:"the person behind the request"`
	Reason  string `json:"reason,omitempty" maxLength:"1000" doc:"why, for the history of the runs"`
	Planned int    `json:"planned,omitempty" minimum:"0" doc:"number of runs that the plan had when the bulk was confirmed"`

	From       workflow.From   `json:"from,omitempty" doc:"of resume: failed, first, or the name of a step; default: that of the flow"`
	Definition string          `json:"definition,omitempty" enum:"old,new" doc:"of resume: after FLOW_CHANGED"`
	Mode       runtype.Mode    `json:"mode,omitempty" enum:"hold,undo,drop" doc:"of cancel: hold (default), undo or drop"`
	GiveUp     bool            `json:"giveUp,omitempty" doc:"of cancel: do not retry a failed undo"`
	Step       string          `json:"step,omitempty" doc:"of skip; default: the step that the fault of the run names"`
	Force      bool            `json:"force,omitempty" doc:"of skip: also if the step is not skippable"`
	Output     json.RawMessage `json:"output,omitempty" doc:"of skip: replaces the step's own output"`
	Signal     string          `json:"signal,omitempty" doc:"of signal: its name"`
	Data       json.RawMessage `json:"data,omitempty" doc:"of signal: its payload, at most 64 KiB"`
}

// Problem is a finding at a path of the spec.
type Problem struct {
	path []string
	what string
}

// Path returns the path within the spec. A loader uses it to find the line.
func (p Problem) Path() []string { return p.path }

func (p Problem) Error() string {
	if len(p.path) == 0 {
		return p.what
	}
	return strings.Join(p.path, ".") + ": " + p.what
}

// Parse reads and checks a spec. The error joins all findings, each a Problem.
func Parse(raw json.RawMessage) (Spec, error) {
	var s Spec
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		var form *json.UnmarshalTypeError
		if errors.As(err, &form) && form.Field != "" {
			return s, Problem{strings.Split(form.Field, "."), "it is no " + form.Type.String()}
		}
		text := strings.TrimPrefix(err.Error(), "json: ")
		if key, ok := strings.CutPrefix(text, "unknown field "); ok {
			return s, Problem{[]string{strings.Trim(key, `"`)}, "unknown key"}
		}
		return s, Problem{what: text}
	}
	return s, s.Check()
}

// Check returns all findings, each a Problem; nil: none.
func (s Spec) Check() error {
	var found []error
	wrong := func(path, format string, args ...any) {
		found = append(found, Problem{[]string{path}, fmt.Sprintf(format, args...)})
	}
	if !slices.Contains(Verbs, s.Verb) {
		wrong("verb", "%q is not resume, pause, cancel, skip or signal", s.Verb)
	}
	if s.Selection.isEmpty() {
		found = append(found, Problem{what: "it selects every run: give at least one of ids, flow, fault, phases, selector, text, createdAfter"})
	}
	if len(s.IDs) > MaxIDs {
		wrong("ids", "there are %d, and the limit is %d: select by flow, fault, selector or text", len(s.IDs), MaxIDs)
	}
	for i, id := range s.IDs {
		if len(id) != runtype.IDLength {
			found = append(found, Problem{[]string{"ids", fmt.Sprint(i)}, fmt.Sprintf("%q is no complete id of a run: it has %d characters", id, runtype.IDLength)})
		}
	}
	if len(s.Text) > maxText {
		wrong("text", "it has %d bytes, and the limit is %d", len(s.Text), maxText)
	}
	if !s.CreatedBefore.IsZero() && s.CreatedBefore.Before(s.CreatedAfter) {
		wrong("createdBefore", "it is earlier than createdAfter")
	}
	for i, p := range s.Phases {
		switch {
		case p.Final():
			found = append(found, Problem{[]string{"phases", fmt.Sprint(i)}, fmt.Sprintf("a run that is %s has ended", p)})
		case !slices.Contains(active, p):
			found = append(found, Problem{[]string{"phases", fmt.Sprint(i)}, fmt.Sprintf("%q is not Queued, Running, Waiting, Paused or Cancelling", p)})
		}
	}
	if s.Fault != "" && len(s.Phases) > 0 && !slices.Contains(s.Phases, runtype.Paused) {
		wrong("fault", "only a run that is Paused has a fault, and phases leave it out")
	}
	if _, err := control.ParseSelector(s.Selector); err != nil {
		wrong("selector", "%s", fault.Message(err))
	}
	switch s.Mode {
	case "", runtype.Hold, runtype.Undo, runtype.Drop:
	default:
		wrong("mode", "%q is not hold, undo or drop", s.Mode)
	}
	if s.GiveUp && (s.Mode != runtype.Undo || s.Reason == "") {
		wrong("giveUp", "it leaves steps that could not be taken back, and needs mode undo and a reason")
	}
	switch s.Definition {
	case "", "old", "new":
	default:
		wrong("definition", "%q is not old or new", s.Definition)
	}
	if len(s.Data) > runtype.MaxSignal {
		wrong("data", "it has %d bytes, and the limit is %d", len(s.Data), runtype.MaxSignal)
	}
	if s.Verb == VerbSignal && s.Signal == "" {
		wrong("signal", "the verb signal needs the name of one")
	}
	for _, of := range []struct {
		path  string
		given bool
		verb  runtype.Verb
	}{
		{"from", s.From != "", runtype.VerbResume}, {"definition", s.Definition != "", runtype.VerbResume},
		{"mode", s.Mode != "", runtype.VerbCancel}, {"giveUp", s.GiveUp, runtype.VerbCancel},
		{"step", s.Step != "", runtype.VerbSkip}, {"force", s.Force, runtype.VerbSkip}, {"output", len(s.Output) > 0, runtype.VerbSkip},
		{"signal", s.Signal != "", VerbSignal}, {"data", len(s.Data) > 0, VerbSignal},
	} {
		if of.given && s.Verb != of.verb {
			wrong(of.path, "it is an argument of %s, and the verb is %s", of.verb, s.Verb)
		}
	}
	return errors.Join(found...)
}

func (s Selection) isEmpty() bool {
	return len(s.IDs) == 0 && s.Flow == "" && s.Fault == "" && len(s.Phases) == 0 && strings.TrimSpace(s.Selector) == "" && s.Text == "" && s.CreatedAfter.IsZero()
}

// active are the phases of runs that have not ended.
var active = []runtype.Phase{runtype.Queued, runtype.Running, runtype.Waiting, runtype.Paused, runtype.Cancelling}

// phases are those of the runs that are read. Without phases in the spec they are those on which the verb has an effect.
func (s Spec) phases() []runtype.Phase {
	switch {
	case s.Fault != "":
		return []runtype.Phase{runtype.Paused}
	case len(s.Phases) > 0:
		return s.Phases
	}
	switch {
	case s.Verb == runtype.VerbResume, s.Verb == runtype.VerbSkip && s.Step == "":
		return []runtype.Phase{runtype.Paused}
	case s.Verb == runtype.VerbPause:
		return []runtype.Phase{runtype.Queued, runtype.Running, runtype.Waiting}
	}
	return active
}

// query returns the query of the runs behind a cursor, the oldest first.
func (s Spec) query(cursor string) (runstore.Query, error) {
	selector, err := control.ParseSelector(s.Selector)
	q := runstore.Query{IDs: s.IDs, Flow: s.Flow, Fault: s.Fault, Phases: s.phases(), Text: s.Text, Since: s.CreatedAfter, Until: s.CreatedBefore,
		OldestFirst: true, Limit: pageSize, Cursor: cursor}
	for _, r := range selector {
		q.Labels = append(q.Labels, runstore.LabelTerm(r))
	}
	return q, err
}
