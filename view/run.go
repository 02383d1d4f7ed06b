// Package view converts runs, history, objects, clusters, plans and faults to JSON and text, for the CLI and the API.
//
//	*runtype.Run ──OfRun──▶ Run ──▶ JSON of the API and of -o json
//	                          ├────▶ Row, Table        pawl get
//	                          ├────▶ Tree, Changes     pawl run, pawl watch
//	                          ├────▶ Describe          pawl describe
//	                          └────▶ ExitOfRun         the exit code
//
// All functions are pure: the time is an argument. A Run that was decoded from an
// answer of the API produces the same text as one that was loaded from the store.
package view

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Run is the stable JSON form of a run.
type Run struct {
	ID           string            `json:"id" doc:"26 characters; commands accept a unique prefix"`
	Flow         string            `json:"flow"`
	Version      int               `json:"version"`
	Hash         string            `json:"hash" doc:"content hash of the definition that the run uses"`
	Subject      string            `json:"subject" doc:"kind/namespace/name of the object that the run works on"`
	Phase        runtype.Phase     `json:"phase" enum:"Queued,Running,Waiting,Paused,Cancelling,Cancelled,Succeeded"`
	Health       Health            `json:"health,omitempty" enum:"Healthy,Progressing,Degraded,Inactive" doc:"how good the phase is: Degraded is a run that a fault has paused, or that has a warning"`
	Revision     int64             `json:"revision" doc:"raised by each save; the ETag"`
	Epoch        int64             `json:"epoch" doc:"raised each time a worker claims the run"`
	Step         string            `json:"step,omitempty" doc:"current step: the failed one, else the open or waiting one"`
	Attempt      int               `json:"attempt,omitempty" doc:"of that step"`
	Fault        *Fault            `json:"fault,omitempty" doc:"what stopped the run"`
	Waiting      *api.Waiting      `json:"waiting,omitempty" doc:"what it waits for"`
	Steps        []Step            `json:"steps" doc:"in the order in which they were opened, at most the newest 1,000; a list of runs has only the current step of each"`
	EarlierSteps int               `json:"earlierSteps,omitempty" doc:"number of older steps, which are omitted: /v1/runs/{id}/steps has all"`
	Seq          int64             `json:"seq" doc:"number of the newest event in its history"`
	CreatedAt    time.Time         `json:"createdAt"`
	StartedAt    time.Time         `json:"startedAt,omitzero"`
	EndedAt      time.Time         `json:"endedAt,omitzero"`
	PausedAt     time.Time         `json:"pausedAt,omitzero"`
	NextAt       time.Time         `json:"nextAt,omitzero" doc:"when the engine continues with it; absent: when something happens"`
	Queue        int64             `json:"queue,omitempty" doc:"number in the queue of its subject"`
	Behind       string            `json:"behind,omitempty" doc:"id of the active run that a queued one waits for"`
	Limits       []Limit           `json:"limits,omitempty" doc:"limits of how many runs run at once; a run that is Queued, and behind no other run, waits for them"`
	Priority     int               `json:"priority,omitempty" doc:"among the runs that wait for the same limit; higher first"`
	Parent       string            `json:"parent,omitempty" doc:"id of the run that started it as a step"`
	ParentStep   string            `json:"parentStep,omitempty" doc:"instance name of that step; of a healer heal:CODE"`
	Labels       map[string]string `json:"labels,omitempty"`
	Input        json.RawMessage   `json:"input,omitempty"`
	Result       json.RawMessage   `json:"result,omitempty" doc:"result of a run that succeeded"`
	RequestID    string            `json:"requestID,omitempty"`
	Actor        string            `json:"actor,omitempty" doc:"who started it"`
	Reason       string            `json:"reason,omitempty" doc:"why it was started"`
	Warning      string            `json:"warning,omitempty" doc:"Stalled: uncharged failures for more than an hour; NoWorker: no process works on the runs of this store"`
	Stop         *Stop             `json:"stop,omitempty" doc:"the pause or cancel that is in progress or complete"`
	Healing      []Healing         `json:"healing,omitempty" doc:"one for each code that a healer worked on"`
	Last         *LastRequest      `json:"lastRequest,omitempty" doc:"the answer to the newest request from outside"`
}

