package action

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

// waitLimit is the deadline of a wait. It starts at the recorded start of the wait, so it survives
// restarts. In the first poll the full time remains.
type waitLimit struct {
	deadline  time.Duration
	onTimeout workflow.OnTimeout
	since     time.Time // zero: the first poll
}

func waitLimitOf(t *workflow.Task, deadline duration, onTimeout workflow.OnTimeout) waitLimit {
	p := waitLimit{deadline: time.Duration(deadline), onTimeout: onTimeout}
	if w := t.Waited(); w != nil {
		p.since = w.Since
	}
	return p
}

// left returns the time until the deadline; 0 if there is none. over reports that the deadline has
// passed.
func (p waitLimit) left(now time.Time) (left time.Duration, over bool) {
	if p.deadline <= 0 {
		return 0, false
	}
	if p.since.IsZero() {
		return p.deadline, false
	}
	left = p.since.Add(p.deadline).Sub(now)
	return max(left, 0), left <= 0
}

// expired applies onTimeout. The engine reads the detail and performs the undo.
func (p waitLimit) expired(t *workflow.Task, what string) outcome.Outcome {
	if p.onTimeout == workflow.TimeoutContinue {
		return outcome.Fail(t.Set(map[string]bool{"timedOut": true}))
	}
	err := workflow.WaitExpired.Errorf("%s did not come within %s", what, p.deadline)
	if p.onTimeout == workflow.TimeoutUndo {
		err = err.With("onTimeout", string(workflow.TimeoutUndo))
	}
	return outcome.Fail(err)
}

type sleepWith struct {
	For   duration  `json:"for"`
	Until time.Time `json:"until"`
}

var sleepParams = newParams(`{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object", "additionalProperties": false,
	"properties": {
		"for": `+durationSchema+`,
		"until": {"type": "string", "description": "a time as in RFC 3339: 2026-03-01T02:00:00Z"}
	}}`, nil, func(with map[string]any, wrong report) {
	_, length := with["for"]
	until, instant := with["until"]
	if length == instant {
		wrong(nil, "give for or until, one of the two")
	}
	if text, ok := until.(string); ok {
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			wrong([]string{"until"}, "%q is not a time such as 2026-03-01T02:00:00Z", text)
		}
	}
}).publish(`"oneOf": [{"required": ["for"]}, {"required": ["until"]}]`)

func sleepAction() workflow.Action {
	return workflow.Action{Name: "sleep", Description: "waits for a time span or until an instant, without holding a worker", With: sleepParams, Do: sleep}
}

func sleep(_ context.Context, t *workflow.Task) outcome.Outcome {
	with, err := read[sleepWith](t, sleepParams)
	if err != nil {
		return outcome.Fail(err)
	}
	now := time.Now()
	if !with.Until.IsZero() {
		if left := with.Until.Sub(now); left > 0 {
			return outcome.Wait(left, "Sleeping", "until %s", with.Until.UTC().Format(time.RFC3339))
		}
		return outcome.Done()
	}
	p := waitLimitOf(t, with.For, "")
	if left, over := p.left(now); left > 0 && !over {
		return outcome.Wait(left, "Sleeping", "for %s", p.deadline)
	}
	return outcome.Done()
}

type signalWith struct {
	Name      string             `json:"name"`
	Schema    json.RawMessage    `json:"schema"`
	Deadline  duration           `json:"deadline"`
	OnTimeout workflow.OnTimeout `json:"onTimeout"`
}

const signalNameSchema = `{"type": "string", "pattern": "^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$"`

var signalParams = newParams(`{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object", "additionalProperties": false, "required": ["name"],
	"properties": {
		"name": `+signalNameSchema+`, "description": "the signal's payload becomes the output"},
		"schema": {"type": ["object", "boolean"], "description": "JSON Schema of the payload; a signal that does not fit is dropped"},
		"deadline": `+durationSchema+`,
		"onTimeout": `+onTimeoutSchema+`
	}}`, []string{"/schema"}, func(with map[string]any, wrong report) {
	if schema, ok := with["schema"]; ok {
		if _, err := compile(schema); err != nil {
			wrong([]string{"schema"}, "%v", err)
		}
	}
	needsDeadline(with, wrong)
}).publish(deadlineRule)

const deadlineRule = `"dependentRequired": {"onTimeout": ["deadline"]}`

func needsDeadline(with map[string]any, wrong report) {
	if _, ok := with["onTimeout"]; ok && with["deadline"] == nil {
		wrong([]string{"onTimeout"}, "onTimeout without deadline has no effect")
	}
}

func signalAction() workflow.Action {
	return workflow.Action{Name: "signal", Description: "waits for a signal from outside; its payload becomes the output", With: signalParams, Do: awaitSignal}
}

func awaitSignal(_ context.Context, t *workflow.Task) outcome.Outcome {
	with, err := read[signalWith](t, signalParams)
	if err != nil {
		return outcome.Fail(err)
	}
	reason, message := "AwaitingSignal", "signal "+with.Name
	for {
		s, ok := t.Signal(with.Name)
		if !ok {
			break
		}
		if err := fits(with.Schema, s.Payload); err != nil {
			reason, message = "SignalRefused", "signal "+with.Name+": the payload of "+s.ID+" does not fit: "+err.Error()
			continue
		}
		if len(s.Payload) == 0 {
			return outcome.Done()
		}
		return outcome.Fail(t.Set(s.Payload))
	}
	p := waitLimitOf(t, with.Deadline, with.OnTimeout)
	left, over := p.left(time.Now())
	if over {
		return p.expired(t, "signal "+with.Name)
	}
	if w := t.Waited(); w != nil && w.Reason == "SignalRefused" && reason == "AwaitingSignal" {
		reason, message = w.Reason, w.Message // continue to show the refusal
	}
	return outcome.Wait(left, reason, "%s", message)
}

// fits checks a payload against a JSON Schema. An empty schema accepts everything.
func fits(schema, payload json.RawMessage) error {
	if len(schema) == 0 {
		return nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return err
	}
	compiled, err := compile(doc)
	if err != nil {
		return err
	}
	if len(payload) == 0 {
		payload = json.RawMessage("null")
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(payload))
	if err != nil {
		return err
	}
	err = compiled.Validate(value)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	var found []string
	leaves(invalid, func([]string) []string { return nil }, func(at []string, format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if len(at) > 0 {
			text = strings.Join(at, ".") + " " + text
		}
		found = append(found, text)
	})
	return errors.New(strings.Join(found, "; "))
}
