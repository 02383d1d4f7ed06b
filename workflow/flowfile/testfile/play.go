package testfile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/runtype"
	"github.com/pawl-dev/pawl/workflow/workflowtest"
)

// NotReplaced is the fault of an action that a test would execute for real.
var NotReplaced = fault.Declare(fault.Kind{
	Code: "ACTION_NOT_REPLACED", Class: fault.Invalid,
	Title:  "a test would execute an action for real",
	Remedy: "Replace the action or the step under actions of the case, or allow the action with real: [NAME]. Then run `pawl test PATH` again.",
})

// realLimit is the time by the clock on the wall that a real action may take.
const realLimit = time.Minute

// Result is the result of a case.
type Result struct {
	File     string            `json:"file"`
	Line     int               `json:"line"`
	Case     string            `json:"case"`
	OK       bool              `json:"ok"`
	Seconds  float64           `json:"seconds"`
	Crashes  int               `json:"crashes,omitempty"` // plays with a crash
	Problems flowfile.Problems `json:"problems,omitempty"`
}

// Run executes a case of the suite.
func (s *Suite) Run(c *Case) Result {
	began := time.Now()
	r := Result{File: s.File, Line: c.Line, Case: c.Name}
	if c.crash == "everywhere" {
		r.Crashes = workflowtest.Explore(func(crash *workflowtest.Crash) bool {
			found := s.play(c, crash)
			r.Problems = append(r.Problems, found...)
			return len(found) == 0
		})
	} else {
		r.Problems = s.play(c, nil)
	}
	r.OK, r.Seconds = len(r.Problems) == 0, time.Since(began).Seconds()
	return r
}

// stopped is the panic of Fatalf.
type stopped struct{}

// record is the workflowtest.TB of a play. Each failure has the position of what is checked.
type record struct {
	suite    *Suite
	at       *yaml.Node
	play     string
	found    flowfile.Problems
	cleanups []func()
}

// Helper implements workflowtest.TB.
func (r *record) Helper() {}

// Cleanup implements workflowtest.TB.
func (r *record) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

// Errorf implements workflowtest.TB.
func (r *record) Errorf(format string, args ...any) {
	text := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	if r.play != "" {
		text = r.play + ": " + text
	}
	r.found = append(r.found, r.suite.problem(r.at, "%s", text))
}

// Fatalf implements workflowtest.TB.
func (r *record) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(stopped{})
}

// play executes a case once, in a bubble of its own.
func (s *Suite) play(c *Case, crash *workflowtest.Crash) flowfile.Problems {
	r := &record{suite: s, at: c.at}
	if crash != nil && crash.String() != (&workflowtest.Crash{}).String() {
		r.play = crash.String()
	}
	over := make(chan struct{}) // made outside of the bubble: who waits for it holds virtual time
	timer := time.AfterFunc(realLimit, func() { close(over) })
	defer timer.Stop()
	defer func() {
		if p := recover(); p != nil { // goroutines of an action are left in the bubble
			r.Errorf("%v", p)
		}
	}()
	synctest.Test(new(testing.T), func(*testing.T) { r.guard(func() { s.inBubble(c, r, crash, over) }) })
	return r.found
}

func (r *record) guard(do func()) {
	defer func() {
		for _, f := range slices.Backward(r.cleanups) {
			f()
		}
		if p := recover(); p != nil && p != (stopped{}) {
			r.Errorf("%v", p)
		}
	}()
	do()
}

func (s *Suite) inBubble(c *Case, r *record, crash *workflowtest.Crash, over <-chan struct{}) {
	o := workflowtest.Options{Flows: s.flows.Flows(), Crash: crash, Engine: workflow.Options{
		Actions: s.actions(c, over), Healers: s.flows.Healers(), Secrets: secrets(c.secrets),
	}}
	if c.object != nil {
		o.Engine.Object = func(context.Context, string) (json.RawMessage, error) { return c.object, nil }
	}
	env := workflowtest.New(r, o)
	for _, one := range slices.Backward(c.actions) { // those of the case win over those of the file
		r.at = one.key
		if slices.Contains(s.used, one.key.Value) {
			env.ReplaceAction(one.key.Value, one.do)
		} else {
			env.Replace(one.key.Value, one.do)
		}
	}
	r.at = c.at
	subject := c.subject
	if subject == "" {
		subject = "test/default/subject"
	}
	run := env.Start(workflow.Request{Flow: s.flowName(c), Subject: subject, Input: c.input, Labels: c.labels})
	run.Settle()
	for _, q := range c.requests {
		r.at = q.at
		q.carryOut(env, run, r)
	}
	x := c.expect
	if x == nil {
		x = &expectation{}
	}
	r.at = c.at
	x.compare(run, r, runtype.Succeeded)
}

