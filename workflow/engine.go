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
// A run is a checkpoint: its position, and one record and one output per step. Two functions
// without side effects decide everything: decide finds the attempts to open, apply stores the
// outcome of an attempt in the run. A worker calls them in a loop:
//
//	claim ─▶ decide ─▶ save the attempt ─▶ act ─▶ apply ─▶ decide ─▶ save …
//	                                                         └─▶ release: waiting, paused, ended
package workflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/internal/lease"
	"github.com/pawl-dev/pawl/workflow/internal/slots"
	"github.com/pawl-dev/pawl/workflow/internal/steplog"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Options of an engine. The zero value is usable.
type Options struct {
	Worker           string                                                             // name of the owner of runs; default: host, process id and start time
	Attempts         int                                                                // attempts that run at the same time in this worker; default 64
	PerLabel         LabelLimit                                                         // limit of concurrent attempts of one tenant
	Lease            time.Duration                                                      // duration of the lease of this worker; it is renewed after a third of that time; default 15 s
	Drain            time.Duration                                                      // time for open attempts to end after the context of Serve has ended; default 25 s
	Actions          []Action                                                           // actions that steps may use by name
	Secrets          Secrets                                                            // resolves secrets; nil: steps that read a secret fail
	Healers          map[fault.Code]Healer                                              // by the code of the fault that they remove
	Hooks            []Hook                                                             // receive saved events
	Retention        runtype.Retention                                                  // of flows without a Retention of their own
	Archive          func(*runtype.Run, []runtype.Event) error                          // called before a finished run is removed
	Logger           *slog.Logger                                                       // default slog.Default()
	Object           func(ctx context.Context, subject string) (json.RawMessage, error) // reads a subject for conditions of waits; nil: null
	Compile          func(source []byte) (Flow, error)                                  // compiles the Source of a stored definition
	PollInterval     time.Duration                                                      // interval of the claims that need no wake-up; default 30 s
	IsolationTime    time.Duration                                                      // after a crash, the suspected steps run one at a time; time for all their turns together; default 10 s
	ProgressInterval time.Duration                                                      // shortest time between two stores of progress; default 5 s
	Exhausted        *fault.Kind                                                        // fault of a run whose step has used up its attempts; default: the kind of its last failure
}

// LabelLimit limits the concurrent attempts of all runs that have the same value of a label.
type LabelLimit struct {
	Label string
	Max   int
}

// Hook receives saved events, and lines that were printed. It cannot fail, delay or change a run.
type Hook struct {
	Name    string
	OnEvent func(RunInfo, runtype.Event) // nil: it wants none
	// OnPrinted receives what attempts have printed, as the store has taken it: a store that keeps no logs calls it
	// never. nil: it wants none.
	OnPrinted func(PrintedLines)
}

// PrintedLines are lines that follow each other in the log of one attempt. Secrets are redacted.
type PrintedLines struct {
	Run     string
	Step    string // instance name; of a healer heal:CODE
	Attempt int
	Undo    bool // the attempt takes the step back
	Lines   []runstore.LogLine
}

// Healer tries to remove the cause of a fault and then resumes the run. It is a function (Do) or a
// flow that runs as a child (Flow).
type Healer struct {
	Do         Func
	Flow       string
	From       From // where the healed run resumes; default FromFailed
	Undo       bool // cancel with undo instead of resuming
	Limits     Limits
	StepLimits []StepLimit // that each call of Do takes; the steps of Flow have their own
}

// Limits of a healer per run.
type Limits struct {
	Attempts int           // attempts of the healer; default 3
	First    time.Duration // delay before the second attempt; default 10 s
	Longest  time.Duration // longest delay between attempts; default 10 m
	Within   time.Duration // time for all attempts; default 24 h
}

// Request is the input of Start.
type Request struct {
	Flow      string
	Subject   string
	RequestID string // the same subject, flow and id identify one run; empty: a new id
	Input     json.RawMessage
	Labels    map[string]string
	Priority  int // among the runs that wait for the same limit, from -1000 to 1000; higher first; one point is worth a minute of waiting
	Actor     Actor
}

