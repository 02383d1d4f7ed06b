package flowfile

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// callLog records the parameters of the calls of the action Do.
type callLog struct {
	sync.Mutex
	lines []string
}

func (l *callLog) action() workflow.Action {
	return workflow.Action{Name: "Do", Do: func(_ context.Context, t *workflow.Task) outcome.Outcome {
		var with any
		if err := t.With(&with); err != nil {
			return outcome.Fail(err)
		}
		l.Lock()
		l.lines = append(l.lines, t.Step()+" "+string(canonical(with)))
		l.Unlock()
		if err := t.Set(map[string]any{"of": t.Step()}); err != nil {
			return outcome.Fail(err)
		}
		return outcome.Done()
	}}
}

const exampleFlow = `
flowName: World
input: {type: object, properties: {readers: {type: array, default: [{id: ro-1, cpu: 1}, {id: ro-2, cpu: 2}]}}}
steps:
- {stepName: First, uses: Do, with: {run: "${run.flow} ${run.subject}"}}
- stepName: before
  uses: Pair
  with: {name: "${steps.First.output.of}!"}
- stepName: Replace
  forEach: {list: input.readers, as: ro, key: ro.id, max: 1}
  steps:
  - {stepName: Create, uses: Do, with: {cpu: "${ro.cpu}"}}
  - {stepName: Check, uses: Do, with: {created: "${steps.Create.output.of}"}, when: ro.cpu > 1}
- stepName: Grouped
  forEach: {list: input.readers, as: ro, key: ro.id}
  uses: Pair
  with: {name: "${ro.id}"}
- stepName: Single
  forEach: {list: "[1, 2]", as: n}
  uses: Do
  with: {n: "${n}"}
- stepName: Guard
  bracket: {open: {uses: Do}, close: {uses: Do, stepName: shut}}
  steps:
  - {stepName: Body, uses: Do, with: {open: "${steps.open.output.of}"}}
- stepName: Side
  parallel: {max: 1, branches: [{name: A, steps: [{stepName: X, uses: Do}]}, {name: B, steps: [{stepName: X, uses: Do}]}]}
- {stepName: Last, uses: Do, with: {x: "${steps['Side/A/X'].output.of}", y: "${steps['Replace[ro-2]/Check'].output.of}", skipped: "${steps['Replace[ro-1]/Check'].phase}"}}
finally:
- {stepName: End, uses: Do, with: {last: "${steps.Last.phase}"}}
`

const pair = `
groupName: Pair
params: [{name: name, type: string, required: true}, {name: more, default: [7]}]
steps:
- {stepName: Left, uses: Do, with: {name: "${params.name}"}}
- {stepName: Nested, uses: Inner, with: {value: "${params.name} ${params.more[0]}"}}
- {stepName: Right, uses: Do, with: {left: "${steps.Left.output.of}", when: "${params.more}"}}
`

const inner = `
groupName: Inner
params: [{name: value}]
steps:
- {stepName: Do, uses: Do, with: {value: "${params.value}"}}
`

var exampleWant = []string{
	`First {"run":"World demo/default/c1"}`,
	`before/Left {"name":"First!"}`,
	`before/Nested/Do {"value":"First! 7"}`,
	`before/Right {"left":"before/Left","when":[7]}`,
	`Replace[ro-1]/Create {"cpu":1}`,
	`Replace[ro-2]/Create {"cpu":2}`,
	`Replace[ro-2]/Check {"created":"Replace[ro-2]/Create"}`,
	`Grouped[ro-1]/Left {"name":"ro-1"}`,
	`Grouped[ro-1]/Nested/Do {"value":"ro-1 7"}`,
	`Grouped[ro-1]/Right {"left":"Grouped[ro-1]/Left","when":[7]}`,
	`Grouped[ro-2]/Left {"name":"ro-2"}`,
	`Grouped[ro-2]/Nested/Do {"value":"ro-2 7"}`,
	`Grouped[ro-2]/Right {"left":"Grouped[ro-2]/Left","when":[7]}`,
	`Single[0] {"n":1}`,
	`Single[1] {"n":2}`,
	`Guard/open null`,
	`Guard/Body {"open":"Guard/open"}`,
	`Guard/shut null`,
	`Side/A/X null`,
	`Side/B/X null`,
	`Last {"skipped":"Skipped","x":"Side/A/X","y":"Replace[ro-2]/Check"}`,
	`End {"last":"Done"}`,
}

