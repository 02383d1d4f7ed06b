package rollout_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/rollout/workloadtest"
)

// lagging makes the target revision the recorded one while the newest spec is not observed, as the operator
// has it.
func lagging(p *player, sim *workloadtest.Sim) {
	sim.Wanted.TargetRevision = ""
	if t := sim.Target(); t.ObservedGeneration < t.Generation {
		sim.Wanted.TargetRevision = p.at.TargetRevision
	}
}

// TestNothingIsReleasedBeforeTheTemplateIsObserved: another template comes in every state of a batch, forward
// and back, and its controller observes it late. Each way of releasing pods waits until it is recorded.
func TestNothingIsReleasedBeforeTheTemplateIsObserved(t *testing.T) {
	type world struct {
		name string
		kind rollout.Kind
		plan rollout.Plan
		back bool
	}
	var worlds []world
	for _, kind := range []rollout.Kind{rollout.StatefulSet, rollout.CloneSet, rollout.AdvancedStatefulSet} {
		for _, back := range []bool{false, true} {
			worlds = append(worlds,
				world{"batches", kind, rollout.Plan{RolloutBatches: batches(2, 3)}, back},
				world{"budget", kind, rollout.Plan{RolloutBatches: batches(2, 3), Disruption: &rollout.Disruption{MaxUnavailable: rollout.Int(1)}}, back},
				world{"order", kind, rollout.Plan{RolloutBatches: batches(2, 3), Order: &rollout.Order{RoleLabel: "role", Roles: []string{"a", "b"}}}, back})
		}
	}
	for _, held := range []bool{true, false} {
		for _, w := range worlds {
			for after := range 18 { // steps after the beginning
				t.Run(fmt.Sprint(w.kind, " ", w.name, " back ", w.back, " held ", held, " ", after), func(t *testing.T) {
					sim := workloadtest.NewSim(w.kind, 5)
					sim.Wanted.HoldAlways = true
					p := newPlayer(t, sim, w.plan)
					p.waitsFor("NothingToRoll")
					sim.Wanted.HoldAlways = held
					sim.SetTemplate("r2")
					if w.back {
						p.until("batch 1", func() bool { return p.at.CurrentBatch == 1 })
						sim.Wanted.Request = &rollout.Request{ID: "1", Verb: rollout.RollBackVerb}
					}
					for range after {
						if p.at.State.Terminal() {
							return
						}
						p.pass()
					}
					if p.at.State == rollout.Locating {
						return
					}
					sim.Lag = 3
					sim.Edit(func(w *rollout.WorkloadFacts) { w.Template, w.Partition = "r3", rollout.HoldAll }) // the guard adds the hold
					lagging(p, sim)
					number := p.at.Number
					p.look = func(p *player) {
						lagging(p, sim)
						for _, a := range p.last.Acts {
							if p.at.TargetRevision != "r3" && p.at.State != rollout.Locating && (a.Partition != nil && *a.Partition < rollout.HoldAll || a.Evict != nil || a.Delete != nil || a.Template != "") {
								t.Fatalf("%s/%s writes %+v before r3 is recorded", p.at.State, p.at.BatchState, a)
							}
						}
					}
					p.until("the third template", func() bool { return p.at.Number > number && p.at.TargetRevision == "r3" })
					p.ends(rollout.Succeeded)
					if got := p.revisions(); got != "r3 r3 r3 r3 r3" {
						t.Errorf("the pods have %s", got)
					}
				})
			}
		}
	}
}

// TestTheTemplateOfAnApplicationIsWrittenAgain: what somebody writes over it in the middle is taken back under
// the full hold, and no pod gets it.
func TestTheTemplateOfAnApplicationIsWrittenAgain(t *testing.T) {
	for _, kind := range []rollout.Kind{rollout.StatefulSet, rollout.CloneSet, rollout.AdvancedStatefulSet} {
		sim := workloadtest.NewSim(kind, 5)
		sim.Wanted.Named, sim.Wanted.HasSource, sim.Wanted.TargetRevision, sim.Wanted.SourceRevision = true, true, "r2", "r1"
		p := newPlayer(t, sim, rollout.Plan{RolloutBatches: batches(1, 2, 2), BatchPartition: new(1)})
		p.until("batch 1", func() bool { return p.at.CurrentBatch == 1 })
		p.waitsFor("HeldByPartition")
		sim.Lag = 2
		sim.Edit(func(w *rollout.WorkloadFacts) { w.Template, w.Partition = "mine", rollout.HoldAll })
		p.plan.BatchPartition = nil
		p.look = func(p *player) {
			if f, _ := sim.Observe(t.Context()); slices.ContainsFunc(f.Pods, func(p rollout.Pod) bool { return p.Revision == "mine" }) {
				t.Fatalf("%s: a pod has the template of somebody else: %s", kind, sim)
			}
		}
		p.ends(rollout.Succeeded)
		if got := p.revisions(); got != "r2 r2 r2 r2 r2" || p.at.Number != 1 {
			t.Errorf("%s: the pods have %s, rollout %d", kind, got, p.at.Number)
		}
	}
}
