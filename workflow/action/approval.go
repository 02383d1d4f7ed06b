package action

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// reject is the choice for which one vote is enough.
const reject = "reject"

type approvalWith struct {
	Message   string             `json:"message"`
	Name      string             `json:"name"`
	Choices   []string           `json:"choices"`
	By        []string           `json:"by"`
	Count     int                `json:"count"`
	Deadline  duration           `json:"deadline"`
	OnTimeout workflow.OnTimeout `json:"onTimeout"`
	OnReject  string             `json:"onReject"`
}

var approvalParams = newParams(`{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object", "additionalProperties": false,
	"properties": {
		"message": {"type": "string", "description": "question for the approvers"},
		"name": `+signalNameSchema+`, "default": "approval", "description": "name of the signal that carries a vote; needed where two approvals of a run wait side by side"},
		"choices": {"type": "array", "minItems": 1, "uniqueItems": true, "items": {"type": "string", "minLength": 1}, "default": ["approve", "reject"]},
		"by": {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}, "description": "who may vote: actors, or group:NAME; default anyone"},
		"count": {"type": "integer", "minimum": 1, "maximum": 100, "default": 1, "description": "distinct actors that must agree; one reject is enough"},
		"deadline": `+durationSchema+`,
		"onTimeout": `+onTimeoutSchema+`,
		"onReject": {"enum": ["fail", "continue"], "default": "fail", "description": "fail is REJECTED"}
	}}`, nil, needsDeadline).publish(deadlineRule)

func approvalAction(groups func(string) []string) workflow.Action {
	return workflow.Action{
		Name:        "approval",
		Description: "waits until people have decided",
		With:        approvalParams,
		Do: func(_ context.Context, t *workflow.Task) outcome.Outcome {
			return approval(t, groups)
		},
	}
}

// approval reads the votes without taking them until there is a decision, so that a crash loses
// none. A rejection needs two polls, because a failure consumes no signal: first a wait takes the
// votes and records the rejection, then the next poll fails. After a resume the approvers vote
// again.
func approval(t *workflow.Task, groups func(string) []string) outcome.Outcome {
	with, err := read[approvalWith](t, approvalParams)
	if err != nil {
		return outcome.Fail(err)
	}
	if w := t.Waited(); w != nil && w.Reason == "Rejected" {
		return outcome.Fail(workflow.Rejected.Errorf("%s", w.Message))
	}
	ballot := with.ballot(groups)
	signals := t.Signals(ballot.name)
	for _, s := range signals {
		ballot.addVote(s)
		if decided, ok := ballot.decided(); ok {
			return decide(t, with, ballot, decided)
		}
	}
	p := waitLimitOf(t, with.Deadline, with.OnTimeout)
	left, over := p.left(time.Now())
	if over {
		take(t, ballot.name, len(signals))
		return p.expired(t, "the approval")
	}
	return outcome.Wait(left, "AwaitingApproval", "%s", ballot.summary(with.Message))
}

func decide(t *workflow.Task, with approvalWith, ballot *ballot, made decision) outcome.Outcome {
	take(t, ballot.name, ballot.signalsRead)
	if made.Choice == reject && with.OnReject != "continue" {
		text := "rejected by " + strings.Join(named(made.Actors), ", ")
		if comment := made.Comments[made.Actors[len(made.Actors)-1]]; comment != "" {
			text += ": " + comment
		}
		return outcome.Wait(time.Nanosecond, "Rejected", "%s", text)
	}
	return outcome.Fail(t.Set(made))
}

// take consumes the oldest n signals of a name.
func take(t *workflow.Task, name string, n int) {
	for range n {
		if _, ok := t.Signal(name); !ok {
			return
		}
	}
}

// decision is the output of an approval.
type decision struct {
	Choice   string            `json:"choice"`
	Actors   []string          `json:"actors"`   // actors who chose it, in order
	Comments map[string]string `json:"comments"` // comments of all voters, by actor
}

// ballot counts votes. Only the newest vote of an actor counts.
type ballot struct {
	name    string
	choices []string
	count   int
	allowed func(actor string) bool

	signalsRead int // number of signals read
	refused     int // number of signals that are not a valid vote
	voters      []string
	votes       map[string]vote
}

// vote is the payload of an approval's signal; a bare string is the choice.
type vote struct {
	Choice  string `json:"choice"`
	Comment string `json:"comment"`
}

func (w approvalWith) ballot(groups func(string) []string) *ballot {
	p := &ballot{name: w.Name, choices: w.Choices, count: max(w.Count, 1), votes: map[string]vote{}}
	if p.name == "" {
		p.name = "approval"
	}
	if len(p.choices) == 0 {
		p.choices = []string{"approve", reject}
	}
	p.allowed = func(actor string) bool { return len(w.By) == 0 || actor != "" && w.mayVote(actor, groups) }
	return p
}

// mayVote reports whether an actor is listed, alone or by one of its groups. An actor whose name
// looks like a group does not become that group.
func (w approvalWith) mayVote(actor string, groups func(string) []string) bool {
	if slices.Contains(w.By, actor) && !strings.HasPrefix(actor, "group:") {
		return true
	}
	return groups != nil && slices.ContainsFunc(groups(actor), func(g string) bool { return slices.Contains(w.By, "group:"+g) })
}

func (p *ballot) addVote(s runtype.Signal) {
	p.signalsRead++
	v, ok := readVote(s.Payload)
	if !ok || !slices.Contains(p.choices, v.Choice) || !p.allowed(s.Actor) {
		p.refused++
		return
	}
	p.voters = append(slices.DeleteFunc(p.voters, func(a string) bool { return a == s.Actor }), s.Actor)
	p.votes[s.Actor] = v
}

func readVote(payload json.RawMessage) (vote, bool) {
	var v vote
	if json.Unmarshal(payload, &v.Choice) == nil && v.Choice != "" {
		return v, true
	}
	v = vote{}
	return v, json.Unmarshal(payload, &v) == nil && v.Choice != ""
}

// decided returns the choice on which enough distinct actors agree.
func (p *ballot) decided() (decision, bool) {
	for _, choice := range p.choices {
		needed := p.count
		if choice == reject {
			needed = 1
		}
		if agree := p.votersFor(choice); len(agree) >= needed {
			d := decision{Choice: choice, Actors: agree, Comments: map[string]string{}}
			for actor, v := range p.votes {
				if v.Comment != "" {
					d.Comments[actor] = v.Comment
				}
			}
			return d, true
		}
	}
	return decision{}, false
}

func (p *ballot) votersFor(choice string) []string {
	return slices.DeleteFunc(slices.Clone(p.voters), func(a string) bool { return p.votes[a].Choice != choice })
}

// summary returns the message of the wait: the question and the votes so far.
func (p *ballot) summary(question string) string {
	parts := []string{}
	if question != "" {
		parts = append(parts, question)
	}
	parts = append(parts, fmt.Sprintf("signal %s with one of %s", p.name, strings.Join(p.choices, ", ")))
	for _, choice := range p.choices {
		if agree := p.votersFor(choice); len(agree) > 0 {
			parts = append(parts, fmt.Sprintf("%d of %d %s: %s", len(agree), p.count, choice, strings.Join(named(agree), ", ")))
		}
	}
	if p.refused > 0 {
		parts = append(parts, fmt.Sprintf("%d not counted", p.refused))
	}
	return strings.Join(parts, "; ")
}

func named(actors []string) []string {
	names := slices.Clone(actors)
	for i, name := range names {
		if name == "" {
			names[i] = "an unnamed actor"
		}
	}
	return names
}
