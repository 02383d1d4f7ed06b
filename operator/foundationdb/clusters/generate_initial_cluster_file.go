package clusters

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/coordinators"
	"github.com/pawl-dev/pawl/outcome"
)

// generateInitialClusterFile makes the first connection string: the seed, or that of pods that run.
func generateInitialClusterFile(p *pass) decision {
	if p.cluster.Status.ConnectionString != "" {
		return decision{}
	}
	if wrong := p.podsOfAnotherImage(); len(wrong) > 0 {
		victims := slices.DeleteFunc(slices.Clone(wrong), func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		out := outcome.Wait(upgradeAgain, "PodsOfAnotherImage", "%d pods are made anew with version %s before the first server starts", len(wrong), p.desired)
		if len(victims) == 0 {
			return decision{Outcome: out}
		}
		return deletes("make pod anew", victims, "no server has started, and its image is not that of the spec", out)
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

// podsOfAnotherImage are those whose image is not that of the spec. Once servers run, an upgrade or UpdatePods sees to
// them; before that there are no data, and nothing works that could be lost.
func (p *pass) podsOfAnotherImage() (wrong []*corev1.Pod) {
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		pod := p.member(g.ProcessGroupID).Pod
		image, err := foundationdb.MainImage(p.cluster, classOf(g))
		if pod != nil && g.Has(v1beta2.IncorrectPodSpec) && err == nil && foundationdb.ContainerImage(pod, foundationdb.MainContainer) != image {
			wrong = append(wrong, pod)
		}
	}
	return wrong
}
