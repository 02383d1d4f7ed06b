package machinefile_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/machine/machinefile"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

func parse(t testing.TB, source string, options machinefile.Options) (machine.Standalone, error) {
	t.Helper()
	machines, err := machinefile.Parse([]flowfile.File{{Name: "m.yaml", Data: []byte(source)}}, options)
	if err != nil {
		return machine.Standalone{}, err
	}
	return machines[0], nil
}

func TestErrorsAreAllReportedWithTheirPlace(t *testing.T) {
	for name, c := range map[string]struct{ source, want string }{
		"empty":      {"", "m.yaml:1:1: the file is empty"},
		"yaml":       {"machine: [", "m.yaml:1:1: not valid YAML"},
		"flow style": {"machine: m\nany:\n- {when: a ? b}", "m.yaml:2:1: not valid YAML: did not find expected ',' or '}': within {…}, quote"},
		"a list":     {"- a", "m.yaml:1:1: a machine file must be a mapping, not a list\nm.yaml:1:1: machine is missing\nm.yaml:1:1: kind is missing\nm.yaml:1:1: states is missing"},
		"alias":      {"machine: &a m\nkind: *a", "m.yaml:2:7: YAML aliases are refused"},
		"tag":        {"machine: !mine m\nkind: a", "m.yaml:1:10: the YAML tag !mine is refused"},
		"merge key":  {"<<: {machine: m}\nkind: a", "m.yaml:1:1: YAML merge keys are refused"},
		"documents":  {"machine: m\n---\nmachine: n", "m.yaml:2:1: a second document"},
		"keys": {"machine: m\nkind: k\ninitail: A\nkind: k\nstates: {A: {then: }}", `m.yaml:3:1: unknown key "initail" (did you mean initial?)
m.yaml:4:1: key "kind" is repeated (first in line 2)
m.yaml:5:20: then is empty`},
		"kinds of values": {"machine: [m]\nkind: k\ninitial: A\nany: {}\nstates: {A: {on: [], rests: yes please}}", `m.yaml:1:10: machine must be a string, not a list
m.yaml:4:6: any must be a list, not a mapping
m.yaml:5:18: on is empty`},
		"states": {"machine: m\nkind: k/k\ninitial: Aa\nstates:\n  A: {}\n  A: {}", `m.yaml:2:7: kind "k/k"
m.yaml:3:10: initial: unknown state "Aa" (did you mean A?)
m.yaml:6:3: duplicate state "A" (first in line 5)`},
		"table": {"machine: m\nkind: k\ninitial: A\nstates:\n  A:\n    on:\n    - {event: e, to: Bb}\n    - {event: e, to: B, when: 'true', ends: kill}\n  B: {flow: Nope, then: A, else: A}\n  C: {}", `m.yaml:7:7: states.A.on.0.when: it has no condition
m.yaml:7:22: states.A.on.0.to: unknown state "Bb" (did you mean B?)
m.yaml:8:15: states.A.on.1.event: duplicate event "e"
m.yaml:8:45: states.A.on.1.ends: "kill" is neither drop nor undo
m.yaml:9:13: states.B.flow: unknown flow "Nope"`},
		"unreachable": {"machine: m\nkind: k\ninitial: A\nstates:\n  A: {}\n  C: {}", "m.yaml:6:3: states.C: unreachable"},
		"expressions": {"machine: m\nkind: k\ninitial: A\nstates:\n  A:\n    on:\n    - {event: e, to: B, when: object.spec.a &&, params: {x: objekt.a}}\n    - {event: f, to: B, when: 'object.spec.a + 1 > 2 ? 1 : 2'}\n    - {event: g, to: B, when: [a]}\n  B: {}", `m.yaml:7:47: when: the expression ends too early
m.yaml:7:61: params: undeclared reference to 'objekt'
m.yaml:8:31: when: it returns int, not bool
m.yaml:9:31: when must be an expression, not a list`},
		"actions": {"machine: m\nkind: k\ninitial: A\nstates:\n  A: {on: [{event: e, to: B}]}\n  B: {action: sleeep, then: A, else: A}\n  C: {with: {for: 1s}}\n  D: {action: sleep, flow: F, then: A, else: A}", `m.yaml:6:15: unknown action "sleeep"
m.yaml:7:13: with belongs to an action
m.yaml:8:15: a state has an action or a flow, not both`},
		"parameters": {"machine: m\nkind: k\ninitial: A\nstates:\n  A: {on: [{event: e, to: B}]}\n  B: {action: sleep, with: {fro: 1s}, then: A, else: A}", `m.yaml:6:28: `},
		"observe": {"machine: m\nkind: k\ninitial: A\nobserve:\n- {name: o, uses: sleep, with: {for: 1s}, every: 10ms, in: [A, Bb, B, C]}\n- {name: o, uses: sleep, with: {for: 1s}}\n- {every: 1}\nstates:\n  A: {on: [{event: e, to: B}]}\n  B: {action: sleep, with: {for: 1s}, then: C, else: A}\n  C: {}", `m.yaml:5:50: every must be at least 1s, not 10ms
m.yaml:5:64: unknown state "Bb"
m.yaml:5:68: B works
m.yaml:5:71: C is final
m.yaml:6:10: duplicate observation "o"
m.yaml:7:3: name is missing
m.yaml:7:3: uses is missing
m.yaml:7:11: every must be a duration`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, c.source, machinefile.Options{Actions: actions(t)})
			var found flowfile.Problems
			if !errors.As(err, &found) {
				t.Fatalf("error %v", err)
			}
			want := strings.Split(c.want, "\n")
			for _, line := range want {
				if !strings.Contains("\n"+err.Error(), "\n"+line) {
					t.Errorf("missing: %s", line)
				}
			}
			if len(found) < len(want) {
				t.Errorf("only %d problems", len(found))
			}
			if t.Failed() {
				t.Logf("found:\n%v", err)
			}
		})
	}
}

