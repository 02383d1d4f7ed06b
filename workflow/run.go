package workflow

import (
	"encoding/json"
	"iter"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// Phase is where a run stands in its life (workflow.md 2.2).
type Phase string

// The phases. There is no Failed: what cannot go on is Paused until someone decides.
const (
	Queued     Phase = "Queued"
	Running    Phase = "Running"
	Waiting    Phase = "Waiting"
	Paused     Phase = "Paused"
	Cancelling Phase = "Cancelling"
	Cancelled  Phase = "Cancelled"
	Succeeded  Phase = "Succeeded"
)

// Final reports a phase that nothing leaves.
func (p Phase) Final() bool { return p == Cancelled || p == Succeeded }

// StepPhase is where a step instance stands.
type StepPhase string

// The phases of a step instance.
const (
	StepRunning  StepPhase = "Running"  // an attempt is open
	StepRetrying StepPhase = "Retrying" // failed; NextAt says when the next attempt opens
	StepWaiting  StepPhase = "Waiting"
	StepFailed   StepPhase = "Failed" // failed for good
	StepDone     StepPhase = "Done"
	StepSkipped  StepPhase = "Skipped"
	StepPending  StepPhase = "Pending" // to be executed again in a new round
	StepUndone   StepPhase = "Undone"
	StepEntered  StepPhase = "Entered" // a structure (group, loop, bracket) that is under way
)

// Settled reports a phase in which the steps behind may go on.
func (p StepPhase) Settled() bool { return p == StepDone || p == StepSkipped }

// Run is the checkpoint of one execution of a flow: enough to go on after a crash.
//
// The worker that owns a run is the only one that saves it; all requests from
// outside reach it as signals. A Run is not safe for concurrent use.
type Run struct {
	ID        string
	Flow      string
	Version   int
	Hash      string // content hash of the definition it is pinned to
	Subject   string // kind/namespace/name[/uid]
	Labels    map[string]string
	RequestID string
	Actor     string // who started it
	Reason    string // why, as the starter said
	Parent    string // id of the parent run
	ParentRef string // step and round in the parent: "Step/1"
	Inline    bool   // a child in the place of its parent: it takes no slot of the subject
	Depth     int
	Input     json.RawMessage

	Phase     Phase
	Revision  int64 // raised by each Save
	Epoch     int64 // raised by each claim
	Owner     string
	Queue     int64     // number in the subject's queue, while Queued
	NextAt    time.Time // when it is due; zero: when something happens
	CreatedAt time.Time
	StartedAt time.Time
	EndedAt   time.Time
	Seq       int64 // number of the newest event
	Mail      int64 // signals the store had accepted when it answered last
	Fault     *Fault
	State     State

	Handle any // a store's own; nobody else reads or keeps it

	records map[string]*StepRecord
	order   []*StepRecord // in order of Ord
	changed []*StepRecord
}

// State is the part of the checkpoint only the engine reads. A store keeps it
// as one JSON value; it is the zero State most of the time.
type State struct {
	Ord       int64           `json:"ord,omitempty"`      // newest StepRecord.Ord
	Stop      *Stop           `json:"stop,omitempty"`     // a stop under way, or what paused the run
	Finally   bool            `json:"finally,omitempty"`  // the finally steps have begun
	PausedAt  time.Time       `json:"pausedAt,omitzero"`  // since when Paused
	PausedFor time.Duration   `json:"pausedFor,omitzero"` // earlier pauses, not counted by the deadline
	Healing   []Healing       `json:"healing,omitempty"`  // one per code
	Chosen    string          `json:"chosen,omitempty"`   // "old" or "new" after FLOW_CHANGED
	Warning   string          `json:"warning,omitempty"`
	Last      *LastRequest    `json:"last,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"` // what the flow says of a run that succeeded
	Due       bool            `json:"due,omitempty"`    // the deadline has ended and was acted on
}

// Stop is a pause or cancel that was accepted.
type Stop struct {
	Verb   Verb      `json:"verb"`
	Mode   Mode      `json:"mode,omitempty"`
	Actor  string    `json:"actor,omitempty"`
	Reason string    `json:"reason,omitempty"`
	GiveUp bool      `json:"giveUp,omitempty"`
	Failed bool      `json:"failed,omitempty"` // the stop is the consequence of a fault
	At     time.Time `json:"at,omitzero"`
}

// StoppedByPerson reports a pause or hold that was asked for, whether or not the
// run has stopped at a fault as well: only a resume that is asked for ends it.
func (r *Run) StoppedByPerson() bool {
	stop := r.State.Stop
	return stop != nil && !stop.Failed && (stop.Verb == VerbPause || stop.Mode == Hold)
}

// Healing is the state of a healer at work on a paused run.
type Healing struct {
	Code     fault.Code `json:"code"`
	Attempts int        `json:"attempts"`
	Since    time.Time  `json:"since"`
	NextAt   time.Time  `json:"nextAt,omitzero"`
	Open     bool       `json:"open,omitempty"`  // a healing is under way
	Begun    bool       `json:"begun,omitempty"` // its first attempt is open: nothing is known of its outcome
	Child    string     `json:"child,omitempty"` // the run of a healer that is a flow
	Ended    string     `json:"ended,omitempty"` // exhausted, stopped
}

// LastRequest is the answer to the newest request from outside.
type LastRequest struct {
	ID      string     `json:"id"`
	Verb    Verb       `json:"verb"`
	Code    fault.Code `json:"code,omitempty"` // of the refusal
	Message string     `json:"message,omitempty"`
	At      time.Time  `json:"at"`
}

// Fault is the record of a failure.
type Fault struct {
	Code      fault.Code     `json:"code"`
	Message   string         `json:"message,omitempty"`
	Details   map[string]any `json:"details,omitempty"`
	Step      string         `json:"step,omitempty"`
	Attempt   int            `json:"attempt,omitempty"`
	At        time.Time      `json:"at,omitzero"`
	Exhausted bool           `json:"exhausted,omitempty"` // the budget ended it, not its class
	Healer    string         `json:"healer,omitempty"`    // HEALER_EXHAUSTED when its healer gave up
}

// Keys of a fault's details that carry the words of a code that only the program
// of its flow declares: others that show the run have no other way to know them.
const (
	DetailTitle  = "title"
	DetailRemedy = "remedy"
)

// Kind gives what the fault's code was declared with: in this program, or, as the
// details tell it, in the one that recorded the fault; else the words of UNKNOWN.
func (f *Fault) Kind() *fault.Kind {
	if kind, ok := fault.Lookup(string(f.Code)); ok {
		return kind
	}
	title, _ := f.Details[DetailTitle].(string)
	remedy, _ := f.Details[DetailRemedy].(string)
	if title == "" || remedy == "" {
		return fault.Unknown
	}
	return &fault.Kind{Code: f.Code, Class: fault.Blocked, Title: title, Remedy: remedy}
}

// StepRecord is what is saved of one step instance.
type StepRecord struct {
	Name           string // instance name: before/DisableHA, Replace[ro-2]/Create
	Phase          StepPhase
	Ord            int64 // order of first opening within the run
	Round          int   // raised when it is executed again on purpose; 0 is the first
	Attempt        int   // attempts opened in this round
	Failures       int   // charged failures in a row
	Uncharged      int   // uncharged failures in a row
	UnchargedSince time.Time
	Lost           int  // attempts lost in a row
	Isolated       bool // the attempt was opened while no other suspect was open
	Undoing        bool // the attempts are those of its undo
	StartedAt      time.Time
	AttemptAt      time.Time // when the newest attempt was opened
	EndedAt        time.Time
	NextAt         time.Time // when to look again: a retry or a wait; zero: when something happens
	Output         json.RawMessage
	Fault          *Fault
	Wait           *WaitRecord
	Progress       *Progress
	Items          []LoopItem // of a forEach
	Note           string     // why it was skipped: the expression, or the person's reason
	Actor          string     // who skipped it

	Row   int64 // a store's own
	dirty bool
}

// Fresh reports a record that holds nothing beyond its name, order and times
// of an opened first attempt. A store may keep it within the run's own row, so
// that a step costs one small update and one append.
func (s *StepRecord) Fresh() bool {
	return s.Phase == StepRunning && s.Round == 0 && s.Attempt == 1 && s.Failures == 0 && s.Uncharged == 0 && s.Lost == 0 &&
		!s.Isolated && !s.Undoing && s.Output == nil && s.Fault == nil && s.Wait == nil && s.Progress == nil && s.Items == nil &&
		s.StartedAt.Equal(s.AttemptAt) && s.NextAt.IsZero() && s.EndedAt.IsZero() && s.UnchargedSince.IsZero() && s.Note == "" && s.Actor == ""
}

// WaitRecord is a durable wait.
type WaitRecord struct {
	Reason   string        `json:"reason,omitempty"` // CamelCase
	Message  string        `json:"message,omitempty"`
	Since    time.Time     `json:"since"`
	Deadline time.Time     `json:"deadline,omitzero"`
	Every    time.Duration `json:"every,omitzero"` // the interval of looks, not their instants
	Signal   string        `json:"signal,omitempty"`
	Child    string        `json:"child,omitempty"` // id of the child run
	Until    time.Time     `json:"until,omitzero"`
}

// Progress is done of total, and a text.
type Progress struct {
	Done  int64     `json:"done"`
	Total int64     `json:"total"`
	Text  string    `json:"text,omitempty"`
	At    time.Time `json:"at,omitzero"`
	High  int64     `json:"high,omitempty"` // highest recorded done
}

// LoopItem is one stored item of a forEach.
type LoopItem struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

// Result is what the flow's Result has made of a run that succeeded; nil: nothing.
func (r *Run) Result() json.RawMessage { return r.State.Result }

// Step finds the record of an instance; nil if it was never reached.
func (r *Run) Step(name string) *StepRecord { return r.records[name] }

// Steps gives the records in the order in which they were first opened.
func (r *Run) Steps() iter.Seq[*StepRecord] { return slices.Values(r.order) }

// Len is the number of records.
func (r *Run) Len() int { return len(r.order) }

// Changed gives the records that differ from what the store gave or took last.
func (r *Run) Changed() []*StepRecord { return r.changed }

// Put adds a record, or replaces the one of the same name, and marks it changed.
func (r *Run) Put(s *StepRecord) {
	if r.records == nil {
		r.records = map[string]*StepRecord{}
	}
	if old := r.records[s.Name]; old == nil {
		r.order = append(r.order, s)
	} else if old != s {
		r.order[slices.Index(r.order, old)] = s
		r.changed = slices.DeleteFunc(r.changed, func(c *StepRecord) bool { return c == old })
	}
	r.records[s.Name] = s
	r.touch(s)
}

func (r *Run) touch(s *StepRecord) {
	if !s.dirty {
		s.dirty = true
		r.changed = append(r.changed, s)
	}
}

// Restore sets the records a store has read. Only stores call it.
func (r *Run) Restore(records []*StepRecord) {
	r.records = make(map[string]*StepRecord, len(records))
	r.order = records
	r.changed = nil
	slices.SortFunc(r.order, func(a, b *StepRecord) int { return int(a.Ord - b.Ord) })
	for _, s := range records {
		s.dirty = false
		r.records[s.Name] = s
	}
}

// Clean forgets which records changed. A store calls it when a write has become durable.
func (r *Run) Clean() {
	for _, s := range r.changed {
		s.dirty = false
	}
	clear(r.changed)
	r.changed = r.changed[:0]
}

// Current is the step a person would name when asked where the run stands:
// the failed one, else the open or waiting one opened first; nil if there is none.
func (r *Run) Current() *StepRecord {
	var open *StepRecord
	for i := len(r.order) - 1; i >= 0; i-- {
		switch s := r.order[i]; s.Phase {
		case StepFailed:
			return s
		case StepRunning, StepRetrying, StepWaiting:
			open = s
		}
	}
	return open
}