// Engine executes the runs of a store. It is safe for concurrent use.
type Engine struct {
	store   runstore.Store
	options Options
	log     *slog.Logger
	catalog *catalog
	slots   *slots.Pool
	hooks   []*hookQueue
	logs    *steplog.Writer // nil: the store keeps no logs

	attemptCtx     context.Context // parent of the contexts of all attempts; its cause is ErrDraining or ErrLeaseLost
	cancelAttempts context.CancelCauseFunc
	saveCtx        context.Context // context of saves; ends when Serve returns
	cancelSaves    context.CancelFunc

	mu        sync.Mutex
	drivers   map[string]*driver
	parks     map[string]time.Time // parked runs, which have an owner but no driver: time of their next poll
	parkAt    time.Time            // earliest time in parks
	serving   bool
	advancing int    // calls of Advance that have not returned
	stopLease func() // stops the lease renewal for them
	active    sync.WaitGroup
	claimWake chan struct{} // wakes the claim loop

	health   storeHealth
	awaiting awaiting // callers of Await
	printing awaiting // callers of Printed
	lease    lease.Lease
	renewing lease.Mutex // held while the lease is renewed
	draining atomic.Bool
}

// New creates an engine. It reports all errors of all flows at once.
func New(store runstore.Store, flows []Flow, options Options) (*Engine, error) {
	o := options
	if o.Worker == "" {
		o.Worker = workerName()
	}
	if o.Attempts <= 0 {
		o.Attempts = 64
	}
	if o.Lease <= 0 {
		o.Lease = 15 * time.Second
	}
	if o.Drain <= 0 {
		o.Drain = 25 * time.Second
	}
	if o.PollInterval <= 0 {
		o.PollInterval = 30 * time.Second
	}
	if o.IsolationTime <= 0 {
		o.IsolationTime = 10 * time.Second
	}
	if o.ProgressInterval <= 0 {
		o.ProgressInterval = 5 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	e := &Engine{
		store: store, options: o, log: o.Logger,
		catalog: &catalog{
			store: store, actions: map[string]Action{}, compile: o.Compile, defining: lease.NewMutex(),
			healers: options.Healers, stored: map[string]*plan{}, known: map[string]bool{},
		},
		drivers: map[string]*driver{}, parks: map[string]time.Time{},
		claimWake: make(chan struct{}, 1), lease: lease.Lease{Duration: o.Lease}, renewing: lease.NewMutex(),
	}
	e.health.log, e.health.recovered = o.Logger, e.server().wakeClaimLoop
	var errs []error
	for _, a := range o.Actions {
		if _, twice := e.catalog.actions[a.Name]; twice {
			errs = append(errs, fmt.Errorf("the action %q is registered twice", a.Name))
		}
		e.catalog.actions[a.Name] = a
	}
	e.slots = slots.New(o.Attempts, o.PerLabel.Max, e.catalog.limitOf)
	e.begin()
	if store, ok := store.(runstore.Logs); ok {
		e.logs = steplog.NewWriter(store, o.Logger, e.writeContext, e.publishPrinted)
	}
	for _, h := range o.Hooks {
		e.hooks = append(e.hooks, newHookQueue(h))
	}
	if err := e.Load(flows); err != nil {
		errs = append(errs, err)
	}
	return e, errors.Join(errs...)
}

func (e *Engine) begin() {
	e.attemptCtx, e.cancelAttempts = context.WithCancelCause(context.Background())
	e.saveCtx, e.cancelSaves = context.WithCancel(context.Background())
}

// writeContext is the context of the writes that begin now.
func (e *Engine) writeContext() context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.saveCtx
}

// Load replaces the loaded flows, or changes nothing if one of them is invalid.
func (e *Engine) Load(flows []Flow) error { return e.LoadAll(flows, e.Healers()) }

// Healers returns the loaded healers by the code of their fault. The caller must not change the
// map.
func (e *Engine) Healers() map[fault.Code]Healer { return e.catalog.loadedHealers() }

// LoadAll replaces the flows and the healers, or changes nothing if one of them is invalid. A
// healing that is under way ends with the healer that it began with.
func (e *Engine) LoadAll(flows []Flow, healers map[fault.Code]Healer) error {
	return e.catalog.load(flows, healers)
}

