package flowfile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
)

// TestReads lists which expressions may read which steps.
func TestReads(t *testing.T) {
	const group = "groupName: G\nparams: [{name: p}]\nsteps:\n- {stepName: In, uses: Do, with: {p: \"${params.p}\"}}\n- {stepName: Next, uses: Do, when: \"%s\"}\n"
	for _, c := range []struct{ name, steps, inGroup, wrong string }{
		{name: "an earlier step", steps: "- {stepName: A, uses: Do}\n- {stepName: B, uses: Do, when: steps.A.output.x}\n"},
		{name: "a later step", steps: "- {stepName: A, uses: Do, when: steps.B.output.x}\n- {stepName: B, uses: Do}\n", wrong: `step "B" comes later`},
		{name: "itself", steps: "- {stepName: A, uses: Do, when: steps.A.output.x}\n", wrong: `step "A" is this step itself`},
		{name: "its own undo", steps: "- {stepName: A, uses: Do, undo: {uses: Do, with: {x: \"${steps.A.output}\"}}}\n"},
		{name: "an undo reads a later step", steps: "- {stepName: A, uses: Do, undo: {uses: Do, with: {x: \"${steps.B.output}\"}}}\n- {stepName: B, uses: Do}\n", wrong: "comes later"},
		{name: "the undo of a loop over one action", steps: "- {stepName: A, forEach: {list: '[1]'}, uses: Do, undo: {uses: Do, with: {x: \"${steps.A.output}\"}}}\n", wrong: `step "A" is a loop: put its action into steps`},
		{name: "the undo of a step in a loop", steps: "- {stepName: L, forEach: {list: '[1]'}, steps: [{stepName: A, uses: Do, undo: {uses: Do, with: {x: \"${steps.A.output}\"}}}]}\n"},
		{name: "no step", steps: "- {stepName: A, uses: Do}\n- {stepName: B, uses: Do, when: steps.AA.output}\n", wrong: `step "AA" does not exist (did you mean A?)`},
		{name: "a sibling in a structure", steps: "- {stepName: S, steps: [{stepName: A, uses: Do}, {stepName: B, uses: Do, when: steps.A.output.x}]}\n"},
		{name: "by its path, within", steps: "- {stepName: S, steps: [{stepName: A, uses: Do}, {stepName: B, uses: Do, when: \"steps['S/A'].output.x\"}]}\n"},
		{name: "by its path, later within", steps: "- {stepName: S, steps: [{stepName: A, uses: Do, when: \"steps['S/B'].output.x\"}, {stepName: B, uses: Do}]}\n", wrong: "comes later"},
		{name: "out of a structure", steps: "- {stepName: A, uses: Do}\n- {stepName: S, steps: [{stepName: T, steps: [{stepName: B, uses: Do, when: steps.A.output.x}]}]}\n"},
		{name: "into a structure by path", steps: "- {stepName: S, steps: [{stepName: A, uses: Do}]}\n- {stepName: B, uses: Do, when: \"steps['S/A'].output.x\"}\n"},
		{name: "into a structure without path", steps: "- {stepName: S, steps: [{stepName: A, uses: Do}]}\n- {stepName: B, uses: Do, when: steps.A.output.x}\n", wrong: `did you mean steps["S/A"]?`},
		{name: "a path that ends nowhere", steps: "- {stepName: S, steps: [{stepName: A, uses: Do}]}\n- {stepName: B, uses: Do, when: \"steps['S/X'].output.x\"}\n", wrong: "S has no step X"},
		{name: "the structure around it", steps: "- {stepName: S, steps: [{stepName: A, uses: Do, when: steps.S.output.x}]}\n", wrong: "is not done yet"},
		{name: "an iteration", steps: "- {stepName: L, forEach: {list: '[1]'}, steps: [{stepName: A, uses: Do}]}\n- {stepName: B, uses: Do, when: \"steps['L[0]/A'].output.x\"}\n"},
		{name: "beside", steps: "- {stepName: P, parallel: {branches: [{name: X, steps: [{stepName: A, uses: Do}]}, {name: Y, steps: [{stepName: B, uses: Do, when: \"steps['X/A'].output.x\"}]}]}}\n", wrong: "runs beside"},
		{name: "after the parallel", steps: "- {stepName: P, parallel: {branches: [{name: X, steps: [{stepName: A, uses: Do}]}]}}\n- {stepName: B, uses: Do, when: \"steps['P/X/A'].output.x\"}\n"},
		{name: "open from the body", steps: "- {stepName: K, bracket: {open: {uses: Do}, close: {uses: Do, with: {x: \"${steps.A.output}\"}}}, steps: [{stepName: A, uses: Do, when: steps.open.output.x}]}\n"},
		{name: "close from the body", steps: "- {stepName: K, bracket: {open: {uses: Do}, close: {uses: Do}}, steps: [{stepName: A, uses: Do, when: steps.close.output.x}]}\n", wrong: "comes later"},
		{name: "a group reads its own", steps: "- {className: G, with: {p: 1}}\n", inGroup: "steps.In.output.x"},
		{name: "a group reads its surroundings", steps: "- {stepName: A, uses: Do}\n- {className: G, with: {p: 1}}\n", inGroup: "steps.A.output.x"},
		{name: "a group lacks its surroundings", steps: "- {className: G, with: {p: 1}}\n", inGroup: "steps.A.output.x", wrong: `g_step_group.yaml:5:37: step "A" does not exist`},
		{name: "a parameter outside of groups", steps: "- {stepName: A, uses: Do, when: params.p}\n", wrong: "params exists only in the steps of a group"},
		{name: "the item outside of its loop", steps: "- {stepName: A, uses: Do, when: ro.id}\n", wrong: "undeclared reference to 'ro'"},
		{name: "the item in the when of its loop", steps: "- {stepName: A, forEach: {list: '[1]', as: ro}, uses: Do, when: ro == 1}\n", wrong: "undeclared reference to 'ro'"},
		{name: "object outside of a wait", steps: "- {stepName: A, uses: Do, when: object.x}\n", wrong: "undeclared reference to 'object'"},
		{name: "a field there is not", steps: "- {stepName: A, uses: Do}\n- {stepName: B, uses: Do, when: steps.A.outputs.x}\n", wrong: `not "outputs" (did you mean output?)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := []File{{"f.yaml", []byte("flowName: F\nsteps:\n" + c.steps)}}
			if strings.Contains(c.steps, "className: G") {
				files = append(files, File{"g_step_group.yaml", []byte(fmt.Sprintf(group, c.inGroup))})
			}
			_, err := Parse(files, Options{Actions: actions("Do"), Check: true})
			switch {
			case c.wrong == "" && err != nil:
				t.Error(err)
			case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong) || len(err.(Problems)) != 1):
				t.Errorf("error %v, want one with %q", err, c.wrong)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	options := Options{Actions: actions("Do"), Check: true}
	refused := func(name, want string, files ...File) {
		t.Helper()
		if _, err := Parse(files, options); err == nil || !strings.Contains(err.Error(), want) {
			text := fmt.Sprint(err)
			t.Errorf("%s: error %.300s, want %q", name, text, want)
		}
	}
	refused("size", "larger than 1 MiB", File{"f.yaml", []byte("flowName: F\nsteps: [{uses: Do}]\n#" + strings.Repeat("x", 1<<20))})

	chain := func(length, width int) []File {
		files := []File{{"f.yaml", []byte("flowName: F\nsteps: [{className: G1}]\n")}}
		for i := 1; i <= length; i++ {
			body := fmt.Sprintf("groupName: G%d\nsteps:\n", i)
			for w := range width {
				if i == length {
					body += fmt.Sprintf("- {stepName: S%d, uses: Do}\n", w)
				} else {
					body += fmt.Sprintf("- {stepName: S%d, className: G%d}\n", w, i+1)
				}
			}
			files = append(files, File{fmt.Sprintf("g%d_step_group.yaml", i), []byte(body)})
		}
		return files
	}
	if _, err := Parse(chain(16, 1), options); err != nil {
		t.Errorf("16 groups deep: %v", err)
	}
	refused("depth of groups", "nested more than 16 deep", chain(17, 1)...)
	refused("steps", "more than 10000 steps", chain(14, 2)...)
	steps := func(n int) []File { // 100 groups of 99 steps count as 10,000, including the groups
		flow := "flowName: F\nsteps:\n"
		for i := range n / 100 {
			flow += fmt.Sprintf("- {stepName: G%d, className: G}\n", i)
		}
		for i := range n % 100 {
			flow += fmt.Sprintf("- {stepName: S%d, uses: Do}\n", i)
		}
		return []File{{"f.yaml", []byte(flow)}, {"g_step_group.yaml", []byte("groupName: G\nsteps:\n" + strings.Repeat("- {uses: Do}\n", 99))}}
	}
	if set, err := Parse(steps(10_000), options); err != nil {
		t.Errorf("10,000 steps: %v", err)
	} else if flow, _ := set.Flow("F"); len(flow.Steps) != 100 {
		t.Errorf("%d groups", len(flow.Steps))
	}
	refused("one step too many", "more than 10000 steps", steps(10_001)...)
	flat := func(n int) File {
		return File{"f.yaml", []byte("flowName: F\nsteps:\n" + strings.Repeat("- {uses: Do}\n", n))}
	}
	if _, err := Parse([]File{flat(10_000)}, options); err != nil {
		t.Errorf("10,000 steps of one list: %v", err)
	}
	refused("one step too many in one list", "more than 10000 steps", flat(10_001))

	nested := "{stepName: S, uses: Do}"
	for range 16 {
		nested = "{stepName: S, steps: [" + nested + "]}"
	}
	if _, err := Parse([]File{{"f.yaml", []byte("flowName: F\nsteps: [" + nested + "]")}}, options); err != nil {
		t.Errorf("structures 16 deep: %v", err)
	}
	refused("depth of structures", "nested more than 16 deep", File{"f.yaml", []byte("flowName: F\nsteps: [{stepName: S, steps: [" + nested + "]}]")})

	var flows []File
	for i := range 11 {
		flows = append(flows, File{fmt.Sprintf("f%d.yaml", i), []byte(fmt.Sprintf("flowName: F%d\nsteps: [{stepName: S, flow: F%d}]", i, i+1))})
	}
	flows = append(flows, File{"f11.yaml", []byte("flowName: F11\nsteps: [{uses: Do}]")})
	if _, err := Parse(flows[3:], options); err != nil {
		t.Errorf("8 sub-flows deep: %v", err)
	}
	refused("depth of sub-flows", "sub-flows are nested more than 8 deep", flows...)
	refused("cycle of sub-flows", "the flow starts itself: A → B → A",
		File{"a.yaml", []byte("flowName: A\nsteps: [{stepName: S, flow: B}]")}, File{"b.yaml", []byte("flowName: B\nsteps: [{stepName: S, flow: A}]")})
}

func TestFromSourceOutlivesActions(t *testing.T) {
	set, err := Parse([]File{{"f.yaml", []byte("flowName: F\nsteps:\n- {stepName: A, uses: Do, undo: {uses: Do}}\n- {stepName: C, flow: F2}\n- {stepName: S, uses: exec, with: {shell: \"echo ${HOME}\"}}\n")}},
		Options{Actions: actions("Do", "exec"), Flows: []string{"F2"}, Check: true})
	if err != nil {
		t.Fatal(err)
	}
	flow, _ := set.Flow("F")
	again, err := FromSource(flow.Source, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if again.Steps[0].UndoCall.Uses != "Do" || again.Steps[1].Flow != "F2" {
		t.Errorf("%+v", again.Steps)
	}
	for _, source := range []string{"", "{", "[]", "{}", `{"flowName":"F","steps":[{"stepName":"A"}]}`, `{"flowName":"F","steps":[{"stepName":"A","uses":"Do"}]} x`} {
		if _, err := FromSource([]byte(source), Options{}); err == nil {
			t.Errorf("%q is a definition", source)
		}
	}
}

// checked is the schema of an action that can check drafts, as those of the standard actions can.
type checked struct{ workflow.Schema }

func (c checked) CheckDraft(value []byte) error { return c.Check(value) }
func (c checked) Literal() []string             { return []string{"/script"} }

func TestParametersOfActions(t *testing.T) {
	s, err := NewSchema([]byte(`{"type": "object", "required": ["script"], "additionalProperties": false, "properties": {"script": {"type": "string"}, "deep": {"type": "array", "items": {"type": "integer"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		with   string
		schema workflow.Schema
		wrong  string
	}{
		{", with: {script: a}", s, ""},
		{"", s, "f.yaml:3:23: with: missing property 'script'"},
		{", with: {script: 1}", s, "f.yaml:3:43: with: script: got number, want string"},
		{", with: {script: a, deep: [1, x]}", s, "f.yaml:3:56: with: deep.1: got string, want integer"},
		{", with: {script: a, other: 1}", s, "f.yaml:3:53: with: other: unknown key \"other\""},
		{", with: {script: a, scrip: 1}", s, "unknown key \"scrip\" (did you mean script?)"},
		{`, with: {script: "${1 +}"}`, checked{s}, ""},
		{`, with: {script: "${1 +}"}`, s, "the expression ends too early"},
	} {
		_, err := Parse([]File{{"f.yaml", []byte("flowName: F\nsteps:\n- {stepName: A, uses: Act" + c.with + "}\n")}},
			Options{Actions: []workflow.Action{{Name: "Act", With: c.schema}}, Check: true})
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: error %v, want %q", c.with, err, c.wrong)
		}
	}
}

func TestMigrationsNameWhatIs(t *testing.T) {
	_, err := parse(t, "onChange: migrate\nmigrations:\n- {from: abc, rename: {Old: A, Older: S/Z}, insert: {S/B: done, C: run}, drop: [Gone]}",
		"- {stepName: A, uses: Do}\n- {stepName: S, steps: [{stepName: B, uses: Do}]}\n")
	want := "f.yaml:4:3: the migration inserts C, which is not a step of the flow\nf.yaml:4:3: the migration renames Older to S/Z, which is not a step of the flow"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestTypesOfParameters(t *testing.T) {
	group := File{"g_step_group.yaml", []byte("groupName: G\nparams: [{name: n, type: integer}, {name: s, type: string, default: a}]\nsteps:\n- {stepName: In, uses: Do, with: {n: \"${params.n}\", s: \"${params.s}\"}}\n")}
	load := func(n string) (workflow.Flow, error) {
		set, err := Parse([]File{{"f.yaml", []byte("flowName: F\nsteps:\n- {className: G, with: {n: " + n + "}}\n")}, group}, Options{Actions: actions("Do"), Check: true})
		if err != nil {
			return workflow.Flow{}, err
		}
		flow, _ := set.Flow("F")
		return flow, nil
	}
	for n, wrong := range map[string]string{
		`"${1 + 1}"`: "", `3`: "", `"${input.n}"`: "",
		`"${run.id}"`:     "f.yaml:3:28: parameter n of group G is of type integer, the expression returns string",
		`"n is ${1 + 1}"`: "parameter n of group G is of type integer, the expression returns string",
		`"${[1]}"`:        "the expression returns list(int)",
		`{a: 1}`:          "parameter n of group G is of type integer, not a mapping",
	} {
		if _, err := load(n); wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%s: error %v, want %q", n, err, wrong)
		}
	}
	flow, err := load(`"${input.n}"`)
	if err != nil {
		t.Fatal(err)
	}
	again, err := FromSource(flow.Source, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []workflow.Flow{flow, again} {
		if got, err := f.Steps[0].Params(view(t, `{"n": 7}`, nil)); err != nil || string(got) != `{"n":7,"s":"a"}` {
			t.Errorf("%s, %v", got, err)
		}
		if _, err := f.Steps[0].Params(view(t, `{"n": "seven"}`, nil)); fault.Of(err) != workflow.ExpressionFailed || !strings.Contains(err.Error(), `is of type integer, not "seven"`) {
			t.Errorf("error %v", err)
		}
	}
}

// The tests below prove that flow files do not have the defects of the previous engine.

func TestDefect6AGroupUsedTwiceIsTwoSetsOfSteps(t *testing.T) {
	set, err := Load([]string{"testdata/classic"}, Options{Actions: classicActions})
	if err != nil {
		t.Fatal(err)
	}
	flow, _ := set.Flow("CreateSharedStorageCluster")
	seen := map[string]bool{}
	for _, name := range instances(flow.Steps, "") {
		if seen[name] {
			t.Errorf("%s is there twice", name)
		}
		seen[name] = true
	}
	if !seen["CheckAll/CheckPods: workflow_shared.CheckPods"] || !seen["CheckAll#2/CheckPods: workflow_shared.CheckPods"] {
		t.Errorf("%v", keysOf(seen))
	}
	if _, err := parse(t, "", "- {stepName: A, uses: Do}\n- {stepName: A, uses: Do}\n"); err == nil {
		t.Error("a name used twice loads")
	}
}

func TestDefect23NothingUnknownLoads(t *testing.T) {
	for name, c := range map[string]struct {
		files []File
		wrong string
	}{
		"key":   {[]File{{"f.yaml", []byte("flowName: F\nsteps: [{className: Do}]\nrecoverFromFirst: true")}}, `f.yaml:3:1: unknown key "recoverFromFirst" (did you mean recoverFromFirstStep?)`},
		"class": {[]File{{"f.yaml", []byte("flowName: F\nsteps: [{className: Gone, stepName: A}]")}}, `f.yaml:2:21: there is neither an action nor a group "Gone"`},
		"cycle": {[]File{{"f.yaml", []byte("flowName: F\nsteps: [{className: G}]")}, {"g_step_group.yaml", []byte("groupName: G\nsteps: [{className: G}]")}},
			`g_step_group.yaml:2:21: the group contains itself: G → G`},
	} {
		if _, err := Parse(c.files, Options{Actions: actions("Do"), Check: true}); err == nil || err.Error() != c.wrong {
			t.Errorf("%s: error %v, want %s", name, err, c.wrong)
		}
	}
}

func TestDefect29ActionsOfOneNameCollide(t *testing.T) {
	_, err := Parse([]File{{"f.yaml", []byte(healing)}}, Options{Actions: actions("Do", "Other", "Do"), Check: true})
	if fault.Of(err) != workflow.FlowInvalid || !strings.Contains(err.Error(), `two actions are named "Do"`) {
		t.Errorf("error %v", err)
	}
}
