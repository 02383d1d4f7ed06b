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
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/fault"
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
	Retention        Retention                                                          // of flows without a Retention of their own
	Archive          func(*Run, []Event) error                                          // called before a finished run is removed
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

// Hook receives saved events. It cannot fail, delay or change a run.
type Hook struct {
	Name    string
	OnEvent func(RunInfo, Event)
}

// Healer tries to remove the cause of a fault and then resumes the run. It is a function (Do) or a
// flow that runs as a child (Flow).
type Healer struct {
	Do     Func
	Flow   string
	From   From // where the healed run resumes; default FromFailed
	Undo   bool // cancel with undo instead of resuming
	Limits Limits
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
	Actor     Actor
}

// Engine executes the runs of a store. It is safe for concurrent use.
type Engine struct {
	store   Store
	options Options
	log     *slog.Logger
	actions map[string]Action
	slots   *slots
	hooks   []*hookQueue

	attemptCtx     context.Context // parent of the contexts of all attempts; its cause is ErrDraining or ErrLeaseLost
	cancelAttempts context.CancelCauseFunc
	saveCtx        context.Context // context of saves; ends when Serve returns
	cancelSaves    context.CancelFunc

	mu        sync.Mutex
	flows     map[flowKey]*plan
	healers   map[fault.Code]Healer
	stored    map[string]*plan // older definitions that runs still use, by hash
	known     map[string]bool  // hashes of the definitions that the store has
	drivers   map[string]*driver
	waiters   map[string]map[chan struct{}]struct{} // callers of Await, by the id of the run
	parks     map[string]time.Time                  // parked runs, which have an owner but no driver: time of their next poll
	parkAt    time.Time                             // earliest time in parks
	serving   bool
	advancing int    // calls of Advance that have not returned
	stopLease func() // stops the lease renewal for them
	active    sync.WaitGroup
	claimWake chan struct{} // wakes the claim loop
	health    error

	lease    lease
	renewing ctxMutex     // held while the lease is renewed
	defining ctxMutex     // held while a definition is stored
	awaited  atomic.Int64 // number of calls of Await that have not returned
	draining atomic.Bool
	stuck    atomic.Int64 // drivers that retry a save
}

// New creates an engine. It reports all errors of all flows at once.
func New(store Store, flows []Flow, options Options) (*Engine, error) {
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
		store: store, options: o, log: o.Logger, actions: map[string]Action{},
		healers: options.Healers, stored: map[string]*plan{}, known: map[string]bool{}, drivers: map[string]*driver{}, parks: map[string]time.Time{},
		claimWake: make(chan struct{}, 1), lease: lease{duration: o.Lease}, renewing: newCtxMutex(), defining: newCtxMutex(),
	}
	var errs []error
	for _, a := range o.Actions {
		if _, twice := e.actions[a.Name]; twice {
			errs = append(errs, fmt.Errorf("the action %q is registered twice", a.Name))
		}
		e.actions[a.Name] = a
	}
	e.slots = newSlots(o.Attempts, o.PerLabel, e.limitOf)
	e.begin()
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

// Load replaces the loaded flows, or changes nothing if one of them is invalid.
func (e *Engine) Load(flows []Flow) error { return e.LoadAll(flows, e.Healers()) }

// Healers returns the loaded healers by the code of their fault. The caller must not change the
// map.
func (e *Engine) Healers() map[fault.Code]Healer {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.healers
}

