package rollout_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/rollout/workloadtest"
)

// play moves a rollout until it rests, and returns where it stands and what it has recorded.
type player struct {
	t       *testing.T
	sim     *workloadtest.Sim
	plan    rollout.Plan
	at      rollout.Position
	last    rollout.Decision
	records []rollout.Record
	look    func(p *player) // after each step
}

func newPlayer(t *testing.T, sim *workloadtest.Sim, plan rollout.Plan) *player {
	t.Helper()
	return &player{t: t, sim: sim, plan: plan}
}

// pass is one decision and what follows from it.
func (p *player) pass() {
	f, err := p.sim.Observe(context.Background())
	if err != nil {
		p.t.Fatal(err)
	}
	p.last = rollout.Next(p.plan, p.at, f, p.sim.Now())
	p.at = p.last.Position
	p.records = append(p.records, p.last.Records...)
	// Whoever takes over after the decision was saved, and before its acts were sent, says nothing twice.
	for _, again := range rollout.Next(p.plan, p.at, f, p.sim.Now()).Records {
		if slices.ContainsFunc(p.last.Records, func(r rollout.Record) bool {
			return r.Event == again.Event && r.From == again.From && r.Batch == again.Batch && slices.Equal(r.Pods, again.Pods)
		}) {
			p.t.Errorf("%s is recorded twice", again.Event)
		}
	}
	for _, a := range p.last.Acts {
		if err := p.sim.Apply(context.Background(), a); err != nil {
			p.t.Fatalf("%s: %v", a.Why, err)
		}
	}
	p.sim.Answer(p.last.Asks)
	p.sim.Step()
	if testing.Verbose() {
		fmt.Println(p.sim, p.at.State, p.at.BatchState, p.at.CurrentBatch, p.last.Outcome, len(p.last.Asks))
	}
	if p.look != nil {
		p.look(p)
	}
}

// until passes until a condition holds.
func (p *player) until(what string, holds func() bool) {
	p.t.Helper()
	for range 400 {
		p.pass()
		if holds() {
			return
		}
	}
	p.t.Fatalf("%s did not come: %s/%s batch %d, %s; %s", what, p.at.State, p.at.BatchState, p.at.CurrentBatch, p.last.Outcome, p.sim)
}

func (p *player) ends(state rollout.State) {
	p.t.Helper()
	p.until("the end", func() bool { return p.at.State.Terminal() })
	if p.at.State != state {
		p.t.Fatalf("it ended as %s (%+v), not as %s", p.at.State, p.at.Failure, state)
	}
}

func (p *player) waitsFor(reason string) {
	p.t.Helper()
	p.until("wait "+reason, func() bool { return p.at.Waiting != nil && p.at.Waiting.Reason == reason })
}

func (p *player) revisions() string {
	f, _ := p.sim.Observe(context.Background())
	var all []string
	for _, pod := range f.Pods {
		all = append(all, pod.Revision)
	}
	return strings.Join(all, " ")
}

func batches(sizes ...int) []rollout.Batch {
	var all []rollout.Batch
	for _, n := range sizes {
		all = append(all, rollout.Batch{Replicas: rollout.Int(n)})
	}
	return all
}

func TestRolloutInPlace(t *testing.T) {
	for _, kind := range []rollout.Kind{rollout.StatefulSet, rollout.CloneSet, rollout.AdvancedStatefulSet} {
		t.Run(string(kind), func(t *testing.T) {
			sim := workloadtest.NewSim(kind, 5)
			sim.Wanted.HoldAlways = true
			p := newPlayer(t, sim, rollout.Plan{RolloutBatches: batches(1, 2, 2)})
			p.waitsFor("NothingToRoll")
			if got := sim.Target().Partition; got != rollout.HoldAll {
				t.Fatalf("the partition is %d: the next template is not held", got)
			}
			sim.SetTemplate("r2")
			p.ends(rollout.Succeeded)
			if got := p.revisions(); got != "r2 r2 r2 r2 r2" {
				t.Errorf("the pods have %s", got)
			}
			w := sim.Target()
			if w.Controller != nil || w.Anchored || w.Partition != rollout.HoldAll || !w.Held {
				t.Errorf("the workload is left as %+v", w)
			}
		})
	}
}