// Flows returns the loaded flows, ordered by name. Of the flows with one name, the flow for all
// kinds of subjects comes first.
func (e *Engine) Flows() []Flow { return e.catalog.loadedFlows() }

// Store returns the store of the engine.
func (e *Engine) Store() runstore.Store { return e.store }

// Worker is the name under which this engine owns runs.
func (e *Engine) Worker() string { return e.options.Worker }

// Start stores a run and returns when it is durable. If a run with this id exists, Start returns
// that run; if its input differs, Start fails with INPUT_INVALID.
func (e *Engine) Start(ctx context.Context, req Request) (*runtype.Run, error) {
	if req.RequestID == "" {
		req.RequestID = newID()
	}
	return e.create(ctx, req, func(*runtype.Run) {})
}

// startChild stores the run of a sub-flow or of a healer that is a flow.
func (e *Engine) startChild(ctx context.Context, req Request, parent *runtype.Run, step string, inline bool) (*runtype.Run, error) {
	return e.create(ctx, req, func(r *runtype.Run) {
		r.Parent, r.ParentRef, r.Depth, r.Inline = parent.ID, step, parent.Depth+1, inline
	})
}

func (e *Engine) create(ctx context.Context, req Request, edit func(*runtype.Run)) (*runtype.Run, error) {
	p := e.catalog.loadedPlan(req.Flow, req.Subject)
	if p == nil {
		return nil, FlowUnknown.Errorf("no flow %q is loaded", req.Flow)
	}
	input, err := checkInput(p.flow, req.Input)
	if err != nil {
		return nil, err
	}
	if err := checkNames(req); err != nil {
		return nil, err
	}
	if req.Priority < -runtype.MaxPriority || req.Priority > runtype.MaxPriority {
		return nil, PriorityInvalid.Errorf("the priority is %d", req.Priority)
	}
	if err := e.catalog.define(ctx, p); err != nil {
		return nil, err
	}
	at := now()
	r := &runtype.Run{
		ID: RunID(req.Subject, req.Flow, req.RequestID), Flow: req.Flow, Version: p.flow.Version, Hash: p.hash, Subject: req.Subject,
		Labels: req.Labels, RequestID: req.RequestID, Actor: req.Actor.Name, Reason: req.Actor.Reason, Input: input,
		Priority: req.Priority, Phase: runtype.Running, CreatedAt: at, NextAt: at, Seq: 1,
	}
	edit(r)
	if err := e.limit(ctx, p.flow, p.limited, r); err != nil {
		return nil, err
	}
	claimed := e.server().claimOnCreate(r)
	if claimer, ok := e.store.(runstore.Claimer); ok && claimed {
		_, _ = e.leases().renewLease(ctx, claimer) // if this fails, the driver renews the lease before its first attempt
	}
	sentAt := lease.Now()
	got, err := e.store.Create(ctx, r, []runtype.Event{{Run: r.ID, Seq: 1, At: at, Kind: runtype.RunCreated, Actor: req.Actor.Name, Message: req.Actor.Reason}})
	if err != nil {
		if claimed { // the store may have created it, claimed by this worker
			e.server().claimAt(r.ID, time.Now().Add(time.Second))
		}
		return nil, err
	}
	fresh := got.CreatedAt.Equal(at) && got.Revision <= 1
	if !fresh && !sameJSON(got.Input, input) {
		return nil, runtype.InputInvalid.Errorf("run %s of this request exists with another input", got.ID)
	}
	if fresh {
		e.publish(got, []runtype.Event{{Run: r.ID, Seq: 1, At: at, Kind: runtype.RunCreated, Actor: req.Actor.Name, Message: req.Actor.Reason}})
		if claimed && got.Owner == e.options.Worker && got.Phase == runtype.Running {
			mine := *got
			e.server().launch(runstore.Loaded{Run: &mine}, e.lease.TermOf(sentAt))
		}
	}
	return got, nil
}

