package rollout_test

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/rollout"
)

// TestTheRemedyOfAGate: what it says works. A closed gate without a timeout is opened or edited, and retry
// and resume say why they do nothing; after a timeout both act.
func TestTheRemedyOfAGate(t *testing.T) {
	for _, words := range []string{"when the expression is true", "when the gate is edited", "If it is paused", "retry waits for the gate again", "resume goes past it"} {
		if !strings.Contains(rollout.GateClosed.Remedy, words) {
			t.Errorf("the remedy does not say %q", words)
		}
	}
	for _, test := range []struct {
		name    string
		timeout *rollout.Duration
		verb    rollout.Verb
		answer  string // the code
		edit    bool
		state   rollout.State
	}{
		{"resume of an open wait", nil, rollout.Resume, "NOT_PAUSED", false, rollout.InBatch},
		{"retry of an open wait", nil, rollout.Retry, "NOT_PAUSED", false, rollout.InBatch},
		{"an edit of an open wait", nil, "", "", true, rollout.Succeeded},
		{"resume after the timeout", seconds(60), rollout.Resume, "", false, rollout.Succeeded},
		{"retry after the timeout", seconds(60), rollout.Retry, "", false, rollout.InBatch},
		{"retry of an edited gate after the timeout", seconds(60), rollout.Retry, "", true, rollout.Succeeded},
	} {
		p, sim := forward(t, rollout.Plan{Gates: []rollout.Gate{{Name: "g", When: rollout.BeforeBatch, Expression: "false", Timeout: test.timeout}}})
		sim.Answers = func(a rollout.Ask) rollout.Answer { return rollout.Answer{Open: a.Gate.Expression == "true"} }
		p.until(test.name, func() bool {
			return (p.at.Pause != nil) == (test.timeout != nil) && p.at.Waiting.Reason == "GateClosed"
		})
		if test.edit {
			p.plan.Gates[0].Expression = "true"
		}
		if test.verb != "" {
			sim.Wanted.Request = &rollout.Request{ID: "1", Verb: test.verb}
			p.pass()
			if got := p.at.LastRequest; got.Code != test.answer || test.answer != "" && !strings.Contains(got.Message, "GateClosed") {
				t.Errorf("%s is answered with %+v", test.name, got)
			}
		}
		if test.state.Terminal() {
			p.ends(test.state)
			continue
		}
		for range 20 {
			p.pass()
		}
		p.waitsFor("GateClosed")
		if p.at.State != test.state || p.at.Pause != nil {
			t.Errorf("%s: %s, %+v, %+v", test.name, p.at.State, p.at.Waiting, p.at.Pause)
		}
	}
}

// TestAGateThatOpensLate: a pod of the batch before has fallen meanwhile, so that the next one is not released.
func TestAGateThatOpensLate(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(1, 4), Gates: []rollout.Gate{{Name: "g", When: rollout.BeforeBatch, Expression: "x"}}})
	open := true
	sim.Answers = func(rollout.Ask) rollout.Answer { return rollout.Answer{Open: open} }
	p.until("the first batch is moving", func() bool { return p.at.BatchState == rollout.BatchVerifying })
	open = false
	p.until("the gate of the second is closed", func() bool { return p.at.CurrentBatch == 1 && p.at.Waiting.Reason == "GateClosed" })
	sim.Break("r2")
	sim.Fail("db-4")
	open = true
	for range 10 {
		p.pass()
	}
	p.waitsFor("BatchNotReady")
	if got := sim.Target().Partition; got != 4 {
		t.Errorf("the partition is %d", got)
	}
}
