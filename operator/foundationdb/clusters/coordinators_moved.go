package clusters

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

// CoordinatorsMoved is the reason of a database that cannot be reached because its coordinators have other addresses.
const CoordinatorsMoved = "CoordinatorsMoved"

// orMoved is a link that first looks whether the coordinators can be reached at all. When a majority of them has
// other addresses, the database does not come back by itself: the servers know the old ones only.
func orMoved(decide func(*pass) decision) func(*pass) decision {
	return func(p *pass) decision {
		r, ok := p.moved()
		if !ok {
			return decide(p)
		}
		command := "pawl fdb fix-coordinator-ips " + p.cluster.Name + " --namespace " + p.cluster.Namespace
		out := outcome.Later(startAgain, CoordinatorsMoved, "the coordinators on %s have other addresses now, and no server can find them: %s", some(r.Elsewhere()), command)
		if p.options.WriteClusterFile == nil || foundationdb.SharesDatabase(p.cluster.Spec) {
			return acts(out)
		}
		return acts(outcome.Later(startAgain, CoordinatorsMoved, "the servers restart with the new addresses of the coordinators"), p.repairing(r))
	}
}

// moved finds out whether a majority of the coordinators has other addresses, and where each of them is now.
func (p *pass) moved() (foundationdb.Moved, bool) {
	s := &p.cluster.Status
	if s.Health.Available || !s.Configured || p.status != nil && quorum(p.status) {
		return foundationdb.Moved{}, false
	}
	m, err := foundationdb.MovedCoordinators(p.cluster, func(id v1beta2.ProcessGroupID) *corev1.Pod { return p.member(id).pod })
	return m, err == nil && m.Majority()
}

// repairing is the act of giving all servers the new addresses: first the pods, so that one that is not reached is
// tried again, then the status, from which the config map follows.
func (p *pass) repairing(r foundationdb.Moved) act {
	return act{
		Name: "write the new addresses of the coordinators into all pods", Targets: []string{r.To.String()},
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			var pods []*corev1.Pod
			for i := range p.cluster.Status.ProcessGroups {
				if pod := p.member(p.cluster.Status.ProcessGroups[i].ProcessGroupID).pod; pod != nil && ready(pod, foundationdb.MainContainer) {
					pods = append(pods, pod)
				}
			}
			out := each(ctx, pods, "ClusterFileNotWritten", func(pod *corev1.Pod) error { return p.options.WriteClusterFile(ctx, pod, r.To) })
			if !out.IsDone() {
				return out
			}
			p.cluster.Status.ConnectionString = r.To.String()
			p.event(CoordinatorsMoved, "the coordinators on %s have other addresses: %s", some(r.Elsewhere()), r.To)
			return outcome.Fail(p.save(ctx))
		},
	}
}
