package rollout_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/rollout"
	"pgregory.net/rapid"
)

// drawn are random plans with every field that has a default, or stands beside one.
func drawn(t *rapid.T) rollout.Plan {
	maybe := func(what string) bool { return rapid.Bool().Draw(t, what) }
	amount := func(what string) *rollout.IntOrPercent {
		switch rapid.IntRange(0, 2).Draw(t, what) {
		case 1:
			return rollout.Int(rapid.IntRange(0, 4).Draw(t, what+" pods"))
		case 2:
			return rollout.Percent(rapid.IntRange(0, 60).Draw(t, what+" percent"))
		}
		return nil
	}
	then := rapid.SampledFrom([]rollout.OnFailure{"", rollout.OnFailurePause, rollout.OnFailureRollback, rollout.OnFailureContinue})
	gates := func(name string) []rollout.Gate {
		if !maybe("gate " + name) {
			return nil
		}
		return []rollout.Gate{{Name: name, When: rollout.BeforePod, Expression: "true", OnFailure: then.Draw(t, "gate")}}
	}
	hooks := func(name string) []rollout.Hook {
		switch rapid.IntRange(0, 2).Draw(t, "hook "+name) {
		case 1:
			return []rollout.Hook{{Name: name, Type: rollout.PreBatchHook, URL: "http://x", OnFailure: then.Draw(t, "hook")}}
		case 2:
			return []rollout.Hook{{Name: name, Type: rollout.PostBatchHook, Flow: "f"}}
		}
		return nil
	}
	metrics := func(name string) []rollout.Metric {
		if !maybe("metric " + name) {
			return nil
		}
		m := rollout.Metric{Name: name, Provider: rollout.MetricProvider{Prometheus: &rollout.Prometheus{Address: "http://p", Query: "up"}}}
		one, err := rollout.ParseDecimal("1")
		if err != nil {
			t.Fatal(err)
		}
		m.MetricsRange.Min = &one
		return []rollout.Metric{m}
	}
	p := rollout.Plan{
		RolloutStrategy: rapid.SampledFrom([]rollout.Strategy{"", rollout.DecreaseFirst}).Draw(t, "strategy"), OnFailure: then.Draw(t, "on failure"),
		Gates: gates("g"), RolloutWebhooks: hooks("h"), CanaryMetric: metrics("m"), Soak: rollout.Duration(rapid.IntRange(0, 3).Draw(t, "soak")) * rollout.Duration(time.Second),
	}
	if maybe("deadline") {
		p.BatchDeadline = seconds(rapid.IntRange(1, 9).Draw(t, "seconds"))
	}
	if maybe("rollback") {
		p.Rollback = &rollout.RollbackPlan{}
	}
	if maybe("probe") {
		p.Probes = []rollout.Probe{{Name: "p", TCP: &rollout.TCPProbe{Port: 1}}}
	}
	if maybe("order") {
		p.Order = &rollout.Order{RoleLabel: "role", Roles: []string{"a"}}
	}
	if maybe("disruption") {
		p.Disruption = &rollout.Disruption{MaxUnavailable: amount("away"), MaxUnavailablePerZone: amount("away in a zone")}
		p.Disruption.ZoneKey = rapid.SampledFrom([]string{"", "zone"}).Draw(t, "zone key")
		if maybe("quorum") {
			p.Disruption.Quorum = &rollout.Quorum{MinHealthy: rollout.Majority}
		}
	}
	if maybe("numBatches") {
		p.NumBatches = new(rapid.IntRange(1, 200).Draw(t, "batches"))
	}
	if maybe("rolloutBatches") {
		p.RolloutBatches = make([]rollout.Batch, rapid.IntRange(1, 4).Draw(t, "listed"))
		for i := range p.RolloutBatches {
			p.RolloutBatches[i] = rollout.Batch{Replicas: amount("replicas"), MaxUnavailable: amount("slack"), Gates: gates("b"), BatchRolloutWebhooks: hooks("c"), CanaryMetric: metrics("d")}
			if i == 0 && maybe("named") {
				p.RolloutBatches[i].Pods = &rollout.PodSet{Ordinals: []string{"0-1"}}
			}
		}
	}
	return p
}

// TestDefaultsAreNoProblem: a plan that is accepted is accepted with its defaults too, and they stay as
// they are.
func TestDefaultsAreNoProblem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawn(t)
		if p.Problems() != nil {
			return
		}
		total := rapid.IntRange(-1, 9).Draw(t, "total")
		d := p.Defaulted(total)
		if found := d.Problems(); found != nil {
			t.Fatalf("the defaults are refused: %v", found)
		}
		again := d.Defaulted(total)
		if planText(t, again) != planText(t, d) {
			t.Fatalf("the defaults have defaults:\n%s\n%s", planText(t, d), planText(t, again))
		}
	})
}

