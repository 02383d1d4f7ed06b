package machinefile_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/machine/machinefile"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action"
	"github.com/pawl-dev/pawl/workflow/flowfile"
)

const examples = "../../examples/machines"

type noStatus struct{}

func (noStatus) PatchStatus(context.Context, string, json.RawMessage, string) error { return nil }

func actions(t testing.TB) []workflow.Action {
	t.Helper()
	all, err := action.Standard(action.Options{Only: action.Names(), Status: noStatus{}})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// database loads the reference lifecycle with its flows.
func database(t testing.TB) machine.Standalone {
	t.Helper()
	flows, err := flowfile.Load([]string{examples + "/flows"}, flowfile.Options{Actions: actions(t)})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range flows.Flows() {
		names = append(names, f.Name)
	}
	machines, err := machinefile.Load([]string{examples}, machinefile.Options{Actions: actions(t), Flows: names})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(machines, func(m machine.Standalone) bool { return m.Table.Name == "database" })
	if i < 0 {
		t.Fatal("there is no machine database")
	}
	return machines[i]
}

// The reference lifecycle of a database cluster.
func TestDatabaseIsTheReferenceLifecycle(t *testing.T) {
	m := database(t)
	from := func(s machine.State, event string) machine.State {
		for _, tr := range m.Table.States[s].On {
			if tr.Event == event {
				return tr.To
			}
		}
		return ""
	}
	for _, row := range []struct {
		state, from machine.State
		event       string
		then        machine.State
	}{
		{"Cloning", "Init", "clone", "Running"}, {"Creating", "Init", "create", "Running"},
		{"ChangingSpecification", "Running", "change-class", "Running"}, {"Migrating", "Running", "move", "Running"},
		{"Locking", "Running", "add-readers", "ScalingOut"}, {"ScalingOut", "Locking", "", "Running"},
		{"Switching", "Running", "switch-writer", "Running"}, {"Restarting", "Running", "restart", "Running"},
		{"Recreating", "Running", "rebuild", "Running"}, {"Recreating", "Interrupted", "rebuild", "Running"},
		{"ModifyingParameters", "Running", "modify-parameters", "Running"}, {"Upgrading", "Running", "upgrade", "Running"},
	} {
		place := m.Table.States[row.state]
		if !place.Transient() || place.Then != row.then {
			t.Errorf("%s: transient %t, then %s, want %s", row.state, place.Transient(), place.Then, row.then)
		}
		if row.event != "" && from(row.from, row.event) != row.state {
			t.Errorf("%s is not entered from %s by %s", row.state, row.from, row.event)
		}
	}
	if m.Table.Any[0].To != "Deleting" || m.Table.States["Deleting"].Then != "Deleted" || !m.Table.States["Deleted"].Final() {
		t.Error("deletion is not as it should be")
	}
	if len(m.Table.States) != 16 || m.Table.Initial != "Init" {
		t.Errorf("%d states, initial %s", len(m.Table.States), m.Table.Initial)
	}
}

// Which event wins for which object at rest.
func TestDatabaseDecisions(t *testing.T) {
	m := database(t)
	const spec, status = `"class": "small", "readers": 2`, `"class": "small", "readers": 2`
	for _, c := range []struct {
		name, state, spec, status, to, params string
	}{
		{"new", "Init", spec, "", "Creating", `{"class":"small","readers":2}`},
		{"clone", "Init", spec + `, "cloneFrom": "other"`, "", "Cloning", `{"class":"small","readers":2,"source":"other"}`},
		{"as it should be", "Running", spec, status, "", ""},
		{"class", "Running", `"class": "big", "readers": 2`, status, "ChangingSpecification", `{"from":"small","to":"big"}`},
		{"readers", "Running", `"class": "small", "readers": 3`, status, "Locking", `{"from":2,"to":3}`},
		{"class before readers", "Running", `"class": "big", "readers": 3`, status, "ChangingSpecification", `{"from":"small","to":"big"}`},
		{"writer", "Running", spec + `, "writer": "b"`, status + `, "writer": "a"`, "Switching", `{"from":"a","to":"b"}`},
		{"no writer asked for", "Running", spec, status + `, "writer": "a"`, "", ""},
		{"restart", "Running", spec + `, "restart": "1"`, status, "Restarting", `{"request":"1"}`},
		{"restarted", "Running", spec + `, "restart": "1"`, status + `, "restarted": "1"`, "", ""},
		{"version", "Running", spec + `, "version": "17"`, status + `, "version": "16"`, "Upgrading", `{"from":"16","to":"17"}`},
		{"parameters", "Running", spec + `, "parameters": {"a": 1}`, status, "ModifyingParameters", `{"parameters":{"a":1}}`},
		{"node", "Running", spec + `, "node": "n2"`, status + `, "node": "n1"`, "Migrating", `{"from":"n1","to":"n2"}`},
		{"all failed", "Running", spec, status + `, "instances": [{"failed": true}, {"failed": true}]`, "Recreating", `{"request":""}`},
		{"one failed", "Running", spec, status + `, "instances": [{"failed": true}, {}]`, "", ""},
		{"rebuild while interrupted", "Interrupted", spec + `, "rebuild": "1"`, status, "Recreating", `{"request":"1"}`},
		{"interrupted", "Interrupted", spec, status, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			subject := &machine.Subject{Object: control.Object{
				Ref:  control.Ref{Kind: "database", Namespace: "default", Name: "c1"},
				Spec: json.RawMessage("{" + c.spec + "}"), Status: json.RawMessage("{" + c.status + "}"),
			}}
			d := machine.Decide(m.Table, subject, machine.Facts{Position: machine.Position{State: machine.State(c.state), Visit: 1}})
			if d.Err != nil {
				t.Fatal(d.Err)
			}
			if got := string(d.Move.To.State); got != c.to || string(d.Move.To.Params) != c.params {
				t.Errorf("goes to %q with %s, want %q with %s", got, d.Move.To.Params, c.to, c.params)
			}
		})
	}
}

func TestDatabaseDrawing(t *testing.T) {
	golden(t, "testdata/database.mmd", database(t).Table.Mermaid())
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("it differs from %s (UPDATE=1 rewrites it):\n%s", file, got)
	}
}

func ExampleParse() {
	machines, err := machinefile.Parse([]flowfile.File{{Name: "door.yaml", Data: []byte(strings.TrimLeft(`
machine: door
kind: door
initial: Closed
states:
  Closed: {on: [{event: open, to: Open, when: object.spec.open}]}
  Open:   {on: [{event: close, to: Closed, when: "!object.spec.open"}]}
`, "\n"))}}, machinefile.Options{})
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(machines[0].Table.Mermaid())
	// Output:
	// stateDiagram-v2
	//     [*] --> Closed
	//     Closed --> Open : open
	//     Open --> Closed : close
}
