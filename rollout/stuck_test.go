package rollout_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/rollout/workloadtest"
)

// tight are budgets that allow one pod of five to be away.
func tight() map[string]*rollout.Disruption {
	db := rollout.Selector{MatchLabels: map[string]string{"app": "db"}}
	return map[string]*rollout.Disruption{
		"maxUnavailable": {MaxUnavailable: rollout.Int(1)},
		"zone":           {MaxUnavailablePerZone: rollout.Int(1)},
		"quorum":         {Quorum: &rollout.Quorum{Selector: db, MinHealthy: rollout.Healthy{IntOrPercent: rollout.IntOrPercent{Value: 4}}}},
		"disruption":     {}, // a PodDisruptionBudget alone
	}
}

// stuckOn starts a rollout whose first pod never becomes ready, under a budget that allows no other one.
func stuckOn(t *testing.T, kind rollout.Kind, budget string, plan rollout.Plan) (*player, *workloadtest.Sim) {
	t.Helper()
	sim := workloadtest.NewSim(kind, 5)
	sim.Wanted.HoldAlways = true
	plan.Disruption = tight()[budget]
	p := newPlayer(t, sim, plan)
	if budget == "disruption" {
		p.look = func(p *player) {
			f, _ := sim.Observe(t.Context())
			down := 0
			for _, pod := range f.Pods {
				if !pod.Ready {
					down++
				}
			}
			sim.Budgets = []rollout.PodBudget{{Name: "db", Allowed: max(0, 1-down), Selector: rollout.Selector{MatchLabels: map[string]string{"app": "db"}}}}
		}
	}
	p.waitsFor("NothingToRoll")
	sim.Break("r2")
	sim.SetTemplate("r2")
	return p, sim
}

// TestABudgetDoesNotKeepABrokenPod: the pod that uses up the budget is replaced, back and forward, in sets
// that wait for it.
func TestABudgetDoesNotKeepABrokenPod(t *testing.T) {
	for _, kind := range []rollout.Kind{rollout.StatefulSet, rollout.AdvancedStatefulSet, rollout.CloneSet} {
		for budget := range tight() {
			for name, plan := range map[string]rollout.Plan{
				"all in one": {}, "two batches": {NumBatches: new(2)}, "small ones": {RolloutBatches: batches(1, 2, 2)},
			} {
				t.Run(string(kind)+" "+budget+" "+name, func(t *testing.T) {
					plan.BatchDeadline, plan.OnFailure = new(rollout.Duration(30*time.Second)), rollout.OnFailureRollback
					p, sim := stuckOn(t, kind, budget, plan)
					p.ends(rollout.Failed)
					if got := p.revisions(); got != "r1 r1 r1 r1 r1" || p.at.Rollback == nil {
						t.Errorf("the pods have %s, rollback %+v", got, p.at.Rollback)
					}
					plan.BatchDeadline = nil
					p, sim = stuckOn(t, kind, budget, plan)
					p.until("a broken pod", func() bool {
						f, _ := sim.Observe(t.Context())
						return p.at.Released != nil && f.Pods[4].Revision == "r2"
					})
					for range 5 {
						p.pass()
					}
					sim.Edit(func(w *rollout.WorkloadFacts) { w.Template, w.Partition = "r3", rollout.HoldAll })
					p.ends(rollout.Succeeded)
					if got := p.revisions(); got != "r3 r3 r3 r3 r3" {
						t.Errorf("the pods have %s", got)
					}
				})
			}
		}
	}
}

// TestTheOnlyPodIsBroken: the rollout that mends it goes back to what worked before, and replaces it.
func TestTheOnlyPodIsBroken(t *testing.T) {
	sim := workloadtest.NewSim(rollout.StatefulSet, 1)
	sim.Wanted.HoldAlways = true
	p := newPlayer(t, sim, rollout.Plan{})
	p.waitsFor("NothingToRoll")
	sim.Break("r2")
	sim.SetTemplate("r2")
	p.until("the broken pod", func() bool { return p.revisions() == "r2" })
	sim.Edit(func(w *rollout.WorkloadFacts) { w.Template, w.Partition = "r3", rollout.HoldAll })
	p.until("the second rollout", func() bool { return p.at.Number == 2 })
	if p.at.SourceRevision != "r1" {
		t.Errorf("the source is %s", p.at.SourceRevision)
	}
	p.ends(rollout.Succeeded)
	if p.revisions() != "r3" {
		t.Errorf("the pod has %s", p.revisions())
	}
}

// TestABrokenPodOfADeploymentGoesBack: the pod that uses up the budget is the one that a smaller Deployment
// loses.
func TestABrokenPodOfADeploymentGoesBack(t *testing.T) {
	sim := workloadtest.NewSim(rollout.Deployment, 5).WithSource()
	p := newPlayer(t, sim, rollout.Plan{RolloutBatches: batches(1, 2, 2), Disruption: &rollout.Disruption{MaxUnavailable: rollout.Int(1)}})
	p.until("batch 1", func() bool { return p.at.CurrentBatch == 1 })
	p.until("a pod of batch 1", func() bool { return sim.Target().Replicas > 1 })
	f, _ := sim.Observe(t.Context())
	for _, pod := range f.Pods {
		if pod.Workload == f.Target.UID {
			sim.Fail(pod.Name)
			break
		}
	}
	sim.Wanted.Request = &rollout.Request{ID: "1", Verb: rollout.RollBackVerb}
	p.ends(rollout.Failed)
	if f, _ := sim.Observe(t.Context()); f.Target.Replicas != 0 || f.Sources[0].Replicas != 5 {
		t.Errorf("the target has %d replicas, the source %d", f.Target.Replicas, f.Sources[0].Replicas)
	}
}