// Limit is a limit of a run or of its steps. A list of runs has only key and atOnce.
type Limit struct {
	Key     string   `json:"key"`
	Of      string   `json:"of,omitempty" enum:"steps,starts" doc:"steps: of attempts of steps, in all flows; starts: of the starts of runs; absent: of runs"`
	Step    string   `json:"step,omitempty" doc:"step of the run that waits for a limit; steps that do not wait are not listed"`
	AtOnce  int      `json:"atOnce" doc:"runs, or steps, of this key that may run at once; 0 beside a rate: any number"`
	Rate    string   `json:"rate,omitempty" doc:"starts in a window, such as 10/1m"`
	Started int      `json:"started,omitempty" doc:"starts in the window that ends now"`
	Set     bool     `json:"set,omitempty" doc:"atOnce was set for the key, in place of what the flow says"`
	Running int      `json:"running,omitempty" doc:"runs that hold a limit"`
	Waiting int      `json:"waiting,omitempty" doc:"runs that wait for a limit"`
	Before  int      `json:"before,omitempty" doc:"runs that wait before this one"`
	Holders []string `json:"holders,omitempty" doc:"ids of runs that hold a limit, the oldest first, at most 10"`
}

// LimitPage is one page of the limits of all keys.
type LimitPage struct {
	Items []Limit `json:"items"`
	Next  string  `json:"next,omitempty" doc:"cursor of the next page; absent: this is the last"`
}

// Step is one step instance that was reached.
type Step struct {
	Name      string            `json:"name" doc:"instance name, such as before/DisableHA or Replace[ro-2]/Create"`
	Phase     runtype.StepPhase `json:"phase" enum:"Running,Retrying,Waiting,Failed,Done,Skipped,Pending,Undone"`
	Round     int               `json:"round" doc:"raised when a resume or a loop executes it again"`
	Attempts  int               `json:"attempts" doc:"opened in this round"`
	Failures  int               `json:"failures,omitempty" doc:"charged failures in a row"`
	Budget    int               `json:"budget,omitempty" doc:"failures in a row until the run pauses, if the flow is loaded"`
	StartedAt time.Time         `json:"startedAt,omitzero"`
	EndedAt   time.Time         `json:"endedAt,omitzero"`
	NextAt    time.Time         `json:"nextAt,omitzero"`
	Progress  *Progress         `json:"progress,omitempty"`
	Output    json.RawMessage   `json:"output,omitempty"`
	Fault     *Fault            `json:"fault,omitempty"`
	Wait      *Wait             `json:"wait,omitempty"`
	Undoing   bool              `json:"undoing,omitempty" doc:"the attempts are those of its undo"`
	Isolated  bool              `json:"isolated,omitempty" doc:"no other step that may have killed its process runs meanwhile; after lost attempts"`
	Note      string            `json:"note,omitempty" doc:"why it was skipped"`
	Actor     string            `json:"actor,omitempty" doc:"who skipped it"`
}

// Fault is a failure with the declared texts of its code.
type Fault struct {
	Code      fault.Code     `json:"code"`
	Class     fault.Class    `json:"class" enum:"transient,blocked,invalid"`
	Title     string         `json:"title"`
	Remedy    string         `json:"remedy"`
	Message   string         `json:"message,omitempty"`
	Details   map[string]any `json:"details,omitempty"`
	Step      string         `json:"step,omitempty"`
	Attempt   int            `json:"attempt,omitempty"`
	At        time.Time      `json:"at,omitzero"`
	Exhausted bool           `json:"exhausted,omitempty" doc:"the retry budget ended it, not its class"`
	Healer    string         `json:"healer,omitempty" doc:"HEALER_EXHAUSTED once its healer gave up"`
	Guide     string         `json:"guide,omitempty" doc:"Markdown, filled in from the details"`
}

// Progress is the progress that a step reports.
type Progress struct {
	Done  int64     `json:"done"`
	Total int64     `json:"total"`
	Text  string    `json:"text,omitempty"`
	At    time.Time `json:"at,omitzero"`
}

