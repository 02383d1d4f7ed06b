package workflow

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Func is the work of a step. The engine may call it again with the same Task.Key until its outcome
// is saved.
type Func func(context.Context, *Task) outcome.Outcome

// Flow is the definition of a durable procedure: steps in order.
type Flow struct {
	Name                 string
	Kind                 string // kind of the subjects (their first part); such a flow wins over one of the same name without a kind; empty: all subjects
	Version              int
	Description          string
	Input                Schema // nil: any JSON
	RecoverFromFirstStep bool   // resume starts at the first step instead of the failed step
	Steps                []Step
	Result               func(View) (json.RawMessage, error) // computes Run.Result of a run that succeeded; nil: no result
	ResultText           string                              // source text of Result, part of the content hash
	Finally              []Step                              // run after Steps, and after a cancel with undo or drop
	Deadline             time.Duration                       // measured from the first opened step, without the time in phase Paused; 0: none
	OnDeadline           Then                                // default ThenPause
	OnChange             Change                              // what happens to runs of an older definition; default ChangeFinish
	Migrations           []Migration
	Limit                int                // concurrent attempts of this flow per worker; 0: only the limit of the worker
	Limits               []RunLimit         // of how many runs run at once, in all workers; a run starts when all of them allow it
	Retention            *runtype.Retention // nil: Options.Retention
	Source               []byte             // the expanded definition that a loader compiled; empty for flows written in Go
}

// Step is one part of a flow. Exactly one of these fields decides its kind: Do; Uses (a registered
// Action); Wait alone; Flow (a child run); Steps (a group, or with Parallel, ForEach, Open and
// Close a structure).
type Step struct {
	Name        string // [A-Za-z][A-Za-z0-9_.-]{0,62}, unique among its siblings
	Description string

	Do   Func
	Undo Func // undoes the step; nil: there is nothing to undo

	Uses     string                              // name of a registered action
	With     json.RawMessage                     // its parameters, or the input of the child flow
	Resolve  func(View) (json.RawMessage, error) // computes With for each attempt, if With contains expressions
	UndoCall *Call                               // an action in place of Undo

	When     func(View) (bool, error) // false: the step is Skipped
	WhenText string                   // source text of When, for records, plans and the content hash

	Retry     Retry
	Timeout   time.Duration // per attempt; default 15 m
	Heartbeat time.Duration // longest time without a sign of life; 0: not checked
	Grace     time.Duration // time between the cancellation of the context and the moment the attempt counts as abandoned; default 10 s
	Skippable bool          // a person may skip it without force
	NoReturn  bool          // a run in which this step is done cannot be undone

	Wait *WaitFor // waits for a time, a signal or a condition; with Do or Uses: the limits of their waits

	Steps    []Step // body of a group, a loop or a bracket; the branches of Parallel
	Parallel int    // > 0: Steps are branches; at most this number of them runs at the same time
	ForEach  *Loop
	Open     *Step // bracket: runs before Steps, and again when a run resumes into them
	Close    *Step // bracket: runs when Steps are done, when the run pauses inside, and on cancel

	Flow            string                     // name of the flow a child run executes
	FlowSubject     func(View) (string, error) // nil: the child has the subject of the parent and shares its slot
	FlowSubjectText string                     // source text of FlowSubject, for the content hash

	Limits    []StepLimit // of an action: limits that each attempt takes, undo and polls included
	Reads     []string    // names of the steps whose outputs the expressions read; these steps cannot be skipped without an output
	Output    Schema      // checked when the step is done
	MaxOutput int         // bytes; default 64 KiB, at most 256 KiB
	Secrets   map[string]SecretRef
	Params    func(View) (json.RawMessage, error) // for the use of a group: the value of `params` within Steps
}

// Call names an action and its parameters.
type Call struct {
	Uses    string
	With    json.RawMessage
	Resolve func(View) (json.RawMessage, error)
}

// Action is a reusable function that steps call by its name.
type Action struct {
	Name        string
	Description string
	With        Schema // schema of Step.With; nil: any value
	Do          Func   // reads its parameters with Task.With
}

// Schema checks a JSON value. flowfile implements it with JSON Schema.
type Schema interface {
	Check(value json.RawMessage) error
	MarshalJSON() ([]byte, error)
}

// Defaulter is a Schema that can fill in defaults. If the Input of a flow is a Defaulter, the
// engine fills in the defaults of every new run, child runs included.
type Defaulter interface {
	Default(value json.RawMessage) (json.RawMessage, error)
}

// Retry is the policy for failed attempts.
type Retry struct {
	Attempts int           // consecutive failures until the run pauses; default 10
	First    time.Duration // delay before the second attempt; default 1 s
	Factor   float64       // each delay is Factor times the previous one; default 2
	Longest  time.Duration // longest delay; default 1 m
	Jitter   float64       // random share of the delay, up or down; default 0.2; negative: none
	Not      []fault.Code  // fault codes that are not retried
}

// WaitFor is the event that a step waits for, and the limits of the wait.
type WaitFor struct {
	For           time.Duration
	Until         func(View) (time.Time, error)
	UntilText     string
	Signal        string // name of a signal; its payload becomes the output
	Schema        Schema // schema of the payload
	Condition     func(View) (bool, error)
	ConditionText string
	Every         time.Duration // interval of the checks of Condition; 0: only when the subject changes and on each signal
	Deadline      time.Duration // longest time of the wait, restarts included; 0: no limit
	OnTimeout     OnTimeout     // default TimeoutFail (WAIT_EXPIRED)
}

// Loop runs the body once per item. The engine evaluates the list once and stores it.
type Loop struct {
	List     func(View) ([]json.RawMessage, error)
	ListText string
	As       string                     // name of the item within the body; default "item"
	Key      func(View) (string, error) // unique key of the item, [A-Za-z0-9_.:-]{1,63}; nil: the index
	KeyText  string
	Max      int // concurrent iterations; default 1
}

// Then says what happens to a run when the deadline of its flow ends.
type Then string

// The values of Flow.OnDeadline.
const (
	ThenPause  Then = "pause"
	ThenCancel Then = "cancel"
	ThenUndo   Then = "undo"
)

// Change says what happens to a run whose definition differs from the loaded one.
type Change string

// The values of Flow.OnChange.
const (
	ChangeFinish  Change = "finish"
	ChangeMigrate Change = "migrate"
	ChangePause   Change = "pause"
)

// OnTimeout says what happens to a step when the deadline of its wait ends.
type OnTimeout string

// The values of WaitFor.OnTimeout.
const (
	TimeoutFail     OnTimeout = "fail"
	TimeoutContinue OnTimeout = "continue"
	TimeoutUndo     OnTimeout = "undo"
)

// Migration maps the position of a run of an older definition to the new definition.
type Migration struct {
	From   string            // content hash of the old definition
	Rename map[string]string // old instance name to new
	Drop   []string          // instance names that the new definition does not have
	Insert map[string]string // for each new step before the position: "done" or "run"
}

// SecretRef names a secret. The engine never stores the value.
type SecretRef struct {
	Name string `json:"name"`
	Key  string `json:"key,omitempty"`
}

// Secrets resolves references to secrets for an attempt.
type Secrets interface {
	Secret(ctx context.Context, ref SecretRef) (string, error)
}
