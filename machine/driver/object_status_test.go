package driver

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// TestFinding13StatusOf: what the driver writes into a status is what its type reads, and a
// status of one's own embeds it.
func TestFinding13StatusOf(t *testing.T) {
	position := machine.Position{State: "Broken", Run: "r1"}
	v := view{position: position, gaveUp: fault.Unknown.Errorf("no"), run: &machine.RunFacts{ID: "r1", Phase: runtype.Paused, Step: "S"}, gen: 3, now: time.Unix(1, 0).UTC()}
	raw, err := compose(json.RawMessage(`{"volume": "v1"}`), record{Position: position}, v)
	if err != nil {
		t.Fatal(err)
	}
	o := control.Object{Status: raw}
	s, err := StatusOf(o)
	if err != nil {
		t.Fatal(err)
	}
	ready := s.Condition("Ready")
	if s.State != "Broken" || ready == nil || ready.ObservedGeneration != 3 || s.Condition("Nobody") != nil ||
		s.Run == nil || *s.Run != (Run{ID: "r1", Phase: runtype.Paused, Step: "S"}) || s.Fault == nil || s.Fault.Message != "no" {
		t.Errorf("%+v of %s", s, raw)
	}
	var own struct {
		ObjectStatus
		Volume string
	}
	if err := json.Unmarshal(raw, &own); err != nil || own.Volume != "v1" || own.State != "Broken" {
		t.Errorf("%+v %v", own, err)
	}
	if s, err := StatusOf(control.Object{}); err != nil || s.State != "" {
		t.Errorf("%+v %v", s, err)
	}
	if _, err := StatusOf(control.Object{Status: json.RawMessage(`[]`)}); fault.Of(err) != control.Invalid {
		t.Errorf("%v", err)
	}
}
