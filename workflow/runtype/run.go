// Package runtype holds what authors of flows, stores and readers of runs share: the checkpoint of a run,
// its events and its signals.
package runtype

import (
	"encoding/json"
	"iter"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// Phase is the state of a run.
type Phase string

// The phases. There is no phase Failed: a run that cannot continue is Paused until somebody
// decides.
const (
	Queued     Phase = "Queued"
	Running    Phase = "Running"
	Waiting    Phase = "Waiting"
	Paused     Phase = "Paused"
	Cancelling Phase = "Cancelling"
	Cancelled  Phase = "Cancelled"
	Succeeded  Phase = "Succeeded"
)

// Final reports whether a run never leaves the phase.
func (p Phase) Final() bool { return p == Cancelled || p == Succeeded }

// StepPhase is the state of a step instance.
type StepPhase string

// The phases of a step instance.
const (
	StepRunning  StepPhase = "Running"  // an attempt is open
	StepRetrying StepPhase = "Retrying" // failed; NextAt says when the next attempt opens
	StepWaiting  StepPhase = "Waiting"
	StepFailed   StepPhase = "Failed" // failed for good
	StepDone     StepPhase = "Done"
	StepSkipped  StepPhase = "Skipped"
	StepPending  StepPhase = "Pending" // will be executed again in a new round
	StepUndone   StepPhase = "Undone"
	StepEntered  StepPhase = "Entered" // a structure (group, loop, bracket) that has started and is not done
)

// Settled reports whether the steps after this one may start.
func (p StepPhase) Settled() bool { return p == StepDone || p == StepSkipped }

// Run is the checkpoint of one execution of a flow. It contains everything that is needed to
// continue after a crash.
//
// Only the worker that owns a run saves it; requests from outside reach the run as signals. A Run
// is not safe for concurrent use.
type Run struct {
	ID        string
	Flow      string
	Version   int
	Hash      string // content hash of the definition that the run is executed with
	Subject   string // kind/namespace/name[/uid]
	Labels    map[string]string
	RequestID string
	Actor     string // actor who started it
	Reason    string // reason that this actor gave
	Parent    string // id of the parent run
	ParentRef string // step of the parent that started it, or heal:CODE
	Inline    bool   // a child of a run with the same subject: it takes no slot of the subject
	Depth     int
	Input     json.RawMessage
	Limits    []Limit // ordered by key; never changes
	Priority  int     // among the runs that wait for the same limit: higher first; default 0

	Phase     Phase
	Revision  int64 // raised by each Save
	Epoch     int64 // raised by each claim
	Owner     string
	Queue     int64     // number in the queue of the subject, in phase Queued; 0 in that phase: it waits for its limits
	NextAt    time.Time // time at which it is due; zero: when something happens
	CreatedAt time.Time
	StartedAt time.Time
	EndedAt   time.Time
	Seq       int64 // number of the newest event
	Mail      int64 // number of signals that the store has accepted, as of its last answer
	Fault     *Fault
	State     State

	Handle any // private data of the store

	records map[string]*StepRecord
	order   []*StepRecord // in order of Ord
	changed []*StepRecord
}

// State is the part of the checkpoint that only the engine reads. A store keeps it as one JSON
// value. Most of the time it is the zero State.
type State struct {
	Ord       int64           `json:"ord,omitempty"`      // highest StepRecord.Ord
	Stop      *Stop           `json:"stop,omitempty"`     // a stop that is under way or that has paused the run
	Finally   bool            `json:"finally,omitempty"`  // the finally steps have begun
	PausedAt  time.Time       `json:"pausedAt,omitzero"`  // start of the current pause
	PausedFor time.Duration   `json:"pausedFor,omitzero"` // total of earlier pauses; the deadline excludes it
	Healing   []Healing       `json:"healing,omitempty"`  // one per fault code
	Chosen    string          `json:"chosen,omitempty"`   // "old" or "new" after FLOW_CHANGED
	Warning   string          `json:"warning,omitempty"`
	Last      *LastRequest    `json:"last,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"` // result of a run that succeeded
	Due       bool            `json:"due,omitempty"`    // the deadline has ended and was handled
}

// Stop is an accepted pause or cancel.
type Stop struct {
	Verb   Verb      `json:"verb"`
	Mode   Mode      `json:"mode,omitempty"`
	Actor  string    `json:"actor,omitempty"`
	Reason string    `json:"reason,omitempty"`
	GiveUp bool      `json:"giveUp,omitempty"`
	Failed bool      `json:"failed,omitempty"` // a fault caused the stop
	At     time.Time `json:"at,omitzero"`

	Code fault.Code `json:"code,omitempty"` // of the fault by which the run is cancelled; empty: somebody has asked for it
}

// StoppedByPerson reports whether a person has requested a pause or hold, even if a fault has also
// stopped the run. Only a resume request ends such a stop.
func (r *Run) StoppedByPerson() bool {
	stop := r.State.Stop
	return stop != nil && !stop.Failed && (stop.Verb == VerbPause || stop.Mode == Hold)
}

// Healing is the state of a healer of a paused run.
type Healing struct {
	Code     fault.Code `json:"code"`
	Attempts int        `json:"attempts"`
	Since    time.Time  `json:"since"`
	NextAt   time.Time  `json:"nextAt,omitzero"`
	Open     bool       `json:"open,omitempty"`  // a healing has started and has not ended
	Begun    bool       `json:"begun,omitempty"` // its first attempt is open: its outcome is unknown
	Child    string     `json:"child,omitempty"` // run of a healer that is a flow
	Ended    string     `json:"ended,omitempty"` // exhausted, stopped
}

// LastRequest is the answer to the newest request from outside.
type LastRequest struct {
	ID      string     `json:"id"`
	Verb    Verb       `json:"verb"`
	Code    fault.Code `json:"code,omitempty"` // code of the refusal
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
	Exhausted bool           `json:"exhausted,omitempty"` // the step has used up its attempts
	Healer    string         `json:"healer,omitempty"`    // HEALER_EXHAUSTED if its healer has given up
}

// Keys of a fault's details that hold the title and the remedy of its code. Other programs need
// them if only the program of the flow declares the code.
const (
	DetailTitle  = "title"
	DetailRemedy = "remedy"
)

// Kind returns the declared kind of the fault. If this program does not declare the code, Kind
// returns the title and remedy in the details, else the kind UNKNOWN.
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

// StepRecord is the stored state of one step instance.
type StepRecord struct {
	Name           string // instance name: before/DisableHA, Replace[ro-2]/Create
	Phase          StepPhase
	Ord            int64 // order in which the run first opened its steps
	Round          int   // number of the round: increases when a resume or an undo executes the step again; from 0
	Attempt        int   // attempts opened in this round
	Failures       int   // consecutive counted failures
	Uncharged      int   // consecutive failures that are not counted
	UnchargedSince time.Time
	Lost           int  // consecutive attempts whose worker died or lost its lease
	Isolated       bool // the attempt was opened while no other suspected step was open
	Undoing        bool // the attempts undo the step
	StartedAt      time.Time
	AttemptAt      time.Time // time at which the newest attempt was opened
	EndedAt        time.Time
	NextAt         time.Time // time of the next retry or poll; zero: when something happens
	Output         json.RawMessage
	Fault          *Fault
	Wait           *WaitRecord
	Progress       *Progress
	Items          []LoopItem // items of a forEach
	Note           string     // why it was skipped: the expression, or the reason of the person
	Actor          string     // person who skipped it

	Row   int64 // private data of the store
	dirty bool
}

// Fresh reports whether a record holds only the name, order and times of an opened first attempt. A
// store may keep such a record in the row of the run, so that a step costs one small update and one
// append.
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
	Every    time.Duration `json:"every,omitzero"` // interval of the polls
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

// LoopItem is one stored item items of a forEach.
type LoopItem struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

// Result is the result of a run that succeeded; nil: none.
func (r *Run) Result() json.RawMessage { return r.State.Result }

// Step returns the record of an instance; nil if the run has not reached it.
func (r *Run) Step(name string) *StepRecord { return r.records[name] }

// Steps returns the records in the order in which the steps were first opened.
func (r *Run) Steps() iter.Seq[*StepRecord] { return slices.Values(r.order) }

// Len is the number of records.
func (r *Run) Len() int { return len(r.order) }

// Changed returns the records that differ from the stored ones.
func (r *Run) Changed() []*StepRecord { return r.changed }

// Put adds a record or replaces the record with the same name, and marks it as changed.
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

// Restore sets the records that a store has read. Only stores call it.
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

// Clean clears Changed. A store calls it when a write is durable.
func (r *Run) Clean() {
	for _, s := range r.changed {
		s.dirty = false
	}
	clear(r.changed)
	r.changed = r.changed[:0]
}

// Current returns the most important step: the failed one, else the open or waiting step that was
// opened first; nil if there is none.
func (r *Run) Current() *StepRecord { return CurrentOf(r.order) }

// CurrentOf is Run.Current for records in the order of their Ord.
func CurrentOf(records []*StepRecord) *StepRecord {
	var open *StepRecord
	for i := len(records) - 1; i >= 0; i-- {
		switch s := records[i]; s.Phase {
		case StepFailed:
			return s
		case StepRunning, StepRetrying, StepWaiting:
			open = s
		}
	}
	return open
}
