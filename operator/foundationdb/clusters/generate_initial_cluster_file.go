package clusters

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/coordinators"
	"github.com/pawl-dev/pawl/outcome"
)

// generateInitialClusterFile makes the first connection string: the seed, or that of pods that run.
func generateInitialClusterFile(p *pass) decision {
	if p.cluster.Status.ConnectionString != "" {
		return decision{}
	}
	text := p.cluster.Spec.SeedConnectionString
	if text == "" {
		variables := func(id v1beta2.ProcessGroupID) map[string]string { return p.member(id).Variables }
		connection, wait := coordinators.First(p.servers(), variables, p.random)
		if !wait.IsDone() {
			return decision{Outcome: wait}
		}
		text = connection.String()
	}
	c, err := fdb.ParseConnection(text)
	if err != nil {
		return waits(startAgain, fault.Of(err).Reason(), "%s", fault.Message(err))
	}
	write := func(p *pass) { p.cluster.Status.ConnectionString = c.String() }
	return acts(outcome.Wait(time.Second, "ClusterFileNew", "the config map gets the connection string next"), act{
		Name: "write the first connection string", Targets: []string{c.String()}, Assume: write,
		Do: func(_ context.Context, p *pass) outcome.Outcome {
			write(p) // stored at the end of the pass, which is next
			return outcome.Done()
		},
	})
}
