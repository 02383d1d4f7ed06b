package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/manifest"
	"github.com/pawl-dev/pawl/machine/machinefile"
	"github.com/pawl-dev/pawl/workflow/flowfile"
)

const root = "../../../.."

// published are the schemas in docs/schema, which are those of the program.
func published(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	all := map[string]*jsonschema.Schema{}
	for _, name := range SchemaNames {
		data, err := Schema(name)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := os.ReadFile(filepath.Join(root, "docs/schema", name+".json"))
		if err != nil || !bytes.Equal(kept, data) {
			t.Errorf("docs/schema/%s.json is outdated, run make generate: %v", name, err)
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource(name, document); err != nil {
			t.Fatal(err)
		}
		if all[name], err = c.Compile(name); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// conforms checks each document of a text.
func conforms(s *jsonschema.Schema, text []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var plain any
		if err := d.Decode(&plain); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		raw, err := json.Marshal(texts(plain))
		if err != nil {
			return err
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			return err
		}
		if err := s.Validate(value); err != nil {
			return err
		}
	}
}

// texts makes texts of all keys, as JSON wants them: exit codes are numbers in YAML.
func texts(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = texts(value)
		}
	case map[any]any:
		object := map[string]any{}
		for key, value := range v {
			object[fmt.Sprint(key)] = texts(value)
		}
		return object
	case []any:
		for i := range v {
			v[i] = texts(v[i])
		}
	}
	return v
}

// kindOf tells which schema is for a text; empty: none.
func kindOf(name string, text []byte) string {
	var head map[string]any
	if err := yaml.Unmarshal(text, &head); err != nil {
		return ""
	}
	switch {
	case flowfile.IsTest(name):
		return "test"
	case machinefile.IsMachine(text):
		return "machine"
	case head["flowName"] != nil || head["groupName"] != nil || head["faults"] != nil:
		return "flow"
	case head["kind"] != nil && head["apiVersion"] == nil:
		return "object"
	}
	return ""
}

var (
	fence      = regexp.MustCompile("(?ms)^```yaml (file=\\S+|group|faults|machine)[^\n]*\n(.*?)^```$")
	schemaLine = regexp.MustCompile(`(?m)^# yaml-language-server: \$schema=(\S+)$`)
)