func TestTwoMachinesOfOneKind(t *testing.T) {
	const source = "machine: m\nkind: k\ninitial: A\nstates: {A: {}}"
	_, err := machinefile.Parse([]flowfile.File{{Name: "a.yaml", Data: []byte(source)}, {Name: "b.yaml", Data: []byte(source)}}, machinefile.Options{})
	if err == nil || !strings.Contains(err.Error(), `b.yaml:2:7: kind "k" is also that of a.yaml`) || !strings.Contains(err.Error(), `b.yaml:1:10: machine "m"`) {
		t.Fatalf("error %v", err)
	}
}

func TestLoadTakesMachinesOfAFolder(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string]string{
		"m.yaml": "# a machine\nmachine: m\nkind: k\ninitial: A\nstates: {A: {}}", "flow.yaml": "flowName: f\nsteps: []", "x.txt": "machine: x",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	machines, err := machinefile.Load([]string{dir}, machinefile.Options{})
	if err != nil || len(machines) != 1 || machines[0].Table.Name != "m" || machines[0].File != filepath.Join(dir, "m.yaml") {
		t.Fatalf("%v %v", machines, err)
	}
	if _, err := machinefile.Load([]string{filepath.Join(dir, "none")}, machinefile.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

const variables = `
machine: m
kind: k
initial: A
states:
  A:
    on:
    - {event: grew, to: B, when: object.spec.size > old.spec.size, params: {size: object.spec.size, was: old.spec.size, kept: 3, list: ["object.metadata.name"]}}
    - {event: late, to: B, when: now - object.metadata.createdAt > duration('1h'), params: "{'at': now, 'text': 'x', 'f': 1.5, 'none': null}"}
    - {event: marked, to: B, when: object.metadata.deleting}
    - {event: bad, to: B, when: object.spec.missing == 1}
  B: {action: exec, with: {command: [echo, "${input.size}"]}, retry: {attempts: 2}, timeout: 1m, then: A, else: A}
`

func TestVariables(t *testing.T) {
	m, err := parse(t, variables, machinefile.Options{Actions: actions(t)})
	if err != nil {
		t.Fatal(err)
	}
	if !m.Old || !m.Clock {
		t.Errorf("old %t, clock %t", m.Old, m.Clock)
	}
	at := time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	object := func(size string, deleting bool) control.Object {
		o := control.Object{Ref: control.Ref{Kind: "k", Namespace: "default", Name: "c1"}, Generation: 4, CreatedAt: at,
			Spec: json.RawMessage(`{"size": ` + size + `, "missing": 0}`), Status: json.RawMessage(`{"has": 1, "machine": {"visit": 3}, "conditions": []}`)}
		if deleting {
			o.DeletionMark = at
		}
		return o
	}
	for name, c := range map[string]struct {
		subject      *machine.Subject
		event, input string
	}{
		"nothing is old at first": {&machine.Subject{Object: object("2", false), Now: at}, "", ""},
		"grew": {&machine.Subject{Object: object("12345678901234567", false), Old: json.RawMessage(`{"spec": {"size": 2}}`), Now: at}, "grew",
			`{"kept":3,"list":["c1"],"size":12345678901234567,"was":2}`},
		"late": {&machine.Subject{Object: object("2", false), Now: at.Add(2 * time.Hour)}, "late", `{"at":"2025-01-02T05:04:05Z","f":1.5,"none":null,"text":"x"}`},
		"marked": {&machine.Subject{Object: object("2", true), Now: at}, "marked",
			`{"object":{"kind":"k","metadata":{"annotations":{},"createdAt":"2025-01-02T03:04:05Z","deleting":true,"deletionMark":"2025-01-02T03:04:05Z","generation":4,"labels":{},"name":"c1","namespace":"default","uid":""},"spec":{"missing":0,"size":2},"status":{"has":1}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			d := machine.Decide(m.Table, c.subject, machine.Facts{})
			if d.Err != nil || d.Move.To.Event != c.event || string(d.Move.To.Params) != c.input {
				t.Errorf("%v: event %q with %s\nwant %q with %s", d.Err, d.Move.To.Event, d.Move.To.Params, c.event, c.input)
			}
		})
	}
	broken := object("2", false)
	broken.Spec = json.RawMessage(`{"size": 2}`)
	if d := machine.Decide(m.Table, &machine.Subject{Object: broken, Now: at}, machine.Facts{}); !errors.Is(d.Err, machine.EventFailed) || !strings.Contains(d.Err.Error(), "no such key: missing") {
		t.Errorf("a field that is missing: %v", d.Err)
	}
	if remembered := string((&machine.Subject{Object: object("2", false)}).Remember()); remembered != `{"metadata":{"generation":4},"spec":{"size": 2, "missing": 0}}` {
		t.Errorf("remembered %s", remembered)
	}
}

func TestAnActionIsAFlowOfOneStep(t *testing.T) {
	m, err := parse(t, variables, machinefile.Options{Actions: actions(t)})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Flows) != 1 || m.Flows[0].Name != "m.B" || m.Table.States["B"].Flow != "m.B" {
		t.Fatalf("flows %v", m.Flows)
	}
	step := m.Flows[0].Steps[0]
	if step.Uses != "exec" || step.Retry.Attempts != 2 || step.Timeout != time.Minute {
		t.Errorf("step %+v", step)
	}
	with, err := step.Resolve(workflow.NewTask(context.Background(), workflow.TaskFacts{Input: json.RawMessage(`{"size": 3}`)}).View())
	if err != nil || string(with) != `{"command":["echo",3]}` {
		t.Errorf("with %s %v", with, err)
	}
}

func TestObservations(t *testing.T) {
	m, err := parse(t, `
machine: m
kind: k
initial: A
observe:
- {name: health, every: 5s, timeout: 2s, uses: look, with: {url: "http://${input.object.spec.host}/health"}, in: [A]}
- {name: all, uses: look}
states:
  A: {on: [{event: e, to: B, when: object.status.observed.health.ok}]}
  B: {rests: true}
`, machinefile.Options{Actions: []workflow.Action{{Name: "look", Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }}}})
	if err != nil {
		t.Fatal(err)
	}
	o := m.Observe[0]
	if o.Every != 5*time.Second || o.Timeout != 2*time.Second || o.Uses != "look" || !o.AppliesIn(m.Table, "A") || o.AppliesIn(m.Table, "B") {
		t.Errorf("observation %+v", o)
	}
	with, err := o.Resolve(workflow.NewTask(context.Background(), workflow.TaskFacts{Input: json.RawMessage(`{"object": {"spec": {"host": "h1"}}}`)}).View())
	if err != nil || string(with) != `{"url":"http://h1/health"}` {
		t.Errorf("with %s %v", with, err)
	}
	if all := m.Observe[1]; all.Every != machine.DefaultEvery || !all.AppliesIn(m.Table, "B") {
		t.Errorf("observation %+v", all)
	}
}

// The schema accepts what loads, and knows every key.
func TestSchema(t *testing.T) {
	c := jsonschema.NewCompiler()
	schema, err := machinefile.Schema(actions(t)...)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema)))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AddResource("machine.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("machine.json")
	if err != nil {
		t.Fatal(err)
	}
	validate := func(source string) error {
		var v any
		if err := yaml.Unmarshal([]byte(source), &v); err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		value, _ := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
		return s.Validate(value)
	}
	reference, err := os.ReadFile(examples + "/database.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{string(reference), variables} {
		if err := validate(source); err != nil {
			t.Error(err)
		}
	}
	for _, source := range []string{"machine: m", "machine: m\nkind: k\ninitial: A\nstates: {A: {tehn: B}}", "machine: m\nkind: k\ninitial: A\nstates: {A: {flow: F}}"} {
		if validate(source) == nil {
			t.Errorf("the schema takes %s", source)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(variables))
	f.Add([]byte("machine: m\nkind: k\ninitial: A\nstates:\n  A: {on: [{event: e, to: B}]}\n  B: {flow: F, then: A, else: A, abort: A}"))
	f.Add([]byte("machine: m\nkind: k\ninitial: A\nobserve: [{name: o, uses: sleep, every: 1s, in: [A]}]\nany: [{event: e, to: A, when: 'true'}]\nignore: [e]\nstates: {A: {rests: true}}"))
	options := machinefile.Options{Actions: actions(f), AnyFlow: true, AnyAction: true}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parse(t, string(data), options)
		if err != nil {
			return
		}
		if problems := m.Table.Check(nil); problems != nil { // what loads is valid
			t.Fatal(problems)
		}
		m.Table.Mermaid()
		subject := &machine.Subject{Object: control.Object{Spec: json.RawMessage(`{"a": 1}`)}, Now: time.Unix(0, 0)}
		for s := range m.Table.States {
			machine.Decide(m.Table, subject, machine.Facts{Position: machine.Position{State: s}})
		}
	})
}
