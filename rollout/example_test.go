package rollout_test

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/rollout/workloadtest"
)

// A whole rollout: look, decide, act, until it has ended.
func ExampleNext() {
	ctx := context.Background()
	plan, err := rollout.ParsePlan([]byte(`{"rolloutBatches": [{"replicas": 1}, {"replicas": "50%"}, {}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	sim := workloadtest.NewSim(rollout.StatefulSet, 5)
	sim.Edit(func(w *rollout.WorkloadFacts) { w.Partition = rollout.HoldAll }) // the hold between rollouts
	sim.SetTemplate("r2")

	at := rollout.Position{}
	for !at.State.Terminal() {
		facts, _ := sim.Observe(ctx)
		d := rollout.Next(plan, at, facts, sim.Now())
		at = d.Position // an operator saves it here
		for _, a := range d.Acts {
			if err := sim.Apply(ctx, a); err != nil {
				fmt.Println(err)
			}
			if a.Partition != nil {
				fmt.Printf("batch %d: %s\n", at.CurrentBatch, a.Why)
			}
		}
		sim.Answer(d.Asks)
		sim.Step()
	}
	fmt.Println(at.State)
	// Output:
	// batch 0: release 1 pod of batch 0
	// batch 1: release 3 pods of batch 1
	// batch 2: release 1 pod of batch 2
	// rolloutSucceed
}

func ExamplePreview() {
	plan := rollout.Plan{NumBatches: new(3)}
	batches, err := rollout.Preview(plan, rollout.IdealFacts(rollout.StatefulSet, "db", 5, plan))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, b := range batches {
		fmt.Println(b.Index, b.Size, b.Pods[0].Name, *b.Partition)
	}
	// Output:
	// 0 1 db-4 4
	// 1 2 db-3 2
	// 2 2 db-1 0
}
