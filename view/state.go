package view

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/control"
)

// State is the state of an object according to its status: the state of its machine,
// the run of its visit, and its fault. For an object without a machine it has the plain
// keys state, reason and message.
type State struct {
	State, Previous, Event, Reason, Message string

	Since       time.Time
	Run         string
	RunPhase    string
	Step        string
	Fault       *control.FaultRecord
	Progressing bool // work is in progress
	Behind      bool // the status is of an older spec
}

// objectStatus holds the known parts of a status. Parts with another form are ignored.
type objectStatus struct {
	State, Phase, Reason, Message string

	Machine struct {
		Previous, Event, Reason, Message string

		Since time.Time
	}
	RollingState string // of Rollouts
	Waiting      struct{ Reason, Message string }

	Run           json.RawMessage
	Since         time.Time // of objects whose machine is not in the status
	PreviousState string

	Fault      *control.FaultRecord
	Conditions []struct {
		Type, Status, Reason, Message string

		ObservedGeneration int64
	}
}

// StateOf returns the state of an object. An object with a deletion mark and no state is Deleting.
func StateOf(o control.Object) State {
	var parts map[string]json.RawMessage
	_ = json.Unmarshal(o.Status, &parts) // a status with another form is ignored
	var status objectStatus
	for name, into := range map[string]any{"state": &status.State, "phase": &status.Phase, "reason": &status.Reason, "message": &status.Message,
		"machine": &status.Machine, "rollingState": &status.RollingState, "waiting": &status.Waiting, "since": &status.Since, "previousState": &status.PreviousState, "run": &status.Run, "fault": &status.Fault, "conditions": &status.Conditions} {
		_ = json.Unmarshal(parts[name], into)
	}
	s := State{
		State: cmp.Or(status.State, status.Phase, status.RollingState), Previous: cmp.Or(status.Machine.Previous, status.PreviousState), Event: status.Machine.Event, Since: status.Machine.Since,
		Reason: cmp.Or(status.Reason, status.Machine.Reason, status.Waiting.Reason), Message: cmp.Or(status.Message, status.Machine.Message, status.Waiting.Message), Fault: status.Fault,
	}
	if s.Since.IsZero() {
		s.Since = status.Since
	}
	if s.Fault != nil && s.Fault.Code == "" {
		s.Fault = nil
	}
	s.Run, s.RunPhase, s.Step = runOf(status.Run)
	for _, c := range status.Conditions {
		if c.Type != "Progressing" {
			continue
		}
		s.Progressing = c.Status == "True"
		s.Behind = c.ObservedGeneration != 0 && c.ObservedGeneration < o.Generation
		if s.Progressing {
			s.Reason, s.Message = c.Reason, c.Message
		}
	}
	if IsApplication(o) {
		s = s.ofApplication(parts["latestRevision"], status)
	}
	if s.State == "" && o.Deleting() {
		s.State = "Deleting"
	}
	return s
}

// ofApplication is the state of an Application: its newest revision, and why that is not ready.
func (s State) ofApplication(latest json.RawMessage, status objectStatus) State {
	_ = json.Unmarshal(latest, &s.State)
	for _, c := range status.Conditions {
		if c.Type == "Ready" {
			s.Reason, s.Message = c.Reason, c.Message
		}
	}
	return s
}

// runOf parses the run of a status: an id, or an object with id, phase and step.
func runOf(raw json.RawMessage) (id, phase, step string) {
	if json.Unmarshal(raw, &id) == nil {
		return id, "", ""
	}
	var run struct{ ID, Phase, Step string }
	_ = json.Unmarshal(raw, &run)
	return run.ID, run.Phase, run.Step
}

// Line returns in one line why the object is in its state.
func (s State) Line() string {
	if s.Fault != nil {
		return join(" ", string(s.Fault.Code), oneLine(cmp.Or(s.Fault.Message, s.Fault.Title)))
	}
	reason := s.Reason
	if strings.EqualFold(reason, s.State) {
		reason = ""
	}
	step := s.Step
	if strings.Contains(s.Message, step) {
		step = ""
	}
	return join(" ", reason, oneLine(s.Message), step)
}
