package workflow

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// Func is the work of a step: plain Go that may be called again with the same
// Task.Key until its outcome is saved.
type Func func(context.Context, *Task) outcome.Outcome

// Flow is the definition of a durable procedure: steps in order.
type Flow struct {
	Name                 string
	Kind                 string // serves subjects of this kind (its first part) only, before a flow of its name for all; empty: all subjects
	Version              int
	Description          string
	Input                Schema // nil: any JSON
	RecoverFromFirstStep bool   // resume begins at the first step instead of the failed one
	Steps                []Step
	Result               func(View) (json.RawMessage, error) // what a run that succeeds has to say: Run.Result; nil: nothing
	ResultText           string                              // its source, part of the content hash
	Finally              []Step                              // run at the end, on success and after cancel with undo or drop
	Deadline             time.Duration                       // from the first opened step, without time spent Paused; 0: none
	OnDeadline           Then                                // default ThenPause
	OnChange             Change                              // what runs of an older definition do; default Finish
	Migrations           []Migration
	Limit                int        // attempts at once per worker; 0: no limit but the worker's
	Retention            *Retention // nil: the engine's
	Source               []byte     // the expanded definition a loader made it from; empty for flows written in Go
}

// Step is one part of a flow. Exactly one of these says what it does:
// Do; Uses (a registered Action); Wait alone; Flow (a child run); Steps (a
// group, with Parallel, ForEach or Open and Close a structure around them).
type Step struct {
	Name        string // [A-Za-z][A-Za-z0-9_.-]{0,62}, unique among its siblings
	Description string

	Do   Func
	Undo Func // takes the step back; nil: nothing to take back

	Uses     string                              // name of a registered action
	With     json.RawMessage                     // its parameters, or the input of the child flow
	Resolve  func(View) (json.RawMessage, error) // makes With anew for each attempt, when it holds expressions
	UndoCall *Call                               // an action instead of Undo

	When     func(View) (bool, error) // false: the step is Skipped
	WhenText string                   // the expression, for records, plans and the content hash

	Retry     Retry
	Timeout   time.Duration // per attempt; default 15 m
	Heartbeat time.Duration // longest silence; default off
	Grace     time.Duration // between cancelling the context and calling the step stray; default 10 s
	Skippable bool          // a person may skip it without force
	NoReturn  bool          // once done, undo is refused

	Wait *WaitFor // waits for time, signal or condition; beside Do or Uses: limits of their waits

	Steps    []Step // body of a group, a loop or a bracket; the branches of Parallel
	Parallel int    // > 0: Steps are branches that run side by side, at most so many
	ForEach  *Loop
	Open     *Step // bracket: runs before Steps, and again when a run resumes into them
	Close    *Step // bracket: runs when Steps are done, when the run pauses inside, and on cancel

	Flow            string                     // name of the flow a child run executes
	FlowSubject     func(View) (string, error) // nil: the subject and place of the parent
	FlowSubjectText string                     // the expression, for the content hash

	Reads     []string // names of steps whose outputs its expressions read; guards skip
	Output    Schema   // checked when the step sets its output
	MaxOutput int      // bytes; default 64 KiB, at most 256 KiB
	Secrets   map[string]SecretRef
	Params    func(View) (json.RawMessage, error) // of a group use: what `params` is within its Steps
}

// Call names an action and its parameters.
type Call struct {
	Uses    string
	With    json.RawMessage
	Resolve func(View) (json.RawMessage, error)
}

// Action is a ready-made piece of work that steps use by name.
type Action struct {
	Name        string
	Description string
	With        Schema // of Step.With; nil: any
	Do          Func   // reads its parameters by Task.With
}

// Schema checks a JSON value. flowfile implements it with JSON Schema.
type Schema interface {
	Check(value json.RawMessage) error
	MarshalJSON() ([]byte, error)
}

// Defaulter is a Schema that fills in defaults. A flow's Input that is one does
// so at Start, for sub-flows, healers and machines alike.
type Defaulter interface {
	Default(value json.RawMessage) (json.RawMessage, error)
}

// Retry is the policy of failed attempts (workflow.md 2.3).
type Retry struct {
	Attempts int           // failures in a row until the run pauses; default 10
	First    time.Duration // delay before the second attempt; default 1 s
	Factor   float64       // default 2
	Longest  time.Duration // default 1 m
	Jitter   float64       // uniform share; default 0.2, negative: none
	Not      []fault.Code  // codes that pause at once
}

// WaitFor is what a step waits for, and how long (workflow.md 2.6).
type WaitFor struct {
	For           time.Duration
	Until         func(View) (time.Time, error)
	UntilText     string
	Signal        string // its payload becomes the output
	Schema        Schema // of the payload
	Condition     func(View) (bool, error)
	ConditionText string
	Every         time.Duration // look at the condition so often; 0: when the subject changes and on each signal
	Deadline      time.Duration // longest wait from its start, kept over restarts; 0: none
	OnTimeout     OnTimeout     // default TimeoutFail (WAIT_EXPIRED)
}

// Loop runs the body once per item. The list is evaluated once and stored.
type Loop struct {
	List     func(View) ([]json.RawMessage, error)
	ListText string
	As       string                     // name of the item within the body; default "item"
	Key      func(View) (string, error) // sees the item; unique, [A-Za-z0-9_.:-]{1,63}; nil: the index
	KeyText  string
	Max      int // iterations at once; default 1
}

// Then is what happens when a flow's deadline ends.
type Then string

// The values of Flow.OnDeadline.
const (
	ThenPause  Then = "pause"
	ThenCancel Then = "cancel"
	ThenUndo   Then = "undo"
)

// Change is what a run does whose definition differs from the loaded one (workflow.md 2.10).
type Change string

// The values of Flow.OnChange.
const (
	ChangeFinish  Change = "finish"
	ChangeMigrate Change = "migrate"
	ChangePause   Change = "pause"
)

// OnTimeout is what happens when a wait's deadline ends.
type OnTimeout string

// The values of WaitFor.OnTimeout.
const (
	TimeoutFail     OnTimeout = "fail"
	TimeoutContinue OnTimeout = "continue"
	TimeoutUndo     OnTimeout = "undo"
)

// Migration maps the position of runs of an older definition to this one.
type Migration struct {
	From   string            // content hash of the old definition
	Rename map[string]string // old instance name to new
	Drop   []string          // old instance names that are no more
	Insert map[string]string // new step before the position: "done" or "run"
}

// Retention says which finished runs are kept: a run goes when it is older
// than Age and not among the newest Keep of its subject, or beyond Most of it.
type Retention struct {
	Age  time.Duration // default 30 days
	Keep int           // default 20
	Max  int           // default 1,000
}

// SecretRef names a secret; its value is never stored.
type SecretRef struct {
	Name string `json:"name"`
	Key  string `json:"key,omitempty"`
}

// Secrets resolves references when an attempt starts.
type Secrets interface {
	Secret(ctx context.Context, ref SecretRef) (string, error)
}