// TestAnEditBesideABudget: a budget without one of its fields is no reason to refuse an edit.
func TestAnEditBesideABudget(t *testing.T) {
	for _, d := range []rollout.Disruption{
		{MaxUnavailable: rollout.Int(1)},
		{Quorum: &rollout.Quorum{Selector: rollout.Selector{MatchLabels: map[string]string{"app": "db"}}, MinHealthy: rollout.Majority}},
		{MaxUnavailablePerZone: rollout.Int(1)},
	} {
		p, _ := forward(t, rollout.Plan{RolloutBatches: batches(1, 4), BatchPartition: new(0), Disruption: &d})
		p.waitsFor("HeldByPartition")
		p.plan.RolloutBatches = batches(1, 1, 3)
		p.plan.Soak = *seconds(1)
		p.pass()
		if p.at.PlanRefused != "" || len(p.at.Batches) != 3 {
			t.Errorf("%q, %d batches", p.at.PlanRefused, len(p.at.Batches))
		}
	}
}

// TestAnApprovalBesideARefusedEdit: a batch is not approved with another size than the plan shows.
func TestAnApprovalBesideARefusedEdit(t *testing.T) {
	for _, test := range []struct {
		name    string
		to      []rollout.Batch
		approve string
		code    string
	}{
		{"the next one is narrower", batches(2, 1, 2), "next", "PLAN_CHANGE_REFUSED"},
		{"the next one is not there", batches(5), "next", "PLAN_CHANGE_REFUSED"},
		{"a later one is narrower", batches(2, 2, 1), "next", ""},
		{"a later one is narrower, and all are approved", batches(2, 2, 1), "all", "PLAN_CHANGE_REFUSED"},
		{"an edit that is accepted", batches(1, 1, 3), "next", ""},
	} {
		p, sim := forward(t, rollout.Plan{RolloutBatches: batches(1, 2, 2), BatchPartition: new(0)})
		p.waitsFor("HeldByPartition")
		p.plan.RolloutBatches = test.to
		sim.Wanted.Request = &rollout.Request{ID: "1", Verb: rollout.Approve, Argument: test.approve}
		p.pass()
		if got := p.at.LastRequest; got.Code != test.code || (p.at.Approved == nil) != (test.code != "") {
			t.Errorf("%s: it is answered with %+v, approved %+v", test.name, got, p.at.Approved)
		}
		p.pass() // the edit and the approval may come in one pass or in two
		if want := test.name != "an edit that is accepted"; (p.at.PlanRefused != "") != want {
			t.Errorf("%s: refused %q", test.name, p.at.PlanRefused)
		}
	}
}

// TestAnEditToAGateThatCannotBe: it is refused as an edit, the gate is closed, and nothing else of the edit is
// taken over. One that can be evaluated goes on.
func TestAnEditToAGateThatCannotBe(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(1, 4), BatchPartition: new(0)})
	p.waitsFor("HeldByPartition")
	sim.Answers = func(a rollout.Ask) rollout.Answer {
		if a.Gate.Expression == "foo()" {
			return rollout.Answer{Code: rollout.GateInvalid.Code, Message: "undeclared reference to 'foo'"}
		}
		return rollout.Answer{Open: true}
	}
	p.plan = rollout.Plan{RolloutBatches: batches(1, 1, 3), Gates: []rollout.Gate{{Name: "g", When: rollout.BeforeBatch, Expression: "foo()"}}}
	sim.GateProblem = "gates[0].expression: gate g: undeclared reference to 'foo'"
	p.pass()
	if !strings.Contains(p.at.PlanRefused, "gates[0].expression") || len(p.at.Batches) != 2 {
		t.Fatalf("%q, %d batches", p.at.PlanRefused, len(p.at.Batches))
	}
	p.waitsFor("GateInvalid")
	if p.at.CurrentBatch != 1 || sim.Target().Partition != 4 {
		t.Errorf("batch %d, partition %d", p.at.CurrentBatch, sim.Target().Partition)
	}
	sim.GateProblem, p.plan.Gates[0].Expression, p.plan.RolloutBatches = "", "true", batches(1, 4)
	p.ends(rollout.Succeeded)
	if p.at.PlanRefused != "" {
		t.Errorf("%q", p.at.PlanRefused)
	}
}

// TestARefusedEditNamesWhatIsLost: batches that the plan has no more run without what it said of them.
func TestARefusedEditNamesWhatIsLost(t *testing.T) {
	p, _ := forward(t, rollout.Plan{RolloutBatches: batches(1, 2, 2), BatchPartition: new(0)})
	p.waitsFor("HeldByPartition")
	p.plan.RolloutBatches = batches(2, 3)
	p.pass()
	if !strings.Contains(p.at.PlanRefused, "the batches from 2 on run as they were recorded") {
		t.Errorf("%q", p.at.PlanRefused)
	}
}

func planText(t *rapid.T, p rollout.Plan) string {
	written, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(written)
}