// checkInput checks the input against the schema of the flow and against the size limit.
func checkInput(flow *Flow, input json.RawMessage) (json.RawMessage, error) {
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	if d, ok := flow.Input.(Defaulter); ok && json.Valid(input) {
		filled, err := d.Default(input)
		if err != nil {
			return nil, runtype.InputInvalid.Errorf("the input of %s: %w", flow.Name, err)
		}
		input = filled
	}
	var b bytes.Buffer
	if err := json.Compact(&b, input); err != nil {
		return nil, runtype.InputInvalid.Errorf("the input is not valid JSON: %w", err)
	}
	if b.Len() > runtype.MaxInput {
		return nil, runtype.InputInvalid.Errorf("the input has %d bytes, the limit is %d", b.Len(), runtype.MaxInput)
	}
	if flow.Input != nil {
		if err := flow.Input.Check(b.Bytes()); err != nil {
			return nil, runtype.InputInvalid.Errorf("the input of %s: %w", flow.Name, err)
		}
	}
	return b.Bytes(), nil
}

func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := runtype.Decode(a)
	y, errY := runtype.Decode(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// Get loads a run by its id or by a unique prefix of the id. RUN_NOT_FOUND.
func (e *Engine) Get(ctx context.Context, id string) (*runtype.Run, error) {
	l, err := e.Find(ctx, id)
	return l.Run, err
}

// Find is Get that also returns the unread signals of the run. SendRequest and Post take its
// result.
func (e *Engine) Find(ctx context.Context, id string) (runstore.Loaded, error) {
	r, mail, err := e.store.Load(ctx, id)
	if err == nil {
		return runstore.Loaded{Run: r, Signals: mail}, nil
	}
	lister, ok := e.store.(runstore.Lister)
	if !errors.Is(err, runstore.ErrNotFound) || !ok || len(id) >= runtype.IDLength || id == "" {
		return runstore.Loaded{}, runError(id, err)
	}
	head, err := oneRun(ctx, lister, id)
	if err != nil {
		return runstore.Loaded{}, err
	}
	if r, mail, err = e.store.Load(ctx, head.ID); err != nil {
		return runstore.Loaded{}, runError(id, err)
	}
	return runstore.Loaded{Run: r, Signals: mail}, nil
}

// Head finds a run as Get does, but loads only the record of the current step.
func (e *Engine) Head(ctx context.Context, id string) (*runtype.Run, error) {
	lister, ok := e.store.(runstore.Lister)
	if !ok || id == "" {
		return e.Get(ctx, id)
	}
	if len(id) < runtype.IDLength {
		return oneRun(ctx, lister, id)
	}
	runs, _, err := lister.List(ctx, runstore.Query{IDs: []string{id}, Limit: 1})
	if err == nil && len(runs) == 0 {
		err = RunNotFound.Errorf("no run has the id %s", id)
	}
	if err != nil {
		return nil, err
	}
	return runs[0], nil
}

// oneRun finds the only run whose id has this prefix.
func oneRun(ctx context.Context, lister runstore.Lister, id string) (*runtype.Run, error) {
	runs, _, err := lister.List(ctx, runstore.Query{Prefix: id, Limit: 2})
	switch {
	case err != nil:
		return nil, err
	case len(runs) == 0:
		return nil, RunNotFound.Errorf("no run has the id %s", id)
	case len(runs) > 1:
		return nil, RunNotFound.Errorf("more than one run has an id that begins with %s: use a longer prefix", id)
	}
	return runs[0], nil
}

func runError(id string, err error) error {
	switch {
	case errors.Is(err, runstore.ErrNotFound):
		return RunNotFound.Errorf("no run has the id %s", id)
	case errors.Is(err, runstore.ErrFinal):
		return RunFinished.Errorf("run %s has ended", id)
	}
	return err
}

const maxName = 1024 // bytes of a subject, a request id or a label

// checkNames refuses names that a store cannot keep or that a person cannot read.
func checkNames(req Request) error {
	if req.Subject == "" {
		return runtype.InputInvalid.Errorf("the request names no subject (kind/namespace/name)")
	}
	names := []string{req.Subject, req.RequestID}
	for key, value := range req.Labels {
		if key == "" {
			return runtype.InputInvalid.Errorf("a label has no name")
		}
		names = append(names, key, value)
	}
	for _, name := range names {
		if !validName(name) {
			return runtype.InputInvalid.Errorf("%.40q is not a valid name: at most %d bytes of UTF-8 without control characters", name, maxName)
		}
	}
	return nil
}

func validName(name string) bool {
	return len(name) <= maxName && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}
