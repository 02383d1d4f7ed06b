package flowfile

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/workflow"
)

func TestLint(t *testing.T) {
	problems, err := Lint([]string{"testdata/lint"}, Options{Actions: fleetActions, AnyAction: true})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "lint.warnings", []byte(problems.Error()+"\n"))
	if n := len(problems.Errors()); n != 0 {
		t.Errorf("%d errors", n)
	}
	for _, folder := range []string{"testdata/fleet", "testdata/classic"} {
		problems, err = Lint([]string{folder}, Options{Actions: append(fleetActions, classicActions...)})
		if err != nil || len(problems) != 0 {
			t.Errorf("%s: %v, %v", folder, problems, err)
		}
	}
	if problems, err = Lint([]string{"testdata/bad"}, Options{Actions: fleetActions}); err != nil || len(problems.Errors()) < 60 {
		t.Errorf("the bad files: %d, %v", len(problems), err)
	}
	if _, err := Lint([]string{"testdata/none"}, Options{}); err == nil {
		t.Error("a missing folder is no error")
	}
}

func TestWarningsDoNotKeepFromLoading(t *testing.T) {
	set, err := Load([]string{"testdata/lint"}, Options{Actions: fleetActions, AnyAction: true, Check: true})
	if err != nil || len(set.Warnings()) == 0 || len(set.Flows()) != 1 {
		t.Fatalf("%v, %v", set, err)
	}
}

func TestGraph(t *testing.T) {
	set := fleet(t)
	for _, name := range []string{"ReplaceReaders", "RemoveReaders"} {
		flow, _ := set.Flow(name)
		golden(t, name+".mmd", []byte(Graph(flow)))
	}
	odd := workflow.Flow{Name: `a"b<c>`, Steps: []workflow.Step{{Name: "A", Uses: "x", WhenText: "a == \"b\"\n && c < `d`", When: nil}}}
	if got := Graph(odd); strings.Contains(got, `a"b`) || strings.Contains(got, "`") || strings.Count(got, "\n") != 6 {
		t.Errorf("not escaped:\n%s", got)
	}
}