// LoadAll replaces the flows and the healers, or changes nothing if one of them is invalid. A
// healing that is under way ends with the healer that it began with.
func (e *Engine) LoadAll(flows []Flow, healers map[fault.Code]Healer) error {
	plans := make(map[flowKey]*plan, len(flows))
	var errs []error
	for i := range flows {
		p, err := compile(&flows[i], e.actions, false)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		key := keyOf(flows[i])
		if plans[key] != nil {
			errs = append(errs, FlowInvalid.Errorf("two flows are named %s", key))
		}
		plans[key] = p
	}
	errs = append(errs, checkChildren(plans)...)
	for code, h := range healers {
		if h.Do == nil && plans[flowKey{name: h.Flow}] == nil {
			errs = append(errs, FlowInvalid.Errorf("the healer of %s uses the flow %q, which is not loaded", code, h.Flow))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flows, e.healers = plans, healers
	clear(e.stored) // they hold functions of the flows that were just replaced
	return nil
}

// checkChildren reports sub-flows that are not loaded, nested too deeply, or cyclic.
func checkChildren(plans map[flowKey]*plan) []error {
	var errs []error
	uses := func(p *plan) []string {
		var names []string
		for _, path := range slices.Sorted(maps.Keys(p.nodes)) {
			if n := p.nodes[path]; n.step.Flow != "" {
				names = append(names, n.step.Flow)
			}
		}
		return names
	}
	for _, key := range sortedKeys(plans) {
		name := key.String()
		var visit func(flow string, path []string) bool
		visit = func(flow string, path []string) bool {
			p := planFor(plans, flow, key.kind)
			if slices.Contains(path, flow) {
				errs = append(errs, FlowInvalid.Errorf("%s: its sub-flows form a cycle: %s", name, strings.Join(append(path, flow), " > ")))
				return false
			}
			if p == nil {
				errs = append(errs, FlowInvalid.Errorf("%s: the sub-flow %q is not loaded", path[len(path)-1], flow))
				return false
			}
			if len(path) > maxChildDepth {
				errs = append(errs, FlowInvalid.Errorf("%s: sub-flows are nested deeper than %d", name, maxChildDepth))
				return false
			}
			for _, child := range uses(p) {
				if !visit(child, append(slices.Clone(path), flow)) {
					return false
				}
			}
			return true
		}
		visit(key.name, nil)
	}
	return errs
}

// Flows returns the loaded flows, ordered by name. Of the flows with one name, the flow for all
// kinds of subjects comes first.
func (e *Engine) Flows() []Flow {
	e.mu.Lock()
	defer e.mu.Unlock()
	var flows []Flow
	for _, key := range sortedKeys(e.flows) {
		flows = append(flows, *e.flows[key].flow)
	}
	return flows
}

// Store returns the store of the engine.
func (e *Engine) Store() Store { return e.store }

// Worker is the name under which this engine owns runs.
func (e *Engine) Worker() string { return e.options.Worker }

// Start stores a run and returns when it is durable. If a run with this id exists, Start returns
// that run; if its input differs, Start fails with INPUT_INVALID.
func (e *Engine) Start(ctx context.Context, req Request) (*Run, error) {
	if req.RequestID == "" {
		req.RequestID = newID()
	}
	return e.create(ctx, req, func(*Run) {})
}

// startChild stores the run of a sub-flow or of a healer that is a flow.
func (e *Engine) startChild(ctx context.Context, req Request, parent *Run, step string, inline bool) (*Run, error) {
	return e.create(ctx, req, func(r *Run) {
		r.Parent, r.ParentRef, r.Depth, r.Inline = parent.ID, step, parent.Depth+1, inline
	})
}

func (e *Engine) create(ctx context.Context, req Request, edit func(*Run)) (*Run, error) {
	p := e.loadedPlan(req.Flow, req.Subject)
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
	if err := e.define(ctx, p); err != nil {
		return nil, err
	}
	at := now()
	r := &Run{
		ID: RunID(req.Subject, req.Flow, req.RequestID), Flow: req.Flow, Version: p.flow.Version, Hash: p.hash, Subject: req.Subject,
		Labels: req.Labels, RequestID: req.RequestID, Actor: req.Actor.Name, Reason: req.Actor.Reason, Input: input,
		Phase: Running, CreatedAt: at, NextAt: at, Seq: 1,
	}
	edit(r)
	claimed := e.claimOnCreate(r)
	if claimer, ok := e.store.(Claimer); ok && claimed {
		_, _ = e.renewLease(ctx, claimer) // if this fails, the driver renews the lease before its first attempt
	}
	sentAt := instantNow()
	got, err := e.store.Create(ctx, r, []Event{{Run: r.ID, Seq: 1, At: at, Kind: RunCreated, Actor: req.Actor.Name, Message: req.Actor.Reason}})
	if err != nil {
		if claimed { // the store may have created it, claimed by this worker
			e.claimAt(r.ID, time.Now().Add(time.Second))
		}
		return nil, err
	}
	fresh := got.CreatedAt.Equal(at) && got.Revision <= 1
	if !fresh && !sameJSON(got.Input, input) {
		return nil, InputInvalid.Errorf("run %s of this request exists with another input", got.ID)
	}
	if fresh {
		e.publish(got, []Event{{Run: r.ID, Seq: 1, At: at, Kind: RunCreated, Actor: req.Actor.Name, Message: req.Actor.Reason}})
		if claimed && got.Owner == e.options.Worker && got.Phase == Running {
			mine := *got
			e.launch(Loaded{Run: &mine, leaseTerm: e.lease.termOf(sentAt)})
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
			return nil, InputInvalid.Errorf("the input of %s: %w", flow.Name, err)
		}
		input = filled
	}
	var b bytes.Buffer
	if err := json.Compact(&b, input); err != nil {
		return nil, InputInvalid.Errorf("the input is not valid JSON: %w", err)
	}
	if b.Len() > MaxInput {
		return nil, InputInvalid.Errorf("the input has %d bytes, the limit is %d", b.Len(), MaxInput)
	}
	if flow.Input != nil {
		if err := flow.Input.Check(b.Bytes()); err != nil {
			return nil, InputInvalid.Errorf("the input of %s: %w", flow.Name, err)
		}
	}
	return b.Bytes(), nil
}

func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := Decode(a)
	y, errY := Decode(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// Get loads a run by its id or by a unique prefix of the id. RUN_NOT_FOUND.
func (e *Engine) Get(ctx context.Context, id string) (*Run, error) {
	l, err := e.Find(ctx, id)
	return l.Run, err
}

// Find is Get that also returns the unread signals of the run. SendRequest and Post take its
// result.
func (e *Engine) Find(ctx context.Context, id string) (Loaded, error) {
	r, mail, err := e.store.Load(ctx, id)
	if err == nil {
		return Loaded{Run: r, Signals: mail}, nil
	}
	lister, ok := e.store.(Lister)
	if !errors.Is(err, ErrNotFound) || !ok || len(id) >= fullIDLen || id == "" {
		return Loaded{}, runError(id, err)
	}
	head, err := oneRun(ctx, lister, id)
	if err != nil {
		return Loaded{}, err
	}
	if r, mail, err = e.store.Load(ctx, head.ID); err != nil {
		return Loaded{}, runError(id, err)
	}
	return Loaded{Run: r, Signals: mail}, nil
}

// Head finds a run as Get does, but loads only the record of the current step.
func (e *Engine) Head(ctx context.Context, id string) (*Run, error) {
	lister, ok := e.store.(Lister)
	if !ok || id == "" {
		return e.Get(ctx, id)
	}
	if len(id) < fullIDLen {
		return oneRun(ctx, lister, id)
	}
	runs, _, err := lister.List(ctx, Query{IDs: []string{id}, Limit: 1})
	if err == nil && len(runs) == 0 {
		err = RunNotFound.Errorf("no run has the id %s", id)
	}
	if err != nil {
		return nil, err
	}
	return runs[0], nil
}

// fullIDLen is the length of a complete run id. Anything shorter is a prefix.
const fullIDLen = 26

// oneRun finds the only run whose id has this prefix.
func oneRun(ctx context.Context, lister Lister, id string) (*Run, error) {
	runs, _, err := lister.List(ctx, Query{Prefix: id, Limit: 2})
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
	case errors.Is(err, ErrNotFound):
		return RunNotFound.Errorf("no run has the id %s", id)
	case errors.Is(err, ErrFinal):
		return RunFinished.Errorf("run %s has ended", id)
	}
	return err
}

const maxName = 1024 // bytes of a subject, a request id or a label

// checkNames refuses names that a store cannot keep or that a person cannot read.
func checkNames(req Request) error {
	if req.Subject == "" {
		return InputInvalid.Errorf("the request names no subject (kind/namespace/name)")
	}
	names := []string{req.Subject, req.RequestID}
	for key, value := range req.Labels {
		if key == "" {
			return InputInvalid.Errorf("a label has no name")
		}
		names = append(names, key, value)
	}
	for _, name := range names {
		if !validName(name) {
			return InputInvalid.Errorf("%.40q is not a valid name: at most %d bytes of UTF-8 without control characters", name, maxName)
		}
	}
	return nil
}

func validName(name string) bool {
	return len(name) <= maxName && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}
