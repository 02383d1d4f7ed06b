package machinefile_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/machine/machinefile"
	"github.com/pawl-dev/pawl/workflow/flowfile"
)

func warned(t *testing.T, text string) (machine.Standalone, []string, error) {
	t.Helper()
	var warnings []string
	all, err := machinefile.Parse([]flowfile.File{{Name: "m.yaml", Data: []byte(text)}}, machinefile.Options{AnyAction: true, AnyFlow: true,
		Warn: func(p flowfile.Problem) { warnings = append(warnings, p.String()) }})
	if err != nil {
		return machine.Standalone{}, warnings, err
	}
	return all[0], warnings, nil
}

const looping = `machine: site
kind: Site
initial: New
states:
  New: {on: [{event: create, to: Writing}]}
  Running:
    on:
    - {event: fixed, to: Writing, when: object.spec.pages > 2}
    - {event: fine, to: Writing, when: object.spec.pages != object.status.pages}
    - {event: requested, to: Writing, when: "'please' in object.metadata.annotations"}
    - {event: always, to: Writing}
  Writing: {flow: Write, then: Running, withdrawn: drop}
  Interrupted: {rests: true}
`

// Lint names the transitions that are sure to run in a loop, and the file loads.
func TestFinding11LintFindsObviousLoops(t *testing.T) {
	m, warnings, err := warned(t, looping)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"m.yaml:8:7: warning: ", "event fixed runs in a loop: its condition reads the spec alone", "m.yaml:11:7: warning: ", "event always runs in a loop: it has no condition"}
	if len(warnings) != 2 || !strings.HasPrefix(warnings[0], want[0]) || !strings.Contains(warnings[0], want[1]) || !strings.HasPrefix(warnings[1], want[2]) || !strings.Contains(warnings[1], want[3]) {
		t.Fatalf("%s", strings.Join(warnings, "\n"))
	}
	if m.Table.States["Writing"].Withdrawn != machine.Drop {
		t.Errorf("withdrawn is %q", m.Table.States["Writing"].Withdrawn)
	}
	if _, _, err := warned(t, strings.Replace(looping, "withdrawn: drop", "withdrawn: forget", 1)); err == nil || !strings.Contains(err.Error(), `m.yaml:12:52: states.Writing.withdrawn: "forget" is none of undo, drop and keep`) {
		t.Errorf("%v", err)
	}
}

// What an event reads is what its condition reads, and its purpose what condition and parameters read of the spec.
func TestFinding14WhatAnEventReads(t *testing.T) {
	m, _, err := warned(t, `machine: m
kind: K
initial: A
states:
  A:
    on:
    - event: a
      to: B
      when: object.spec.?members.orValue(1) > object.status["members"] && now > timestamp("2020-01-01T00:00:00Z") && object.status.nodes.exists(n, n.name == object.spec.lead)
      params: {port: object.spec.basePort, from: object.status.members, dir: 'object.spec.dirs[object.metadata.name]'}
    - {event: b, to: B, when: old.spec != object.spec, params: object.status.members}
    - {event: c, to: B, when: has(object.metadata.labels.x)}
    - {event: d, to: B, when: object.status.size() > 0}
  B: {flow: F, then: A, else: B, abort: A}
`)
	if err != nil {
		t.Fatal(err)
	}
	subject := &machine.Subject{Object: control.Object{Ref: control.Ref{Kind: "K", Namespace: "default", Name: "o"}, Generation: 3, Labels: map[string]string{"x": "y"},
		Spec: json.RawMessage(`{"members":3,"basePort":7,"lead":"l","dirs":{"o":"/o"},"other":1}`), Status: json.RawMessage(`{"members":1,"nodes":[],"state":"A","machine":{"visit":7}}`)}, Now: time.Now()}
	for i, want := range [][2]string{
		{`{"object.spec.lead":"l","object.spec.members":3,"object.status.members":1,"object.status.nodes":[]}`,
			`{"object.spec.basePort":7,"object.spec.dirs":{"o":"/o"},"object.spec.lead":"l","object.spec.members":3}`},
		{`{"object.spec":{"basePort":7,"dirs":{"o":"/o"},"lead":"l","members":3,"other":1},"old.spec":{"basePort":7,"dirs":{"o":"/o"},"lead":"l","members":3,"other":1}}`,
			`{"object.spec":{"basePort":7,"dirs":{"o":"/o"},"lead":"l","members":3,"other":1}}`},
		{`{"object.metadata.labels.x.has()":true}`, ``},
		{`{"object.status":{"members":1,"nodes":[]}}`, ``},
	} {
		tr := m.Table.States["A"].On[i]
		seen, err := tr.Reads(subject)
		raw, _ := json.Marshal(seen)
		if err != nil || string(raw) != want[0] {
			t.Errorf("%s reads %s, %v", tr.Event, raw, err)
		}
		if tr.Purpose == nil {
			if want[1] != "" {
				t.Errorf("%s has no purpose of its own", tr.Event)
			}
			continue
		}
		wish, err := tr.Purpose(subject)
		if raw, _ = json.Marshal(wish); err != nil || string(raw) != want[1] {
			t.Errorf("%s has the purpose %s, %v", tr.Event, raw, err)
		}
	}
}

// A machine file says what specs of its kind have to look like.
func TestFinding14AMachineDeclaresTheSchemaOfItsSpecs(t *testing.T) {
	const head = "machine: m\nkind: K\ninitial: A\nspec:\n  type: object\n  required: [members]\n  additionalProperties: false\n  properties: {members: {type: integer, minimum: 1, maximum: 7}}\nstates: {A: {rests: true}}\n"
	m, _, err := warned(t, head)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Schema.Check(json.RawMessage(`{"members": 3}`)); err != nil {
		t.Error(err)
	}
	for spec, want := range map[string]string{`{"members": 99}`: "members: maximum", `{"member": 3}`: `did you mean`, `{}`: "missing"} {
		if err := m.Schema.Check(json.RawMessage(spec)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", spec, err)
		}
	}
	_, _, err = warned(t, strings.Replace(head, "type: object\n", "type: objekt\n", 1))
	if err == nil || !strings.Contains(err.Error(), "m.yaml:5:3: spec: ") {
		t.Errorf("%v", err)
	}
	schema, err := machinefile.Schema()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Fields(string(schema)), `"spec":`) {
		t.Error("the schema of machine files has no spec")
	}
}

// has() reads whether a place is there, and not what stands there.
func TestFinding11PresenceIsNotTheValue(t *testing.T) {
	m, _, err := warned(t, `machine: site
kind: Site
initial: Running
states:
  Running: {on: [{event: once, to: Writing, when: "has(object.status.last) || object.spec.on"}]}
  Writing: {flow: Write, then: Running}
  Interrupted: {rests: true}
`)
	if err != nil {
		t.Fatal(err)
	}
	reads := func(status string) string {
		subject := &machine.Subject{Object: control.Object{Spec: json.RawMessage(`{"on": true}`), Status: json.RawMessage(status)}}
		seen, err := m.Table.States["Running"].On[0].Reads(subject)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(seen)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if one, other := reads(`{"last": "10:00"}`), reads(`{"last": "10:01"}`); one != other {
		t.Errorf("another time is another answer: %s, %s", one, other)
	}
	if there, gone := reads(`{"last": "10:00"}`), reads(`{}`); there == gone {
		t.Errorf("what is gone is no other answer: %s", gone)
	}
}