func (q request) carryOut(env *workflowtest.Env, run *workflowtest.Run, r *record) {
	if q.step != "" {
		loaded := run.Load()
		rec := loaded.Step(q.step)
		if rec == nil || rec.Phase != runtype.StepWaiting && rec.Phase != runtype.StepFailed {
			r.Fatalf("the run is %s, want it at rest at %s", workflowtest.Describe(loaded), q.step)
		}
	}
	switch q.verb {
	case "signal":
		run.Signal(q.name, q.payload)
	case "pause":
		run.Pause()
	case "resume":
		run.Resume(workflow.From(q.name))
	case "cancel":
		run.Cancel(runtype.Mode(q.name))
	case "skip":
		var output any
		if q.payload != nil {
			output = q.payload
		}
		run.Skip(q.name, output)
	case "pass":
		env.Pass(q.pass)
		run.Settle()
	}
	if q.expect != nil {
		q.expect.compare(run, r, "")
	}
}

// compare reports what is not as expected. preset is the phase if the expectation names none.
func (x *expectation) compare(run *workflowtest.Run, r *record, preset runtype.Phase) {
	mark := func(key string) {
		if n := x.nodes[key]; n != nil {
			r.at = n
		}
	}
	phase := runtype.Phase(x.phase)
	if phase == "" && x.waiting == "" {
		phase = preset
	}
	switch loaded := run.Load(); {
	case x.fault != "":
		mark("fault")
		if f := loaded.Fault; f == nil || string(f.Code) != x.fault || x.step != "" && f.Step != x.step || loaded.Phase != phase {
			r.Errorf("the run is %s, want %s by %s%s", workflowtest.Describe(loaded), phase, x.fault, in(x.step))
		}
	case phase != "":
		mark("phase")
		run.WantPhase(phase)
	}
	if x.waiting != "" {
		mark("waiting")
		run.WantWaiting(x.waiting)
	}
	if x.result != nil {
		mark("result")
		run.WantResult(x.result)
	}
	for _, o := range x.outputs {
		r.at = o.key
		run.WantOutput(o.key.Value, o.value)
	}
	for _, w := range x.with {
		r.at = w.key
		var got json.RawMessage
		if !run.With(w.key.Value, &got) {
			r.Errorf("the action of %s was not called", w.key.Value)
		} else if !workflowtest.SameJSON(got, w.value) {
			r.Errorf("the parameters of %s are %s, want %s", w.key.Value, got, w.value)
		}
	}
	for _, n := range x.tries {
		r.at = n.key
		if got := fmt.Sprint(run.Tries(n.key.Value)); got != string(n.value) {
			r.Errorf("%s was tried %s times, want %s", n.key.Value, got, n.value)
		}
	}
	for key, want := range map[string][]string{"done": x.done, "undone": x.undone, "skipped": x.skipped} {
		if want == nil {
			continue
		}
		mark(key)
		switch key {
		case "done":
			run.WantOrder(want...)
		case "undone":
			run.WantUndone(want...)
		case "skipped":
			run.WantSkipped(want...)
		}
	}
}

func in(step string) string {
	if step == "" {
		return ""
	}
	return " in " + step
}

// do replaces the function: the n-th entry counts for the n-th try, the last one for all others.
func (r replacement) do(_ context.Context, t *workflow.Task, n int) outcome.Outcome {
	one := r.tries[min(n, len(r.tries))-1]
	switch {
	case one.fault != "":
		kind, ok := fault.Lookup(one.fault)
		if !ok {
			kind = fault.Unknown
		}
		message := one.message
		if message == "" {
			message = kind.Title
		}
		return outcome.Fail(kind.Errorf("%s", message))
	case one.output != nil:
		return outcome.Fail(t.Set(one.output))
	}
	return outcome.Done()
}

// actions are those of the flows: the waits and the allowed ones as they are, the others refuse.
func (s *Suite) actions(c *Case, over <-chan struct{}) []workflow.Action {
	var all []workflow.Action
	for _, name := range s.used {
		a := workflow.Action{Name: name}
		if i := slices.IndexFunc(s.options.Actions, func(a workflow.Action) bool { return a.Name == name }); i >= 0 {
			a = s.options.Actions[i]
		}
		switch {
		case a.Do != nil && slices.Contains(waits, name):
		case a.Do != nil && slices.Contains(c.real, name):
			a.Do = limited(a.Do, over)
		default:
			a.Do = func(_ context.Context, t *workflow.Task) outcome.Outcome {
				return outcome.Fail(NotReplaced.Errorf("the case neither replaces the action %s of step %s nor allows it: add it to actions, or add real: [%s]", name, t.Step(), name))
			}
		}
		all = append(all, a)
	}
	return all
}

// limited ends the context of an action when its time on the wall is over. Virtual time rests while a
// process runs, so the timeout of the step cannot.
func limited(do workflow.Func, over <-chan struct{}) workflow.Func {
	return func(ctx context.Context, t *workflow.Task) outcome.Outcome {
		ctx, cancel := context.WithCancelCause(ctx)
		ended := make(chan struct{})
		go func() {
			select {
			case <-over:
				cancel(fmt.Errorf("a real action of a test takes longer than %s", realLimit))
			case <-ended:
			}
		}()
		defer close(ended)
		return do(ctx, t)
	}
}

// secrets are those of a case by their name; the key of a reference is ignored.
type secrets map[string]string

// Secret implements workflow.Secrets.
func (s secrets) Secret(_ context.Context, ref workflow.SecretRef) (string, error) {
	if value, ok := s[ref.Name]; ok {
		return value, nil
	}
	return "", fmt.Errorf("the case has no secret %q: add it to its secrets", ref.Name)
}
