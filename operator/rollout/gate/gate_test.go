package gate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/rollout/gate"
	"github.com/pawl-dev/pawl/rollout"
)

func facts() (rollout.Plan, rollout.Position, rollout.Facts, time.Time) {
	now := time.Date(2026, 11, 24, 21, 30, 0, 0, time.UTC) // 22:30 in Berlin
	p := rollout.Plan{Probes: []rollout.Probe{{Name: "lag", Parse: rollout.ParseNumber}, {Name: "state", Parse: rollout.ParseJSON}, {Name: "up"}}}
	at := rollout.Position{
		State: rollout.InBatch, Mode: rollout.Rollout, Number: 3, CurrentBatch: 1, TargetHash: "r2", TargetRevision: "r2", SourceRevision: "r1",
		Batches: map[int]rollout.BatchPosition{0: {Size: 1, Target: 1}, 1: {Size: 2, Target: 3}},
		Answers: map[string]rollout.AnswerPosition{"uid/3/rollout/1/metric/errors": {Value: "0.25"}, "uid/3/rollout/1/gate/g": {Value: "7"}},
	}
	f := rollout.Facts{
		Rollout: rollout.Identity{Namespace: "shop", Name: "db", UID: "uid"},
		Target:  &rollout.WorkloadFacts{Kind: rollout.StatefulSet, Name: "db", Replicas: 3, UpdateRevision: "r2", Template: "r2"},
		Pods: []rollout.Pod{
			{Name: "db-0", Role: "leader", Revision: "r1", Ready: true, Zone: "a", Labels: map[string]string{"disk": "nvme"}},
			{Name: "db-1", Ordinal: 1, Role: "voter", Revision: "r2", Zone: "b", Restarts: 2},
			{Name: "db-2", Ordinal: 2, Role: "voter", Revision: "r2", Ready: true, Zone: "a", Probes: map[string]rollout.ProbeFacts{
				"lag": {Passing: true, Value: "12.5"}, "state": {Passing: true, Value: `{"term": 4}`}, "up": {Passing: true, Value: "ok"}}},
		},
	}
	return p, at, f, now
}

func TestEvaluate(t *testing.T) {
	set := &gate.Set{}
	for _, c := range []struct {
		expression string
		open       bool
		seen       string // of the answer's value or message
	}{
		{`pods.filter(p, p.role == "voter" && p.ready).size() >= 2`, false, `.size() is 1`},
		{`pods.filter(p, p.role == "voter").size() >= 2`, true, "is 2"},
		{`now.getHours("Europe/Berlin") >= 22 || now.getHours("Europe/Berlin") < 5`, true, `is 22`},
		{`now.getHours() >= 22 || now.getHours() < 5`, false, "is 21"},
		{`metrics["errors"] < 0.1`, false, "is 0.25"},
		{`metrics["absent"] < 0.1`, false, "no such key: absent"},
		{`batch.index == 1 && batch.size == 2 && batch.target == 3`, true, "batch.index is 1"},
		{`workload.kind == "StatefulSet" && workload.replicas == 3 && workload.revision == "r2"`, true, `workload.kind is "StatefulSet"`},
		{`rollout.name == "db" && rollout.namespace == "shop" && rollout.number == 3 && rollout.batches == 2`, true, ""},
		{`pods.all(p, p.probes["lag"].value < 20.0)`, false, "no such key: lag"},
		{`pods.exists(p, "lag" in p.probes && p.probes["lag"].value < 20.0)`, true, ""},
		{`pods[2].probes["state"].value.term == 4`, true, "is 4"},
		{`pods[2].probes["up"].value == "ok" && pods[2].probes["up"].passing`, true, ""},
		{`pods[0].labels["disk"] == "nvme" && !pods[0].updated && pods[2].updated && pods[2].available && !pods[1].available`, true, ""},
		{`pods.map(p, p.zone).distinct().size() == 2`, true, "is 2"},
		{`!(batch.index < 5)`, false, "batch.index is 1"},
		{`batch.index / 0 == 1`, false, "division by zero"},
		{`pods[2].probes["state"].value`, false, "not true or false"},
	} {
		p, at, f, now := facts()
		a := set.Evaluate(t.Context(), rollout.Gate{Name: "g", Expression: c.expression}, gate.VariablesOf(p, at, f, now))
		if a.Open != c.open || !strings.Contains(a.Value+a.Message, c.seen) {
			t.Errorf("%s: %+v", c.expression, a)
		}
	}
}

func TestCheck(t *testing.T) {
	set := &gate.Set{}
	for expression, problem := range map[string]string{
		`pods.size() > 0`:                       "",
		`pods.size()`:                           "the expression is a int",
		`pods.filter(p, p.redy)`:                "undefined field 'redy'",
		`batch.index ==`:                        "line 1, column 15",
		`workload.replicas == "x"`:              "no matching overload",
		`nowhere`:                               "undeclared reference",
		strings.Repeat("true&&", 2000) + "true": "has more than",
	} {
		for path, p := range map[string]rollout.Plan{
			"gates[0].expression":                   {Gates: []rollout.Gate{{Name: "g", Expression: expression}}},
			"rolloutBatches[1].gates[0].expression": {RolloutBatches: []rollout.Batch{{}, {Gates: []rollout.Gate{{Name: "g", Expression: expression}}}}},
		} {
			err := set.Check(p)
			switch {
			case problem == "" && err == nil:
			case fault.Of(err) != rollout.GateInvalid || !strings.Contains(err.Error(), problem) || !strings.Contains(err.Error(), path):
				t.Errorf("%.40s: %v", expression, err)
			}
		}
	}
}

// TestCost: an expression that costs too much keeps its gate closed.
func TestCost(t *testing.T) {
	p, at, f, now := facts()
	for range 300 {
		f.Pods = append(f.Pods, rollout.Pod{Name: "more"})
	}
	a := (&gate.Set{}).Evaluate(t.Context(), rollout.Gate{Expression: `pods.all(p, pods.all(q, pods.exists(r, r.name == "nobody") || p.name != q.name + "x"))`}, gate.VariablesOf(p, at, f, now))
	if a.Open || !strings.Contains(a.Message, "cost limit") {
		t.Errorf("it is %+v", a)
	}
}