// Wait is what a step waits for.
type Wait struct {
	Reason   string    `json:"reason,omitempty"`
	Message  string    `json:"message,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Deadline time.Time `json:"deadline,omitzero"`
	Until    time.Time `json:"until,omitzero"`
	Every    string    `json:"every,omitempty" doc:"interval of checks, such as 5s"`
	Signal   string    `json:"signal,omitempty"`
	Child    string    `json:"child,omitempty"`
}

// Stop is a pause or cancel that was accepted.
type Stop struct {
	Verb   runtype.Verb `json:"verb" enum:"pause,cancel"`
	Mode   runtype.Mode `json:"mode,omitempty" enum:"hold,undo,drop"`
	Actor  string       `json:"actor,omitempty"`
	Reason string       `json:"reason,omitempty"`
	At     time.Time    `json:"at,omitzero"`
}

// Healing is the state of an active healer.
type Healing struct {
	Code     fault.Code `json:"code"`
	Attempts int        `json:"attempts"`
	Open     bool       `json:"open,omitempty" doc:"a healing is in progress"`
	Since    time.Time  `json:"since,omitzero"`
	NextAt   time.Time  `json:"nextAt,omitzero"`
	Child    string     `json:"child,omitempty"`
	Ended    string     `json:"ended,omitempty"`
}

// LastRequest is the answer to a request from outside.
type LastRequest struct {
	ID      string       `json:"id"`
	Verb    runtype.Verb `json:"verb"`
	Code    fault.Code   `json:"code,omitempty" doc:"of the refusal; absent: accepted"`
	Message string       `json:"message,omitempty"`
	Remedy  string       `json:"remedy,omitempty"`
	At      time.Time    `json:"at"`
}

// Runs is one page of a list.
type Runs struct {
	Items []Run  `json:"items"`
	Next  string `json:"next,omitempty" doc:"cursor of the next page; absent: this is the last"`
}

// OfRun returns the JSON form of a run with all its steps. The flow adds the retry budgets; it may be nil.
func OfRun(r *runtype.Run, flow *workflow.Flow) Run { return ofRun(r, definitionsOf(r, flow)) }

func ofRun(r *runtype.Run, defs *definitions) Run {
	v := Run{
		ID: r.ID, Flow: r.Flow, Version: r.Version, Hash: r.Hash, Subject: r.Subject,
		Phase: r.Phase, Seq: r.Seq, Revision: r.Revision, Epoch: r.Epoch, Fault: OfFault(r.Fault), Steps: make([]Step, 0, r.Len()),
		CreatedAt: r.CreatedAt, StartedAt: r.StartedAt, EndedAt: r.EndedAt, NextAt: r.NextAt,
		Queue: r.Queue, Parent: r.Parent, ParentStep: r.ParentRef, Labels: r.Labels, Input: r.Input, Result: r.Result(),
		RequestID: r.RequestID, Actor: r.Actor, Reason: r.Reason, Warning: r.State.Warning,
	}
	if r.Phase != runtype.Queued {
		v.Queue = 0
	}
	v.Priority = r.Priority
	for _, l := range r.Limits {
		v.Limits = append(v.Limits, Limit{Key: l.Key, AtOnce: l.AtOnce})
	}
	if r.Phase == runtype.Paused {
		v.PausedAt = r.State.PausedAt
	}
	for s := range r.Steps() {
		v.Steps = append(v.Steps, ofStep(s, defs))
	}
	v.Waiting = WaitingOf(r, defs.wholeFlow())
	if current := r.Current(); current != nil && !r.Phase.Final() {
		v.Step, v.Attempt = current.Name, current.Attempt
	} else if r.Fault != nil {
		v.Step, v.Attempt = r.Fault.Step, r.Fault.Attempt
	}
	if s := r.State.Stop; s != nil && !s.Failed {
		v.Stop = &Stop{Verb: s.Verb, Mode: s.Mode, Actor: s.Actor, Reason: s.Reason, At: s.At}
	}
	for _, h := range r.State.Healing {
		v.Healing = append(v.Healing, Healing{Code: h.Code, Attempts: h.Attempts, Open: h.Open, Since: h.Since, NextAt: h.NextAt, Child: h.Child, Ended: h.Ended})
	}
	if l := r.State.Last; l != nil {
		v.Last = &LastRequest{ID: l.ID, Verb: l.Verb, Code: l.Code, Message: l.Message, At: l.At}
		if l.Code != "" {
			v.Last.Remedy = kindOf(l.Code).Remedy
		}
	}
	v.Health = HealthOfRun(v)
	return v
}

func ofStep(s *runtype.StepRecord, defs *definitions) Step {
	v := Step{
		Name: s.Name, Phase: s.Phase, Round: s.Round, Attempts: s.Attempt, Failures: s.Failures,
		StartedAt: s.StartedAt, EndedAt: s.EndedAt, NextAt: s.NextAt, Output: s.Output, Fault: OfFault(s.Fault),
		Undoing: s.Undoing, Isolated: s.Isolated, Note: s.Note, Actor: s.Actor,
	}
	if p := s.Progress; p != nil {
		v.Progress = &Progress{Done: p.Done, Total: p.Total, Text: p.Text, At: p.At}
	}
	if w := s.Wait; w != nil {
		v.Wait = &Wait{Reason: w.Reason, Message: w.Message, Since: w.Since, Deadline: w.Deadline, Until: w.Until, Signal: w.Signal, Child: w.Child}
		if w.Every > 0 {
			v.Wait.Every = span(w.Every)
		}
	}
	if def, ok := defs.find(s.Name); ok {
		v.Budget = cmp.Or(def.Retry.Attempts, 10) // the default of workflow.Retry
	}
	return v
}

// OfRuns returns the JSON form of a page of a list; flows may be nil.
func OfRuns(runs []*runtype.Run, next string, flows []workflow.Flow) Runs {
	page := Runs{Items: make([]Run, len(runs)), Next: next}
	known := map[*workflow.Flow]*definitions{} // a flow's steps are visited once for the whole page
	for i, r := range runs {
		flow := workflow.FlowFor(flows, r.Flow, r.Subject)
		if known[flow] == nil {
			known[flow] = definitionsOf(r, flow)
		}
		page.Items[i] = ofRun(r, known[flow])
	}
	Queue(page.Items)
	return page
}

// Queue fills in Behind of queued runs from the active runs of their subjects
// that are in the same list.
func Queue(runs []Run) {
	active := map[string]string{}
	for _, r := range runs {
		if r.Phase != runtype.Queued && !r.Phase.Final() && r.Parent == "" {
			active[r.Subject] = r.ID
		}
	}
	for i := range runs {
		if r := &runs[i]; r.Phase == runtype.Queued && r.Behind == "" && !r.WaitsForLimits() {
			r.Behind = active[r.Subject]
		}
	}
}

// OfLimits returns the JSON form of the limits of a run.
func OfLimits(limits []runstore.KeyLimit) []Limit {
	var list []Limit
	for _, l := range limits {
		list = append(list, Limit{Key: l.Key, AtOnce: l.AtOnce, Set: l.Set, Running: l.Running, Waiting: l.Waiting, Before: l.Before, Holders: l.Holders})
	}
	return list
}

// OfStepLimits returns the JSON form of the limits for which the steps of a run wait.
func OfStepLimits(waits []workflow.StepLimitWait) (list []Limit) {
	for _, w := range waits {
		l := Limit{Key: w.Key, Of: "steps", Step: w.Step, AtOnce: w.AtOnce, Rate: w.Rate.String(), Started: w.Started, Running: w.Running, Waiting: w.Waiting, Before: w.Before}
		if w.Step == "" {
			l.Of = "starts"
		}
		for _, h := range w.Holders[:min(len(w.Holders), runstore.MaxHolders)] {
			l.Holders = append(l.Holders, h.Run)
		}
		list = append(list, l)
	}
	return list
}

// OfKeyStates returns the JSON form of the keys of limits of steps and of rates.
func OfKeyStates(keys []workflow.KeyState) (list []Limit) {
	for _, k := range keys {
		l := Limit{Key: k.Key, Of: "steps", AtOnce: k.AtOnce, Rate: k.Rate.String(), Started: k.StartedIn(k.Rate.Window), Running: len(k.Holders), Waiting: len(k.State.Waiters)}
		if k.Starts {
			l.Of = "starts"
		}
		list = append(list, l)
	}
	return list
}

// WaitsForStepLimit returns the limit for which the start or the current step of the run waits; nil: it waits for none.
func (r Run) WaitsForStepLimit() *Limit {
	for i := range r.Limits {
		if l := &r.Limits[i]; l.Of == "starts" || l.Of == "steps" && l.Step == r.Step {
			return l
		}
	}
	return nil
}

// WaitsForLimits reports whether the run is Queued because of its limits.
func (r Run) WaitsForLimits() bool {
	return r.Phase == runtype.Queued && r.Queue == 0 && len(r.Limits) > 0
}

// Current returns the current step of the run; nil if it has none.
func (r Run) Current() *Step {
	i := slices.IndexFunc(r.Steps, func(s Step) bool { return s.Name == r.Step })
	if i < 0 {
		return nil
	}
	return &r.Steps[i]
}

// OfFault returns the JSON form of a fault, with the declared texts of its code; nil for nil.
func OfFault(f *runtype.Fault) *Fault {
	if f == nil {
		return nil
	}
	kind, details := f.Kind(), maps.Clone(f.Details)
	delete(details, runtype.DetailTitle)
	delete(details, runtype.DetailRemedy)
	return &Fault{
		Code: f.Code, Class: kind.Class, Title: kind.Title, Remedy: kind.Remedy, Message: f.Message, Details: details,
		Step: f.Step, Attempt: f.Attempt, At: f.At, Exhausted: f.Exhausted, Healer: f.Healer, Guide: Guide(kind, f.Details),
	}
}

// kindOf returns the declared kind of a code; UNKNOWN for a code that this binary does not declare.
func kindOf(code fault.Code) *fault.Kind {
	if kind, ok := fault.Lookup(string(code)); ok {
		return kind
	}
	return fault.Unknown
}