// run executes a flow to its end on the memory store.
func run(t *testing.T, flow workflow.Flow, options workflow.Options) *runtype.Run {
	t.Helper()
	engine, err := workflow.New(runstore.NewMemory(), []workflow.Flow{flow}, options)
	if err != nil {
		t.Fatal(err)
	}
	input, err := Defaults(flow, nil)
	if err != nil {
		t.Fatal(err)
	}
	run, err := engine.Start(t.Context(), workflow.Request{Flow: flow.Name, Subject: "demo/default/c1", RequestID: "1", Input: input})
	if err != nil {
		t.Fatal(err)
	}
	if out := engine.Advance(t.Context(), run.ID); !out.IsDone() {
		t.Fatalf("the run ends with %v", out)
	}
	if run, err = engine.Get(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	return run
}

func TestEngineRunsWhatIsLoaded(t *testing.T) {
	var calls callLog
	set, err := Parse([]File{{"world.yaml", []byte(exampleFlow)}, {"pair_step_group.yaml", []byte(pair)}, {"inner_step_group.yaml", []byte(inner)}},
		Options{Actions: []workflow.Action{calls.action()}, Check: true})
	if err != nil {
		t.Fatal(err)
	}
	flow, _ := set.Flow("World")
	for _, again := range []bool{false, true} {
		if again { // the same with the stored definition
			if flow, err = FromSource(flow.Source, Options{}); err != nil {
				t.Fatal(err)
			}
			calls.lines = nil
		}
		done := run(t, flow, workflow.Options{Actions: []workflow.Action{calls.action()}})
		if done.Phase != runtype.Succeeded {
			t.Errorf("phase %s", done.Phase)
		}
		if diff := cmp.Diff(exampleWant, calls.lines); diff != "" {
			t.Errorf("from source %t:\n%s", again, diff)
		}
	}
}

func TestInstanceNamesAreThoseOfTheEngine(t *testing.T) {
	var calls callLog
	set, err := Parse([]File{{"world.yaml", []byte(exampleFlow)}, {"pair_step_group.yaml", []byte(pair)}, {"inner_step_group.yaml", []byte(inner)}},
		Options{Actions: []workflow.Action{calls.action()}, Check: true})
	if err != nil {
		t.Fatal(err)
	}
	flow, _ := set.Flow("World")
	done := run(t, flow, workflow.Options{Actions: []workflow.Action{calls.action()}})
	var known []string
	for _, line := range append(instances(flow.Steps, ""), instances(flow.Finally, "")...) {
		name, _, _ := strings.Cut(line, ":")
		known = append(known, strings.ReplaceAll(name, "[]", ""))
	}
	for s := range done.Steps() {
		name := s.Name
		for _, key := range []string{"[ro-1]", "[ro-2]", "[0]", "[1]"} {
			name = strings.ReplaceAll(name, key, "")
		}
		if !slices.Contains(known, name) {
			t.Errorf("the run has a step %s that the file does not name", s.Name)
		}
	}
	if out := done.Step("Last").Output; !json.Valid(out) {
		t.Errorf("output %s", out)
	}
}

// TestEngineFacets: an undo reads its own step, a child gets its input and subject, a condition
// reads the object, the payload of a signal is checked.
func TestEngineFacets(t *testing.T) {
	var calls callLog
	set, err := Parse([]File{{"parent.yaml", []byte(`
flowName: Parent
steps:
- {stepName: Create, uses: Do, with: {n: 1}, undo: {uses: Do, with: {was: "${steps.Create.output.of}"}}}
- {stepName: Ready, wait: {condition: object.ready && input.go, deadline: 1h}}
- {stepName: Child, flow: {name: Child, subject: "demo/default/${input.other}"}, with: {size: "${input.size}"}}
- {stepName: Word, wait: {signal: word, deadline: 1h, schema: {type: object, required: [text]}}}
- {stepName: Say, uses: Do, with: {text: "${steps.Word.output.text}"}}
- {stepName: Hold, wait: {signal: never, deadline: 1h}}
`)}, {"child.yaml", []byte("flowName: Child\ninput: {type: object, required: [size], properties: {size: {type: integer}}}\nsteps: [{stepName: Inner, uses: Do, with: {double: \"${input.size * 2}\", subject: \"${run.subject}\"}}]")}},
		Options{Actions: []workflow.Action{calls.action()}, Check: true})
	if err != nil {
		t.Fatal(err)
	}
	store := runstore.NewMemory()
	engine, err := workflow.New(store, set.Flows(), workflow.Options{Actions: []workflow.Action{calls.action()},
		Object: func(context.Context, string) (json.RawMessage, error) { return json.RawMessage(`{"ready": true}`), nil }})
	if err != nil {
		t.Fatal(err)
	}
	run, err := engine.Start(t.Context(), workflow.Request{Flow: "Parent", Subject: "demo/default/c1", RequestID: "1", Input: json.RawMessage(`{"go": true, "other": "c2", "size": 21}`)})
	if err != nil {
		t.Fatal(err)
	}
	advance := func() {
		t.Helper()
		if out := engine.Advance(t.Context(), run.ID); !out.IsWait() {
			t.Fatalf("%v", out)
		}
	}
	advance()
	children, _, err := store.List(t.Context(), runstore.Query{Parent: run.ID})
	if err != nil || len(children) != 1 || children[0].Subject != "demo/default/c2" {
		t.Fatalf("children %+v, %v", children, err)
	}
	if out := engine.Advance(t.Context(), children[0].ID); !out.IsDone() {
		t.Fatalf("child: %v", out)
	}
	if err := engine.Send(t.Context(), run.ID, runtype.Signal{ID: "1", Name: "word", Payload: json.RawMessage(`{"text": "hi"}`)}); err != nil {
		t.Fatal(err)
	}
	advance()
	if err := engine.Cancel(t.Context(), run.ID, runtype.Undo, false, workflow.Actor{Name: "eve"}); err != nil {
		t.Fatal(err)
	}
	engine.Advance(t.Context(), run.ID)
	want := []string{`Create {"n":1}`, `Inner {"double":42,"subject":"demo/default/c2"}`, `Say {"text":"hi"}`, `Create {"was":"Create"}`}
	if diff := cmp.Diff(want, calls.lines); diff != "" {
		t.Error(diff)
	}
	if run, err = engine.Get(t.Context(), run.ID); err != nil || run.Phase != runtype.Cancelled {
		t.Errorf("%v, %v", run.Phase, err)
	}
}