func TestDiff(t *testing.T) {
	base := "- {stepName: A, uses: Do}\n- {stepName: B, uses: Do, with: {x: 1}}\n- {stepName: C, uses: Do}\n- {stepName: G, steps: [{stepName: X, uses: Do}, {stepName: Y, uses: Do}]}\n"
	for _, c := range []struct {
		name, head, steps string
		want              []string
		hash              bool
	}{
		{"nothing", "", base, nil, false},
		{"added", "", strings.Replace(base, "- {stepName: C", "- {stepName: New, uses: Do}\n- {stepName: C", 1), []string{"+ New after B"}, true},
		{"added first", "", "- {stepName: New, uses: Do}\n" + base, []string{"+ New as the first"}, true},
		{"removed", "", strings.Replace(base, "- {stepName: A, uses: Do}\n", "", 1), []string{"- A"}, true},
		{"changed", "", strings.Replace(base, "x: 1", "x: 2", 1), []string{`~ B  with: {"x":1} → {"x":2}`}, true},
		{"policy", "defaults: {timeout: 5m}", base, []string{"~ A  timeout: none → 5m0s", "~ B  timeout: none → 5m0s", "~ C  timeout: none → 5m0s",
			"~ G/X  timeout: none → 5m0s", "~ G/Y  timeout: none → 5m0s"}, false},
		{"moved", "", "- {stepName: C, uses: Do}\n" + strings.Replace(base, "- {stepName: C, uses: Do}\n", "", 1), []string{"> C now as the first"}, true},
		{"inside", "", strings.Replace(base, "{stepName: X, uses: Do}", "{stepName: Z, uses: Do, retry: {attempts: 2, first: 1s}}", 1), []string{"- G/X", "+ G/Z as the first"}, true},
		{"the flow", "version: 2\ndeadline: 1h", base, []string{"~ (flow)  version: none → 2; deadline: none → 1h0m0s"}, false},
		{"when and wait", "", strings.Replace(base, "- {stepName: C, uses: Do}", "- {stepName: C, when: 'true', wait: {for: 5m}}", 1),
			[]string{"~ C  uses: Do → none; when: none → true; wait: none → for 5m0s"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			old, err := parse(t, "", base)
			if err != nil {
				t.Fatal(err)
			}
			fresh, err := parse(t, c.head, c.steps)
			if err != nil {
				t.Fatal(err)
			}
			d, err := Diff(old, fresh)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			want = append(want, c.want...)
			got := strings.Split(d.String(), "\n")
			if d.String() == "" {
				got = nil
			}
			for i := range got {
				got[i] = strings.TrimRight(got[i], " ")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if d.HashDiffers() != c.hash {
				t.Errorf("hash differs: %t", d.HashDiffers())
			}
		})
	}
}

func TestDiffSets(t *testing.T) {
	load := func(names ...string) *Set {
		var files []File
		for _, name := range names {
			files = append(files, File{name + ".yaml", []byte("flowName: " + name + "\nsteps: [{uses: Do}]")})
		}
		set, err := Parse(files, Options{Actions: actions("Do"), Check: true})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	all, err := DiffSets(load("A", "B"), load("B", "C"))
	if err != nil || len(all) != 3 || all[0].NewHash != "" || all[1].HashDiffers() || all[2].OldHash != "" {
		t.Errorf("%+v, %v", all, err)
	}
	if all, err = DiffSets(load("A"), load("Renamed")); err != nil || len(all) != 1 || !all[0].HashDiffers() {
		t.Errorf("%+v, %v", all, err)
	}
}

// keysRead returns the keys that the decoders accept, by the kind of mapping.
func keysRead(t *testing.T) map[string][]string {
	heard := map[string][]string{}
	l := newLibrary(Options{Check: true})
	l.onKeys = func(what string, keys map[string]read) { heard[what] = keysOf(keys) }
	files, err := filepath.Glob("testdata/*/*.y*ml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		l.read(File{file, data})
	}
	return heard
}

func TestEditorSchemaKnowsEveryKey(t *testing.T) {
	var document struct {
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(editorSchema, &document); err != nil {
		t.Fatal(err)
	}
	inside := func(def string, path ...string) []string {
		var node struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		raw := document.Defs[def]
		for _, p := range append(path, "") {
			node.Properties = nil
			if err := json.Unmarshal(raw, &node); err != nil {
				t.Fatalf("%s %v: %v", def, path, err)
			}
			if p != "" {
				raw = node.Properties[p]
			}
		}
		return keysOf(node.Properties)
	}
	heard := keysRead(t)
	for what, want := range map[string][]string{
		"a flow": inside("flow"), "a step group": inside("group"), "a step": inside("step"), "retry": inside("retry"), "wait": inside("wait"),
		"undo": inside("call"), "parallel": inside("parallel"), "a branch": inside("branch"), "forEach": inside("loop"), "bracket": inside("bracket"),
		"the open of a bracket": inside("step"), "the close of a bracket": inside("step"), "flow": inside("child"), "a secret": inside("secret"),
		"secretRef": inside("secret", "secretRef"), "a migration": inside("migration"), "a parameter": inside("param"), "defaults": inside("flow", "defaults"),
		"limits": inside("flow", "limits"), "retention": inside("flow", "retention"), "a faults file": inside("faults"), "a fault": inside("fault"),
		"healer": inside("healer"), "the healer's limits": inside("healer", "limits"),
	} {
		if diff := cmp.Diff(heard[what], want); diff != "" {
			t.Errorf("%s (-read +schema):\n%s", what, diff)
		}
		delete(heard, what)
	}
	if len(heard) > 0 {
		t.Errorf("the schema does not speak of %v", keysOf(heard))
	}
}

func TestEditorSchemaTakesWhatLoads(t *testing.T) {
	schema, err := Schema(append(fleetActions, classicActions...)...)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("flow.json", document); err != nil {
		t.Fatal(err)
	}
	compiled := c.MustCompile("flow.json")
	files, _ := filepath.Glob("testdata/*/*.y*ml")
	for _, file := range files {
		data, _ := os.ReadFile(file)
		var plain any
		if err := yaml.Unmarshal(data, &plain); err != nil {
			continue
		}
		raw, err := json.Marshal(plain)
		if err != nil {
			continue
		}
		value, _ := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		err = compiled.Validate(value)
		switch folder := filepath.Base(filepath.Dir(file)); {
		case slices.Contains([]string{"fleet", "classic", "lint"}, folder) && err != nil:
			t.Errorf("%s loads, but the schema says: %v", file, err)
		case filepath.Base(file) == "create.yaml" && err == nil:
			t.Errorf("the schema takes %s", file)
		}
	}
}
