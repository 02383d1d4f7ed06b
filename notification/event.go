package notification

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The types of events.
const (
	RunPaused    = "run.paused"
	RunSucceeded = "run.succeeded"
	RunCancelled = "run.cancelled" // somebody has asked for it
	RunFailed    = "run.failed"    // a fault has cancelled it: a deadline, a wait that expired, a healer that undoes
	FaultRaised  = "fault.raised"
	FaultHealed  = "fault.healed"

	ObjectInterrupted = "object.interrupted" // its work has stopped
	ObjectRecovered   = "object.recovered"
	ClusterAlert      = "cluster.alert" // of a container cluster
	ClusterRecovered  = "cluster.recovered"

	Test = "test" // of pawl notify test
)

// Types lists the types of events that a spec may name.
var Types = []string{RunPaused, RunSucceeded, RunCancelled, RunFailed, FaultRaised, FaultHealed, ObjectInterrupted, ObjectRecovered, ClusterAlert, ClusterRecovered}

// verbs say what has happened.
var verbs = map[string]string{
	RunPaused: "paused", RunSucceeded: "succeeded", RunCancelled: "was cancelled", RunFailed: "failed", FaultRaised: "met a fault", FaultHealed: "was healed",
	ObjectInterrupted: "is interrupted", ObjectRecovered: "has recovered", ClusterAlert: "is in alert", ClusterRecovered: "has recovered",
}

// Event is what a webhook tells of. Templates use its fields.
type Event struct {
	Type    string            `json:"type"`
	Time    time.Time         `json:"time"`
	Run     string            `json:"run,omitempty"` // id
	Seq     int64             `json:"seq,omitempty"` // of the event in the history of its run, or of clusters
	Flow    string            `json:"flow,omitempty"`
	Subject string            `json:"subject,omitempty"` // kind/namespace/name, of a cluster its id
	Labels  map[string]string `json:"labels,omitempty"`  // of the run, or of the object
	Step    string            `json:"step,omitempty"`
	Code    string            `json:"code,omitempty"` // of the fault
	Title   string            `json:"title,omitempty"`
	Remedy  string            `json:"remedy,omitempty"`
	Message string            `json:"message,omitempty"`
	Actor   string            `json:"actor,omitempty"`
	Reason  string            `json:"reason,omitempty"`
}

// maxMessage is how much of a message a webhook tells, in bytes: a status holds hundreds.
const maxMessage = 500

// kinds are those of the history that have a type.
var kinds = []runtype.EventKind{runtype.RunPaused, runtype.RunSucceeded, runtype.RunCancelled, runtype.StepFailedEvent, runtype.HealingEnded}

// typeOf returns the type of an event of a history; empty: nobody is told.
func typeOf(e runtype.Event) string {
	switch e.Kind {
	case runtype.RunPaused:
		return RunPaused
	case runtype.RunSucceeded:
		return RunSucceeded
	case runtype.RunCancelled:
		if e.Code != "" {
			return RunFailed
		}
		return RunCancelled
	case runtype.StepFailedEvent:
		return FaultRaised
	case runtype.HealingEnded:
		if e.Reason == runtype.Healed {
			return FaultHealed
		}
	}
	return ""
}

// eventOf is an event of a run.
func eventOf(e runtype.Event, r *runtype.Run) Event {
	out := Event{Type: typeOf(e), Time: e.At.UTC(), Run: e.Run, Seq: e.Seq, Flow: r.Flow, Subject: r.Subject, Labels: r.Labels, Step: e.Step,
		Code: string(e.Code), Message: cut(e.Message), Actor: cut(e.Actor), Reason: cut(e.Reason)}
	return out.explained()
}

// explained has title and remedy of its fault.
func (e Event) explained() Event {
	if kind, ok := fault.Lookup(e.Code); ok {
		e.Title, e.Remedy = kind.Title, kind.Remedy
	}
	return e
}

func cut(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + "…"
}

// ID is the webhook-id of an event for a notification: the same whichever server sends it, however often.
func (e Event) ID(uid string) string {
	return "msg_" + uid + "_" + e.Run + "_" + strconv.FormatInt(e.Seq, 10)
}

func among(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }

// body is the payload of the format json.
func (e Event) body() ([]byte, error) {
	return json.Marshal(struct {
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Data      Event     `json:"data"`
	}{e.Type, e.Time, e})
}

// Text tells of an event in one line.
func (e Event) Text() string {
	if e.Type == Test {
		return "A test of Pawl's notifications: " + e.Message
	}
	text := e.Subject
	if e.Flow != "" {
		text = "Run " + e.Run + " of " + e.Flow + " (" + e.Subject + ")"
	}
	text += " " + verbs[e.Type]
	if e.Step != "" {
		text += " at step " + e.Step
	}
	if e.Code != "" {
		text += ": " + e.Code
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}
