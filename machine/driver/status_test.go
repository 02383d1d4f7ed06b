package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func TestConditionsAndFaults(t *testing.T) {
	at := func(s machine.State) machine.Position { return machine.Position{State: s, Visit: 3} }
	paused := &machine.RunFacts{ID: "r", Phase: runtype.Paused, Fault: &runtype.Fault{Code: "TIMEOUT", Message: "too slow"}}
	undo := &machine.RunFacts{ID: "q", Phase: runtype.Paused, Fault: &runtype.Fault{Code: "UNDO_FAILED", Message: "busy"}}
	heldBy := func(code fault.Code) machine.Position {
		p := at("Interrupted")
		p.Held, p.Code, p.Message = true, code, "no space"
		return p
	}
	for name, c := range map[string]struct {
		view view
		want string
	}{
		"rests":               {view{position: at("Running")}, "Ready=True/Rests Progressing=False/Rests"},
		"works":               {view{position: at("Creating"), out: outcome.Wait(0, "Creating", "run r is running")}, "Ready=Unknown/Creating Progressing=True/Creating"},
		"queued":              {view{position: at("Creating"), out: outcome.Wait(0, "Queued", "behind r")}, "Ready=Unknown/Creating Progressing=True/Queued"},
		"just written":        {view{position: at("Creating")}, "Ready=Unknown/Creating Progressing=True/Creating"},
		"final":               {view{position: at("Deleted")}, "Ready=False/Deleted Progressing=False/Deleted"},
		"held":                {view{position: heldBy("TEST_DISK_FULL")}, "Ready=False/TestDiskFull Progressing=False/TestDiskFull fault=TEST_DISK_FULL"},
		"held by a stranger":  {view{position: heldBy("NOBODY_KNOWS")}, "Ready=False/NobodyKnows Progressing=False/NobodyKnows fault=NOBODY_KNOWS"},
		"paused, stays":       {view{position: at("Deleting"), run: paused, out: outcome.Wait(0, "Timeout", "too slow")}, "Ready=Unknown/Timeout Progressing=False/Timeout fault=TIMEOUT"},
		"an undo that failed": {view{position: at("Creating"), ending: undo, out: outcome.Wait(0, "UndoFailed", "busy")}, "Ready=Unknown/UndoFailed Progressing=False/UndoFailed fault=UNDO_FAILED"},
		"failed":              {view{position: at("Running"), out: outcome.Fail(machine.EventFailed.Errorf("no"))}, "Ready=False/EventFailed Progressing=False/EventFailed fault=EVENT_FAILED"},
		"trouble of the store": {view{position: at("Running"), out: outcome.Fail(runstore.StoreUnavailable.Errorf("gone"))},
			"Ready=Unknown/StoreUnavailable Progressing=Unknown/StoreUnavailable"},
		"ignored":                       {view{position: at("Running"), out: outcome.Later(0, "Ignored", "resize")}, "Ready=True/Rests Progressing=False/Ignored"},
		"nothing listens to a deletion": {view{position: at("Running"), deleting: true}, "Ready=True/Rests Progressing=False/DeletionIgnored"},
		"given up": {view{position: at("Running"), gaveUp: control.RetriesExhausted.Errorf("15 times").With("cause", "UNKNOWN")},
			"Ready=False/RetriesExhausted Progressing=False/RetriesExhausted fault=RETRIES_EXHAUSTED"},
	} {
		t.Run(name, func(t *testing.T) {
			c.view.table = demo().Table
			stalled := c.view.stalled()
			s := shown{Conditions: c.view.conditions(stalled), Fault: stalled}
			if got := s.String(); got != " "+c.want {
				t.Errorf("got%s\nwant %s", got, c.want)
			}
			if stalled != nil && (stalled.Remedy == "" || stalled.Title == "") {
				t.Errorf("no remedy: %+v", stalled)
			}
		})
	}
}