// TestSchemasTakeEveryFile: the examples and the guide fit the schemas, and each example names its own.
func TestSchemasTakeEveryFile(t *testing.T) {
	schemas := published(t)
	count := map[string]int{}
	err := filepath.WalkDir(filepath.Join(root, "examples"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		kind := kindOf(path, text)
		if kind == "" {
			return nil
		}
		count[kind]++
		if err := conforms(schemas[kind], text); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		named := schemaLine.FindSubmatch(text)
		if named == nil {
			t.Errorf("%s does not name its schema", path)
			return nil
		}
		there, err := os.Stat(filepath.Join(filepath.Dir(path), string(named[1])))
		want, wantErr := os.Stat(filepath.Join(root, "docs/schema", kind+".json"))
		if err != nil || wantErr != nil || !os.SameFile(there, want) {
			t.Errorf("%s names the schema %s, which is not that of its kind, %s: %v", path, named[1], kind, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs/guide/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range fence.FindAllSubmatch(text, -1) {
			kind := kindOf(strings.TrimPrefix(string(block[1]), "file="), block[2])
			if kind == "" {
				continue
			}
			count[kind]++
			if err := conforms(schemas[kind], block[2]); err != nil {
				t.Errorf("%s: %v\n%s", page, err, block[2])
			}
		}
	}
	for kind, least := range map[string]int{"flow": 40, "machine": 3, "object": 3, "test": 2} {
		if count[kind] < least {
			t.Errorf("%d files of the kind %s: the search for them is broken", count[kind], kind)
		}
	}
}

// TestSchemasRefuseWhatLintRefuses: an editor marks what pawl lint and pawl apply would refuse.
func TestSchemasRefuseWhatLintRefuses(t *testing.T) {
	schemas := published(t)
	step := func(step string) string { return "flowName: F\nsteps:\n- {stepName: A, " + step + "}\n" }
	machine := func(state string) string {
		return "machine: m\nkind: k\ninitial: A\nstates:\n  A: {on: [{event: e, to: B}]}\n  B: {then: A, else: B, abort: A, " + state + "}\n"
	}
	object := func(kind, spec string) string {
		return "kind: " + kind + "\nmetadata: {name: a}\nspec: {" + spec + "}\n"
	}
	for _, c := range []struct{ name, kind, good, bad string }{
		{"a parameter that exec does not have", "flow", step("uses: exec, with: {command: [ls]}"), step("uses: exec, with: {comand: [ls]}")},
		{"a type of exec", "flow", step("uses: exec, with: {command: [ls]}"), step("uses: exec, with: {command: ls}")},
		{"neither command nor shell", "flow", step("uses: exec, with: {shell: ls}"), step("uses: exec, with: {dir: /}")},
		{"both command and shell", "flow", step("uses: exec, with: {shell: ls}"), step("uses: exec, with: {shell: ls, command: [ls]}")},
		{"exec without with", "flow", step("uses: exec, with: {shell: ls}"), step("uses: exec")},
		{"an exit code", "flow", step("uses: exec, with: {shell: ls, okCodes: [0, 255]}"), step("uses: exec, with: {shell: ls, okCodes: [256]}")},
		{"an expression for a list", "flow", step(`uses: exec, with: {command: "${input.argv}"}`), step(`uses: exec, with: {command: "input.argv"}`)},
		{"an expression for an enumeration", "flow", step(`uses: exec, with: {shell: ls, output: "${input.as}"}`), step(`uses: exec, with: {shell: ls, output: xml}`)},
		{"by className", "flow", step("className: http, with: {url: 'http://a.example'}"), step("className: http, with: {uri: 'http://a.example'}")},
		{"http without its url", "flow", step("uses: http, with: {url: 'http://a.example'}"), step("uses: http, with: {method: GET}")},
		{"a status of http", "flow", step("uses: http, with: {url: 'http://a.example', expect: [200, 3xx]}"), step("uses: http, with: {url: 'http://a.example', expect: [2x]}")},
		{"a key of poll", "flow", step("uses: http, with: {url: 'http://a.example', poll: {every: 5s, until: 'true'}}"), step("uses: http, with: {url: 'http://a.example', poll: {every: 5s, while: 'true'}}")},
		{"json beside body", "flow", step("uses: http, with: {url: 'http://a.example', json: 1}"), step("uses: http, with: {url: 'http://a.example', json: 1, body: a}")},
		{"a duration of sleep", "flow", step("uses: sleep, with: {for: 5m}"), step("uses: sleep, with: {for: 5 minutes}")},
		{"sleep for and until", "flow", step("uses: sleep, with: {for: 5m}"), step("uses: sleep, with: {for: 5m, until: '2026-03-01T02:00:00Z'}")},
		{"a signal without name", "flow", step("uses: signal, with: {name: go}"), step("uses: signal, with: {deadline: 5m}")},
		{"onTimeout without deadline", "flow", step("uses: signal, with: {name: go, deadline: 5m, onTimeout: undo}"), step("uses: signal, with: {name: go, onTimeout: undo}")},
		{"a count of approval", "flow", step("uses: approval, with: {count: 2}"), step("uses: approval, with: {count: 0}")},
		{"status of nothing", "flow", step("uses: status, with: {ready: true}"), step("uses: status, with: {}")},
		{"the undo of a step", "flow", step("uses: Do, undo: {uses: sleep, with: {for: 1s}}"), step("uses: Do, undo: {uses: sleep, with: {fro: 1s}}")},
		{"an unknown key of a step", "flow", step("uses: Do, timeout: 5m"), step("uses: Do, timeot: 5m")},
		{"two kinds of a step", "flow", step("uses: Do"), step("uses: Do, flow: G")},
		{"a step that does nothing", "flow", step("uses: Do"), step("description: a")},
		{"a policy on a structure", "flow", step("steps: [{stepName: B, uses: Do}]"), step("steps: [{stepName: B, uses: Do}], timeout: 5m")},
		{"a wait for two things", "flow", step("wait: {for: 5m}"), step("wait: {for: 5m, signal: go}")},
		{"a number of attempts", "flow", step("uses: Do, retry: {attempts: 3}"), step("uses: Do, retry: 3")},
		{"a fault without a remedy", "flow", "faults:\n- {code: FULL, class: blocked, title: it is full, remedy: Empty it.}\n", "faults:\n- {code: FULL, class: blocked, title: it is full}\n"},
		{"a group without steps", "flow", "groupName: G\nsteps: [{uses: Do}]\n", "groupName: G\n"},
		{"an action of a machine", "machine", machine("action: sleep, with: {for: 1s}"), machine("action: sleep, with: {fro: 1s}")},
		{"an action of a machine without with", "machine", machine("action: exec, with: {shell: ls}"), machine("action: exec")},
		{"a state", "machine", machine("flow: F"), machine("flo: F")},
		{"an observation", "machine", machine("flow: F") + "observe: [{name: o, uses: exec, with: {shell: ls}}]\n", machine("flow: F") + "observe: [{name: o, uses: exec, with: {shel: ls}}]\n"},
		{"a schedule of no flow", "object", object("Schedule", "cron: '@daily', flow: F"), object("Schedule", "cron: '@daily'")},
		{"a schedule without times", "object", object("Schedule", "interval: 5m, flow: F"), object("Schedule", "flow: F")},
		{"an overlap", "object", object("Schedule", "interval: 5m, flow: F, overlap: queue"), object("Schedule", "interval: 5m, flow: F, overlap: wait")},
		{"a schedule without spec", "object", object("Schedule", "interval: 5m, flow: F"), "kind: Schedule\nmetadata: {name: a}\n"},
		{"a notification to nobody", "object", object("Notification", "url: 'https://a.example', secrets: [{name: s}]"), object("Notification", "secrets: [{name: s}]")},
		{"a verb of a bulk", "object", object("Bulk", "verb: resume, flow: F"), object("Bulk", "verb: restart, flow: F")},
		{"an object without name", "object", object("etcd", "members: 3"), "kind: etcd\nmetadata: {namespace: a}\n"},
		{"a key of metadata", "object", object("etcd", "members: 3"), "kind: etcd\nmetadata: {name: a, lables: {b: c}}\n"},
		{"data of a kind that has none", "object", "kind: ConfigMap\nname: a\ndata: {b: c}\n", "kind: etcd\nname: a\ndata: {b: c}\n"},
		{"a case without name", "test", "flow: F\ncases: [{name: a}]\n", "flow: F\ncases: [{input: {a: 1}}]\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := conforms(schemas[c.kind], []byte(c.good)); err != nil {
				t.Errorf("the schema refuses\n%s%v", c.good, err)
			}
			if found := findings(t, c.kind, c.good); found != "" {
				t.Errorf("pawl refuses\n%s%s", c.good, found)
			}
			if conforms(schemas[c.kind], []byte(c.bad)) == nil {
				t.Errorf("the schema takes\n%s", c.bad)
			}
			if findings(t, c.kind, c.bad) == "" {
				t.Errorf("pawl takes\n%s", c.bad)
			}
		})
	}
}

// findings are the errors of pawl lint, and those of pawl apply for an object.
func findings(t *testing.T, kind, text string) string {
	t.Helper()
	if kind == "object" {
		manifests, problems := manifest.ParseManifests("object.yaml", []byte(text))
		for _, m := range manifests {
			for _, own := range backend.OwnKinds() {
				if own.Kind == m.Object.Kind {
					spec := m.Object.Spec
					if spec == nil {
						spec = json.RawMessage("{}")
					}
					if err := own.Schema.Check(spec); err != nil {
						return err.Error()
					}
				}
			}
		}
		return errorText(problems)
	}
	dir := t.TempDir()
	name := map[string]string{"flow": "flow.yaml", "machine": "machine.yaml", "test": "flow_test.yaml"}[kind]
	switch {
	case strings.HasPrefix(text, "groupName"):
		name = "a_step_group.yaml"
	case strings.HasPrefix(text, "faults"):
		name = "a_faults.yaml"
	}
	files := map[string]string{name: text}
	if kind == "test" {
		files["f.yaml"] = "flowName: F\nsteps: [{uses: sleep, with: {for: 1s}}]\n"
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := dir
	if kind == "machine" {
		path = filepath.Join(dir, name)
	}
	problems, err := lint([]string{path}, true)
	if err != nil {
		t.Fatal(err)
	}
	return errorText(problems.Errors())
}

func errorText(problems flowfile.Problems) string {
	if len(problems) == 0 {
		return ""
	}
	return problems.Error()
}
