package rollout_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/rollout/workloadtest"
)

var inPlace = []rollout.Kind{rollout.StatefulSet, rollout.CloneSet, rollout.AdvancedStatefulSet}

// impossible is a plan that is refused.
func impossible() rollout.Plan {
	return rollout.Plan{RolloutBatches: batches(1, 4), BatchPartition: new(0), Disruption: &rollout.Disruption{Quorum: &rollout.Quorum{
		Selector: rollout.Selector{MatchLabels: map[string]string{"app": "db"}}, MinHealthy: rollout.Healthy{IntOrPercent: rollout.IntOrPercent{Value: 5}},
	}}}
}

// TestARefusedPlanHolds: Rollout and template come together. The workload is held whatever becomes of the
// plan, and a plan that is right begins the rollout of the pods that have not moved.
func TestARefusedPlanHolds(t *testing.T) {
	for _, kind := range inPlace {
		for _, again := range []string{"plan", "template"} {
			sim := workloadtest.NewSim(kind, 5)
			sim.Wanted.HoldAlways = true
			sim.SetTemplate("r2")
			p := newPlayer(t, sim, impossible())
			p.ends(rollout.Failed)
			for range 10 {
				p.pass()
			}
			if w := sim.Target(); p.at.Failure.Reason != "BudgetImpossible" || p.revisions() != "r1 r1 r1 r1 r1" || w.Partition != rollout.HoldAll || !w.Held {
				t.Fatalf("%s: %+v, the pods have %s, partition %d, held %t", kind, p.at.Failure, p.revisions(), w.Partition, w.Held)
			}
			want := "r2"
			if again == "template" { // as pawl rollout restart writes one
				want = "r3"
				sim.Edit(func(w *rollout.WorkloadFacts) { w.Template, w.Partition = "r3", rollout.HoldAll })
				p.until("another refusal", func() bool { return p.at.TargetRevision == "r3" && p.at.State == rollout.Failed })
			}
			p.plan.Disruption = nil
			p.waitsFor("HeldByPartition")
			if got := strings.Count(p.revisions(), want); got != 1 {
				t.Errorf("%s: the canary is %s", kind, p.revisions())
			}
			p.plan.BatchPartition = nil
			p.ends(rollout.Succeeded)
		}
	}
}

// TestAnAbandonedRolloutIsNotBegunByItsPlan: what a person has ended stays ended.
func TestAnAbandonedRolloutIsNotBegunByItsPlan(t *testing.T) {
	p, sim := forward(t, rollout.Plan{RolloutBatches: batches(1, 4), BatchPartition: new(0)})
	p.waitsFor("HeldByPartition")
	sim.Wanted.Request = &rollout.Request{ID: "1", Verb: rollout.Abandon}
	p.ends(rollout.Failed)
	p.plan.BatchPartition = nil
	for range 10 {
		if p.pass(); p.at.State != rollout.Failed {
			t.Fatalf("it is %s", p.at.State)
		}
	}
}

// TestAnUpdateUnderWayIsTakenOver: a Rollout meets an update that never ends. It holds the workload, its
// deadline takes the pod back, and another template mends it.
func TestAnUpdateUnderWayIsTakenOver(t *testing.T) {
	for _, kind := range inPlace {
		for _, again := range []bool{false, true} {
			sim := workloadtest.NewSim(kind, 5)
			sim.Break("r2")
			sim.SetTemplate("r2")
			for range 10 { // its own controller moves the pods
				sim.Step()
			}
			sim.Wanted.HoldAlways = true
			p := newPlayer(t, sim, rollout.Plan{RolloutBatches: batches(1, 4), BatchDeadline: new(rollout.Duration(20 * time.Second)), OnFailure: rollout.OnFailureRollback})
			if p.pass(); sim.Target().Partition != rollout.HoldAll || !sim.Target().Held {
				t.Fatalf("%s: the first write is %+v", kind, p.last.Acts)
			}
			want, end := "r1 r1 r1 r1 r1", rollout.Failed
			if again {
				p.until("the batch", func() bool { return p.at.State == rollout.InBatch })
				sim.Edit(func(w *rollout.WorkloadFacts) { w.Template, w.Partition = "r3", rollout.HoldAll })
				want, end = "r3 r3 r3 r3 r3", rollout.Succeeded
			}
			p.ends(end)
			if p.revisions() != want {
				t.Errorf("%s: the pods have %s", kind, p.revisions())
			}
		}
	}
}

// TestTheHoldDoesNotWaitForTheStatus: the pods are held before the controller has observed the template.
func TestTheHoldDoesNotWaitForTheStatus(t *testing.T) {
	sim := workloadtest.NewSim(rollout.StatefulSet, 3)
	sim.Wanted.HoldAlways = true
	sim.SetTemplate("r2")
	p := newPlayer(t, sim, rollout.Plan{BatchPartition: new(0)})
	p.plan.RolloutBatches = batches(1, 2)
	p.waitsFor("HeldByPartition")
	if p.revisions() != "r1 r1 r2" {
		t.Errorf("the pods have %s", p.revisions())
	}
	sim = workloadtest.NewSim(rollout.StatefulSet, 3)
	sim.Wanted.HoldAlways = true
	sim.Own(false)
	sim.SetTemplate("r2")
	p = newPlayer(t, sim, rollout.Plan{})
	p.ends(rollout.Failed)
	if sim.Target().Held || sim.Target().Partition != 0 {
		t.Errorf("the workload of somebody else is held: %+v", *sim.Target())
	}
}