func TestTimesOfConditionsAndFaultsAreKept(t *testing.T) {
	first := time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	v := view{table: demo().Table, position: machine.Position{State: "Interrupted", Held: true, Code: "TIMEOUT", Message: "slow"}, gen: 1, now: first}
	foreign := `{"size": 12345678901234567, "conditions": [{"type": "Backup", "status": "True", "reason": "Fresh", "observedGeneration": 1, "lastTransitionTime": "2024-01-01T00:00:00Z"}]}`
	status, err := compose(json.RawMessage(foreign), record{Position: v.position}, v)
	if err != nil {
		t.Fatal(err)
	}
	v.now, v.gen = first.Add(time.Hour), 2
	later, err := compose(status, record{Position: v.position}, v)
	if err != nil {
		t.Fatal(err)
	}
	var s shown
	if err := json.Unmarshal(later, &s); err != nil {
		t.Fatal(err)
	}
	if c := s.Conditions[0]; !c.LastTransitionTime.Equal(first) || c.ObservedGeneration != 2 {
		t.Errorf("condition %+v", c)
	}
	if !s.Fault.At.Equal(first) || len(s.Conditions) != 3 || s.Conditions[2].Type != "Backup" {
		t.Errorf("status %s", later)
	}
	v.position = machine.Position{State: "Running"}
	if later, err = compose(later, record{Position: v.position}, v); err != nil {
		t.Fatal(err)
	}
	s = shown{}
	_ = json.Unmarshal(later, &s)
	if c := s.Conditions[0]; !c.LastTransitionTime.Equal(v.now) || s.Fault != nil {
		t.Errorf("status %s", later)
	}
	if !same(json.RawMessage(`{"a": 1, "b": 2}`), json.RawMessage(`{"b":2,"a":1}`)) || same(json.RawMessage(`{"a": 1}`), json.RawMessage(`{"a":2}`)) {
		t.Error("same is wrong")
	}
}

func TestPatchStatus(t *testing.T) {
	store := control.NewMemory()
	o, err := store.Apply(t.Context(), control.Object{Ref: ref, Spec: json.RawMessage(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	writer := Status{store}
	for _, c := range []struct {
		subject, patch, want string
		kind                 *fault.Kind
	}{
		{Subject(o), `{"a": {"b": 1, "c": 12345678901234567}, "d": [1]}`, `{"a":{"b":1,"c":12345678901234567},"d":[1]}`, nil},
		{Subject(o), `{"a": {"b": null}, "d": "x"}`, `{"a":{"c":12345678901234567},"d":"x"}`, nil},
		{ref.String(), `{"d": null}`, `{"a":{"c":12345678901234567}}`, nil},
		{ref.String() + "/other", `{"d": 1}`, "", control.NotFound},
		{"demo/default/c2", `{"d": 1}`, "", control.NotFound},
		{"nonsense", `{"d": 1}`, "", control.Invalid},
		{Subject(o), `[1]`, "", control.Invalid},
		{Subject(o), `{"conditions": []}`, "", StatusReserved},
	} {
		err := writer.PatchStatus(t.Context(), c.subject, json.RawMessage(c.patch), "key")
		if c.kind != nil {
			if !errors.Is(err, c.kind) {
				t.Errorf("%s of %s: %v", c.patch, c.subject, err)
			}
			continue
		}
		if got, _ := store.Get(t.Context(), ref); err != nil || string(got.Status) != c.want {
			t.Errorf("%s: %s %v, want %s", c.patch, got.Status, err, c.want)
		}
	}
}

func TestObjectOfASubject(t *testing.T) {
	store := control.NewMemory()
	o, err := store.Apply(t.Context(), control.Object{Ref: ref, Spec: json.RawMessage(`{"size": 3}`)})
	if err != nil {
		t.Fatal(err)
	}
	read := Object(store)
	for subject, want := range map[string]string{Subject(o): "3", ref.String(): "3", ref.String() + "/other": "null", "demo/default/c2": "null", "batch-7": "null"} {
		raw, err := read(t.Context(), subject)
		if err != nil {
			t.Fatal(err)
		}
		var v *struct{ Spec struct{ Size int } }
		_ = json.Unmarshal(raw, &v)
		if got := string(raw); v != nil {
			if got = fmt.Sprint(v.Spec.Size); got != want {
				t.Errorf("%s: %s", subject, got)
			}
		} else if got != want {
			t.Errorf("%s: %s", subject, got)
		}
	}
}
