// Package workflow runs durable flows of ordered steps.
//
//	flow := workflow.Flow{Name: "CreateCluster", Steps: []workflow.Step{
//		{Name: "PrepareStorage", Do: prepareStorage, Undo: removeStorage},
//		{Name: "StartWriter", Do: startWriter},
//		{Name: "AnswersSQL", Do: answersSQL, Timeout: time.Minute},
//	}}
//	engine, err := workflow.New(store, []workflow.Flow{flow}, workflow.Options{})
//	run, err := engine.Start(ctx, workflow.Request{Flow: "CreateCluster", Subject: "demo/default/c1"})
//	err = engine.Serve(ctx) // until ctx ends
//
// A run is a checkpoint: its position, and a record and an output for each
// step. Two pure functions hold all judgement: due says what may be opened,
// apply folds an outcome in. Around them stands the loop of a worker:
//
//	claim ─▶ due ─▶ save the attempt ─▶ act ─▶ apply ─▶ due ─▶ save …
//	                                                      └─▶ release: waiting, paused, ended
package workflow

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// Options of an engine. The zero value is usable.
type Options struct {
	Worker      string        // default: made from host, process and start
	Attempts    int           // at once in this worker; default 64
	PerLabel    LabelLimit    // limit of attempts at once of one tenant
	Lease       time.Duration // default 15 s; renewed at a third of it
	Drain       time.Duration // what open attempts get after Serve's context ended; default 25 s
	Actions     []Action
	Secrets     Secrets
	Healers     map[fault.Code]Healer
	Hooks       []Hook
	Retention   Retention
	Archive     func(*Run, []Event) error // called before a finished run is removed
	Logger      *slog.Logger              // default slog.Default()
	Object      func(ctx context.Context, subject string) (json.RawMessage, error)
	Compile     func(source []byte) (Flow, error) // makes a flow from a stored definition's Source
	LookEvery   time.Duration                     // safety look for due runs nobody was told of; default 30 s
	AloneFor    time.Duration                     // how long a suspected step must survive alone; default 10 s
	ProgressGap time.Duration                     // between stored progress; default 5 s
}

// LabelLimit bounds attempts at once among runs that share the value of a label.
type LabelLimit struct {
	Label string
	Most  int
}

// Hook hears saved events. It cannot fail, delay or change a run.
type Hook struct {
	Name string
	Hear func(RunInfo, Event)
}

// Healer ends a fault by code: Do, or a flow that runs as a child.
type Healer struct {
	Do     Func
	Flow   string
	From   From // where the healed run goes on; default FromFailed
	Undo   bool // cancel with undo instead of resuming
	Limits Limits
}

// Limits of a healer per run.
type Limits struct {
	Attempts int           // default 3
	First    time.Duration // default 10 s
	Longest  time.Duration // default 10 m
	Within   time.Duration // default 24 h
}

// Request asks for a run.
type Request struct {
	Flow      string
	Subject   string
	RequestID string // the same subject, flow and id is one run; empty: a new one
	Input     json.RawMessage
	Labels    map[string]string
	Actor     Actor
}

// Engine executes the runs of a store.
type Engine struct {
	store   Store
	options Options
}

// New makes an engine. All errors of all flows are reported at once.
func New(store Store, flows []Flow, options Options) (*Engine, error) { panic("wip") }

// Load replaces the set of flows: all or nothing.
func (e *Engine) Load(flows []Flow) error { panic("wip") }

// Flows gives the loaded flows by name.
func (e *Engine) Flows() []Flow { panic("wip") }

// Store gives the store the engine works on.
func (e *Engine) Store() Store { return e.store }

// Start stores a run and returns when it is durable. A known id gives the run
// as it is; with another input it is refused (INPUT_INVALID).
func (e *Engine) Start(ctx context.Context, req Request) (*Run, error) { panic("wip") }

// Get loads a run, by its id or a unique beginning of it. RUN_NOT_FOUND.
func (e *Engine) Get(ctx context.Context, id string) (*Run, error) { panic("wip") }

// Advance works on one run until it rests, and says how it stands: Done
// (Succeeded), Wait, or Fail with the fault of a paused or cancelled run.
func (e *Engine) Advance(ctx context.Context, id string) outcome.Outcome { panic("wip") }

// Send gives a signal to a run; durable on return.
func (e *Engine) Send(ctx context.Context, id string, s Signal) error { panic("wip") }

// Touch says that the subject changed: its active run looks at its conditions.
func (e *Engine) Touch(ctx context.Context, subject string) error { panic("wip") }

// Report tells the progress of a step that works outside.
func (e *Engine) Report(ctx context.Context, id, step string, p Progress) error { panic("wip") }

// Pause lets the running attempts finish and pauses the run.
func (e *Engine) Pause(ctx context.Context, id string, by Actor) error { panic("wip") }

// Resume goes on with a paused run. Definition is "", "old" or "new" (after FLOW_CHANGED).
func (e *Engine) Resume(ctx context.Context, id string, from From, definition string, by Actor) error {
	panic("wip")
}

// Cancel stops a run: Hold, Undo or Drop. giveUp leaves a failed undo as it is.
func (e *Engine) Cancel(ctx context.Context, id string, mode Mode, giveUp bool, by Actor) error {
	panic("wip")
}

// Skip marks a failed or waiting step as skipped. A nil output gives none.
func (e *Engine) Skip(ctx context.Context, id, step string, output any, force bool, by Actor) error {
	panic("wip")
}

// Plan says what a run with this input would do. It writes nothing.
func (e *Engine) Plan(flow string, input json.RawMessage) (Plan, error) { panic("wip") }

// Serve claims due runs and works on them until ctx ends, then drains.
func (e *Engine) Serve(ctx context.Context) error { panic("wip") }

// Plan is what a run would do.
type Plan struct {
	Flow  string     `json:"flow"`
	Hash  string     `json:"hash"`
	Steps []PlanStep `json:"steps"`
}

// PlanStep is one step of a plan.
type PlanStep struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"` // run, skip, unknown (depends on an output), once per item
	Why     string `json:"why,omitempty"`
}
