package workflowtest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// TB is the part of [testing.TB] that the kit uses.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Options of an environment. The zero value has no flows.
type Options struct {
	Flows   []workflow.Flow
	Engine  workflow.Options // of the engine: actions, healers, secrets, …; a nil Logger discards, and the kit sets Worker, Lease and PollInterval
	Subject string           // of runs that Run starts; default test/default/subject
	Crash   *Crash           // of EveryCrash and Explore; nil: none
	Polls   int              // how often steps may be called without a save until the run counts as stuck; default 10,000
}

// Env executes the flows of a test in a bubble of testing/synctest. Its methods end the test with
// Fatalf when a call cannot be carried out.
type Env struct {
	t        TB
	options  Options
	memory   *runstore.Memory
	store    *dyingStore // of the first process
	replaced *replacements
	names    []string // of steps that execute a function
	stop     context.CancelFunc
	closed   sync.WaitGroup
	changed  chan struct{} // a run was saved, or the worker restarted

	mu        sync.Mutex
	engine    *workflow.Engine
	restarted chan struct{} // closed when the second process serves; nil: there will be none
	requests  int
	runs      []*Run
}

// New starts a worker for the flows; it stops when the test ends. The caller is in a bubble of
// testing/synctest: there, time moves on when all wait.
func New(t TB, options Options) *Env {
	t.Helper()
	if !inBubble() {
		t.Fatalf("workflowtest.New is called outside of a bubble: wrap the test in synctest.Test(t, func(t *testing.T) { … }), or use EveryCrash")
	}
	if options.Subject == "" {
		options.Subject = "test/default/subject"
	}
	if options.Polls <= 0 {
		options.Polls = 10_000
	}
	if options.Engine.Logger == nil {
		options.Engine.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Env{t: t, options: options, memory: runstore.NewMemory(), replaced: newReplacements(options.Polls), changed: make(chan struct{}, 1)}
	if c := options.Crash; c != nil && c.got != nil {
		t.Fatalf("the play makes a second engine: a crash is for one")
	}
	e.store = newDyingStore(e.memory, options.Crash)
	e.replaced.tired = e.wake
	for _, f := range options.Flows {
		e.names = append(e.names, StepNames(f)...)
	}
	var ctx context.Context
	ctx, e.stop = context.WithCancel(context.Background())
	e.serve(ctx)
	t.Cleanup(e.close)
	return e
}

// inBubble reports whether synctest.Wait is allowed.
func inBubble() (inside bool) {
	defer func() { inside = recover() == nil }()
	synctest.Wait()
	return
}

// lease is long, so that virtual time is cheap; after a crash the kit releases it.
const lease = 24 * time.Hour

func (e *Env) open(store runstore.Store, worker string) *workflow.Engine {
	o := e.options.Engine
	o.Worker, o.Lease, o.PollInterval = worker, lease, lease
	if o.Drain <= 0 {
		o.Drain = time.Second // a process that has met its crash saves nothing
	}
	o.Actions = e.replaced.wrapActions(o.Actions)
	o.Hooks = append(slices.Clone(o.Hooks), workflow.Hook{Name: "workflowtest", OnEvent: func(workflow.RunInfo, runtype.Event) {
		e.replaced.saved()
		e.wake()
	}})
	engine, err := workflow.New(store, e.replaced.flows(e.options.Flows), o)
	if err != nil {
		e.t.Fatalf("the flows are not valid: %v", err)
	}
	return engine
}

// serve starts the worker, and a second one when the first has met its crash.
func (e *Env) serve(ctx context.Context) {
	const first, second = "first", "second"
	engine := e.open(e.store, first)
	next := engine
	if c := e.options.Crash; c != nil && c.at > 0 {
		next = e.open(e.memory, second)
		e.restarted = make(chan struct{})
	}
	e.engine = engine
	own, kill := context.WithCancel(ctx)
	served := make(chan struct{})
	e.closed.Go(func() { defer close(served); _ = engine.Serve(own) })
	e.closed.Go(func() {
		defer kill()
		select {
		case <-ctx.Done():
			return
		case <-e.store.died:
		}
		kill()
		<-served
		_ = e.memory.Release(context.Background(), first) // as if its lease had expired
		e.mu.Lock()
		e.engine = next
		e.mu.Unlock()
		e.closed.Go(func() { _ = next.Serve(ctx) })
		close(e.restarted)
		e.wake()
	})
	synctest.Wait()
}

// restarting reports whether the first process has met its crash and the second one does not serve yet.
func (e *Env) restarting() bool {
	if e.restarted == nil || !e.store.crashed() {
		return false
	}
	select {
	case <-e.restarted:
		return false
	default:
		return true
	}
}

func (e *Env) wake() {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

func (e *Env) close() {
	e.t.Helper()
	c := e.options.Crash
	if c != nil {
		e.compare(c)
	}
	e.stop()
	e.closed.Wait()
}

func (e *Env) compare(c *Crash) {
	e.t.Helper()
	e.mu.Lock()
	started := slices.Clone(e.runs)
	e.mu.Unlock()
	var runs []*runtype.Run
	for _, r := range started {
		if loaded, _, err := e.memory.Load(context.Background(), r.id); err == nil {
			runs = append(runs, loaded)
		}
	}
	c.got, c.writes = endingOf(runs, e.replaced.done), e.store.written()
	if c.calm == nil {
		return
	}
	if different := c.calm.differences(c.got); len(different) > 0 {
		e.t.Errorf("the flow ends otherwise after a %s (%s):\n    %s", c, c.saved, strings.Join(different, "\n    "))
	}
}

// Engine returns the engine that serves now. After a crash it is another one, and a call that meets
// the crash fails; the calls of Env and Run are repeated.
func (e *Env) Engine() *workflow.Engine {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.engine
}

// Store returns the store of the runs.
func (e *Env) Store() *runstore.Memory { return e.memory }

// ask carries a request out, and repeats it if the process has died meanwhile.
func (e *Env) ask(do func(*workflow.Engine, string) error) error {
	e.mu.Lock()
	e.requests++
	id := fmt.Sprintf("request-%d", e.requests)
	e.mu.Unlock()
	engine := e.Engine()
	err := do(engine, id)
	if err == nil || e.restarted == nil || !e.store.crashed() {
		return err
	}
	<-e.restarted
	return do(e.Engine(), id)
}

// Run starts a run of a flow for [Options.Subject] and returns it when it is at rest.
func (e *Env) Run(flow string, input any) *Run {
	e.t.Helper()
	r := e.Start(workflow.Request{Flow: flow, Subject: e.options.Subject, Input: e.encode(input)})
	r.Settle()
	return r
}

// Start starts a run and does not wait. A Request without an id gets one.
func (e *Env) Start(request workflow.Request) *Run {
	e.t.Helper()
	var started *runtype.Run
	err := e.ask(func(engine *workflow.Engine, id string) (err error) {
		if request.RequestID == "" {
			request.RequestID = id
		}
		started, err = engine.Start(context.Background(), request)
		return err
	})
	if err != nil {
		e.t.Fatalf("the run of %s does not start: %v", request.Flow, err)
	}
	r := &Run{env: e, id: started.ID}
	e.mu.Lock()
	e.runs = append(e.runs, r)
	e.mu.Unlock()
	return r
}

// Pass lets time pass, and returns when nothing is left to do at its end.
func (e *Env) Pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Replace puts a function in the place of that of a step, or of its undo (Volume/undo). The name of a
// step inside of others begins with theirs: Replace/Create for every item of a loop, or
// Replace[ro-2]/Create for one.
func (e *Env) Replace(step string, f Func) {
	e.t.Helper()
	if !slices.Contains(e.names, WithoutItems(step)) {
		e.t.Fatalf("no step %q executes a function%s", step, similar(step, e.names))
	}
	e.replaced.mu.Lock()
	defer e.replaced.mu.Unlock()
	e.replaced.steps[step] = f
}

// ReplaceAction puts a function in the place of an action, in all steps that Replace does not name.
func (e *Env) ReplaceAction(action string, f Func) {
	e.t.Helper()
	if !slices.ContainsFunc(e.options.Engine.Actions, func(a workflow.Action) bool { return a.Name == action }) {
		e.t.Fatalf("no action is named %q: add it to Options.Engine.Actions", action)
	}
	e.replaced.mu.Lock()
	defer e.replaced.mu.Unlock()
	e.replaced.actions[action] = f
}

// Restore ends the effect of Replace, Fault and Output for a step.
func (e *Env) Restore(step string) {
	e.replaced.mu.Lock()
	defer e.replaced.mu.Unlock()
	delete(e.replaced.steps, step)
}

// Fault makes a step fail: in the numbered tries, from 1, or in every try until Restore. The function
// of the step is called in the other tries only. See [Func] for what counts as a try.
func (e *Env) Fault(step string, err error, tries ...int) {
	e.t.Helper()
	e.Replace(step, func(ctx context.Context, t *workflow.Task, try int) outcome.Outcome {
		if len(tries) == 0 || slices.Contains(tries, try) {
			return outcome.Fail(err)
		}
		return Real(ctx, t)
	})
}

// Output makes a step succeed with this output, without a call of its function.
func (e *Env) Output(step string, output any) {
	e.t.Helper()
	e.Replace(step, func(_ context.Context, t *workflow.Task, _ int) outcome.Outcome { return outcome.Fail(t.Set(output)) })
}

func (e *Env) encode(value any) json.RawMessage {
	e.t.Helper()
	if value == nil {
		return nil
	}
	if raw, ok := value.(json.RawMessage); ok {
		return raw
	}
	data, err := json.Marshal(value)
	if err != nil {
		e.t.Fatalf("%T is no JSON: %v", value, err)
	}
	return data
}
