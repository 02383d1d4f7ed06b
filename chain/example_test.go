package chain_test

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/outcome"
)

type facts struct{ pods, wanted int }

func addPods(_ context.Context, f *facts) outcome.Outcome {
	f.pods = f.wanted
	return outcome.Done()
}

func awaitReady(_ context.Context, f *facts) outcome.Outcome {
	return outcome.Wait(10*time.Second, "PodsNotReady", "0 of %d pods are ready", f.pods)
}

func configure(context.Context, *facts) outcome.Outcome { return outcome.Done() }

func Example() {
	cluster := chain.Chain[*facts]{
		{Name: "AddPods", Run: addPods},
		{Name: "AwaitReady", Run: awaitReady},
		{Name: "Configure", Run: configure},
	}
	report := cluster.Reconcile(context.Background(), &facts{wanted: 3})

	blocker, _ := report.Blocker()
	fmt.Println("blocked by", blocker.Name, "because", blocker.Outcome.Reason())
	fmt.Println("not reached:", report.NotReached)
	fmt.Println(report.Outcome())
	// Output:
	// blocked by AwaitReady because PodsNotReady
	// not reached: [Configure]
	// wait 10s PodsNotReady: 0 of 3 pods are ready
}
