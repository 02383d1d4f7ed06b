package flowfile

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// view returns a run as a step sees it.
func view(t testing.TB, input string, outputs map[string]string) workflow.View {
	facts := workflow.TaskFacts{Run: "r1", Flow: "F", Subject: "demo/default/c1", Step: "Now", Input: json.RawMessage(input), Outputs: map[string]json.RawMessage{}}
	for name, output := range outputs {
		facts.Outputs[name] = json.RawMessage(output)
	}
	return workflow.NewTask(t.Context(), facts).View()
}

// parse loads one flow with the given steps in YAML.
func parse(t testing.TB, head, steps string) (workflow.Flow, error) {
	t.Helper()
	set, err := Parse([]File{{"f.yaml", []byte("flowName: F\n" + head + "\nsteps:\n" + steps)}}, Options{Actions: actions("Do"), Check: true})
	if err != nil {
		return workflow.Flow{}, err
	}
	flow, _ := set.Flow("F")
	return flow, nil
}

func TestTemplates(t *testing.T) {
	outputs := map[string]string{"First": `{"n": 9007199254740993, "list": [1, 2], "f": 0.5, "at": "2026-01-02T03:04:05Z"}`, "a-b": `"dashed"`}
	for _, c := range []struct{ name, with, want string }{
		{"an expression keeps its type", `"${steps.First.output.n}"`, `9007199254740993`},
		{"a list", `"${steps.First.output.list}"`, `[1,2]`},
		{"a boolean", `"${1 < 2}"`, `true`},
		{"null", `"${null}"`, `null`},
		{"within text", `"n=${steps.First.output.n}, f=${steps.First.output.f}, l=${steps.First.output.list}"`, `"n=9007199254740993, f=0.5, l=[1,2]"`},
		{"a name with a dash", `"${steps['a-b'].output}"`, `"dashed"`},
		{"the run", `"${run.id} ${run.flow} ${run.subject}"`, `"r1 F demo/default/c1"`},
		{"braces of maps and strings", `"${{'a': '}', 'b': {'c': 1}}}"`, `{"a":"}","b":{"c":1}}`},
		{"escaped", `"costs $${x} ${1}"`, `"costs ${x} 1"`},
		{"escaped alone", `"$${x}"`, `"${x}"`},
		{"a duration", `"${duration('90s')}"`, `"1m30s"`},
		{"a time", `"${timestamp(steps.First.output.at) + duration('1h')}"`, `"2026-01-02T04:04:05Z"`},
		{"bytes", `"${b'abc'}"`, `"YWJj"`},
		{"extensions", `"${'a,b'.split(',')} ${math.greatest(1, 2)} ${lists.range(3)}"`, `"[\"a\",\"b\"] 2 [0,1,2]"`},
		{"macros", `"${input.l.filter(x, x > 1).map(x, x * 2)}"`, `[4,6]`},
		{"nested", `{deep: [{x: "${input.l[0]}"}, plain, 7]}`, `{"deep":[{"x":1},"plain",7]}`},
		{"no expression", `{deep: [1, 2.5, yes, "5"]}`, `{"deep":[1,2.5,"yes","5"]}`},
		{"has", `"${has(steps.First.output) && !has(steps.First.output.none)}"`, `true`},
		{"an optional", `"${steps.First.output.?none.orValue(3)}"`, `3`},
		{"the phase", `"${steps.First.phase}"`, `"Done"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			flow, err := parse(t, "", "- {stepName: First, uses: Do}\n- {stepName: a-b, uses: Do}\n- {stepName: Now, uses: Do, with: {v: "+c.with+"}}\n")
			if err != nil {
				t.Fatal(err)
			}
			step := flow.Steps[2]
			got := step.With
			if step.Resolve != nil {
				if got, err = step.Resolve(view(t, `{"l": [1, 2, 3]}`, outputs)); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(`{"v":`+c.want+`}`, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhen(t *testing.T) {
	typed := "input: {type: object, properties: {readers: {type: integer}, name: {type: string}, tags: {type: object, properties: {a-b: {type: string}}}}}"
	for _, c := range []struct {
		name, head, when string
		want             bool
		failed, refused  string
	}{
		{name: "typed", head: typed, when: "input.readers > 1", want: true},
		{name: "has", head: typed, when: "has(input.readers) && !has(input.name)", want: true},
		{name: "as a map", head: typed, when: `"readers" in input && input["readers"] == 2`, want: true},
		{name: "no identifier", head: typed, when: `!has(input.tags) || input.tags["a-b"] == ""`, want: true},
		{name: "misspelt", head: typed, when: "input.reader > 1", refused: "undefined field 'reader'"},
		{name: "wrong type", head: typed, when: "input.name > 1", refused: "found no matching overload"},
		{name: "untyped", when: "input.readers > 1", want: true},
		{name: "not reached", when: "steps.First.phase == 'Pending'", want: true},
		{name: "no such key", when: "input.none == 1", failed: "no such key: none"},
		{name: "not a boolean", when: "input.readers", failed: "it returns int, not true or false"},
		{name: "cost", when: "input.l.all(a, input.l.all(b, input.l.all(c, input.l.all(d, a + b + c + d > 0))))", failed: "cost limit exceeded"},
		{name: "unknown variable", when: "object.x == 1", refused: "undeclared reference to 'object'"},
		{name: "steps as a whole", when: "size(steps) == 1", refused: "cannot be read as a whole"},
		{name: "reached", when: "'First' in steps || steps[input.name].phase == 'Pending'", failed: "no such key: name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			flow, err := parse(t, c.head, "- {stepName: First, uses: Do}\n- stepName: Now\n  uses: Do\n  when: |-\n    "+c.when+"\n")
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Fatalf("error %v, want %q", err, c.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			input := `{"readers": 2, "l": [` + strings.Repeat("1,", 40) + `1]}`
			got, err := flow.Steps[1].When(view(t, input, nil))
			if c.failed != "" {
				if fault.Of(err) != workflow.ExpressionFailed || !strings.Contains(err.Error(), c.failed) {
					t.Fatalf("error %v, want EXPRESSION_FAILED with %q", err, c.failed)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("%t, %v; want %t", got, err, c.want)
			}
		})
	}
}

func TestWaitsAndLoops(t *testing.T) {
	flow, err := parse(t, "", `
- {stepName: Until, wait: {until: "timestamp(input.at) + duration('1h')"}}
- {stepName: Fixed, wait: {until: "2026-01-02T05:00:00+02:00"}}
- {stepName: Text, wait: {until: input.at}}
- {stepName: Cond, wait: {condition: "input.n == 2", every: 5s, deadline: 1d}}
- {stepName: Loop, forEach: {list: input.items}, uses: Do}
`)
	if err != nil {
		t.Fatal(err)
	}
	v := view(t, `{"at": "2026-01-02T03:00:00Z", "n": 2, "items": [{"b": 1, "a": 2}, "x"]}`, nil)
	for i, want := range []string{"2026-01-02T04:00:00Z", "2026-01-02T03:00:00Z", "2026-01-02T03:00:00Z"} {
		at, err := flow.Steps[i].Wait.Until(v)
		if err != nil || at.Format(time.RFC3339) != want {
			t.Errorf("%s: %v, %v; want %s", flow.Steps[i].Name, at, err, want)
		}
	}
	wait := flow.Steps[3].Wait
	if ok, err := wait.Condition(v); !ok || err != nil || wait.Deadline != 24*time.Hour || wait.Every != 5*time.Second {
		t.Errorf("condition %t, %v, %+v", ok, err, wait)
	}
	items, err := flow.Steps[4].ForEach.List(v)
	if err != nil || len(items) != 2 || string(items[0]) != `{"a":2,"b":1}` || string(items[1]) != `"x"` || flow.Steps[4].ForEach.As != "item" {
		t.Errorf("items %s, %v", items, err)
	}
	if _, err := flow.Steps[4].ForEach.List(view(t, `{"items": 3}`, nil)); fault.Of(err) != workflow.ExpressionFailed {
		t.Errorf("a list that is none: %v", err)
	}
}

func TestDefaultsOfTheInput(t *testing.T) {
	flow, err := parse(t, `input:
  type: object
  required: [name]
  properties:
    name: {type: string}
    readers: {type: integer, default: 2, minimum: 0}
    big: {type: integer, default: 9007199254740993}
    deep: {type: object, default: {}, properties: {x: {default: [1]}}}
    list: {type: array, items: {type: object, properties: {cpu: {default: 4}}}}`, "- {uses: Do}\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ input, want, wrong string }{
		{``, `{"big":9007199254740993,"deep":{"x":[1]},"readers":2}`, "missing property 'name'"},
		{`null`, `{"big":9007199254740993,"deep":{"x":[1]},"readers":2}`, "missing property 'name'"},
		{`{"name":"a","readers":0,"list":[{},{"cpu":1}]}`, `{"big":9007199254740993,"deep":{"x":[1]},"list":[{"cpu":4},{"cpu":1}],"name":"a","readers":0}`, ""},
		{`{"name":"a","readers":-1}`, `{"big":9007199254740993,"deep":{"x":[1]},"name":"a","readers":-1}`, "readers: minimum: got -1, want 0"},
	} {
		got, err := Defaults(flow, json.RawMessage(c.input))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, string(got)); diff != "" {
			t.Errorf("%s: %s", c.input, diff)
		}
		err = flow.Input.Check(got)
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: %v, want %q", c.input, err, c.wrong)
		}
	}
	if again, err := Defaults(flow, json.RawMessage(`{"name":"b"}`)); err != nil || !strings.Contains(string(again), `"x":[1]`) {
		t.Errorf("the defaults of one input reached another: %s, %v", again, err)
	}
	if _, err := Defaults(flow, json.RawMessage(`{`)); fault.Of(err) != runtype.InputInvalid {
		t.Errorf("bad JSON: %v", err)
	}
}

func TestPrograms(t *testing.T) {
	var steps strings.Builder
	for range 50 {
		steps.WriteString("- {uses: Do, when: \"input.a == 1\"}\n")
	}
	l, _ := parseAndCheck([]File{{"f.yaml", []byte("flowName: F\nsteps:\n" + steps.String())}}, nil, Options{Actions: actions("Do"), Check: true})
	if err := l.err(); err != nil {
		t.Fatal(err)
	}
	if n := len(l.expressions.compiled); n != 1 {
		t.Errorf("%d programs for one text", n)
	}
}

func TestReadsAndPolicy(t *testing.T) {
	set := fleet(t)
	flow, _ := set.Flow("ReplaceReaders")
	replace := flow.Steps[1].Steps[0]
	create, settle := replace.Steps[0], replace.Steps[2]
	if diff := cmp.Diff([]string{"CaughtUp"}, settle.Reads); diff != "" {
		t.Error(diff)
	}
	if create.Timeout != 5*time.Minute || create.Retry.Attempts != 5 || create.Retry.Jitter >= 0 || create.MaxOutput != 128<<10 {
		t.Errorf("policy of Create: %+v", create.Retry)
	}
	if end := flow.Steps[1].Close; end.Retry.Attempts != 100 || end.Retry.First != 2*time.Second {
		t.Errorf("policy of EnableHA: %+v", end.Retry)
	}
	check := flow.Steps[2].Steps[1].Steps[0]
	if !strings.Contains(string(check.With), `${HOST:-}`) || check.Secrets["PASSWORD"].Key != "password" {
		t.Errorf("the script of an exec step was taken for a template: %s", check.With)
	}
	with, err := check.Resolve(view(t, `{}`, map[string]string{"Prepare": `{"primary": "p1"}`}))
	if err != nil || !strings.Contains(string(with), `${HOST:-}`) || !strings.Contains(string(with), `"HOST":"p1"`) {
		t.Errorf("%s, %v", with, err)
	}
	if healers := set.Healers(); healers["MEMBER_LOST"].Flow != "RemoveReaders" || healers["MEMBER_LOST"].Limits.Attempts != 2 {
		t.Errorf("healers %+v", healers)
	}
}
