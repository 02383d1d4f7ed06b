package clusters

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

// deletePodsForBuggification deletes pods that do other harm than the spec asks for. Few gates apply: it
// is meant to do harm.
func deletePodsForBuggification(p *pass) decision {
	var victims []*corev1.Pod
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		pod := p.member(g.ProcessGroupID).Pod
		if pod == nil || pod.DeletionTimestamp != nil {
			continue
		}
		id, known := p.ids[g.ProcessGroupID]
		if known && foundationdb.BuggifyDiffers(p.cluster.Spec, id, pod) != "" {
			victims = append(victims, pod)
		}
	}
	return deletes("delete pod", victims, "spec.buggify asks for another pod",
		outcome.Wait(upgradeAgain, "PodsChangeForBuggification", "%d pods are made anew", len(victims)))
}

// deletes decides to delete pods, one after the other.
func deletes(name string, victims []*corev1.Pod, evidence string, out outcome.Outcome) decision {
	if len(victims) == 0 {
		return decision{}
	}
	return acts(out, act{
		Name: name, Targets: objectNames(victims),
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			return each(ctx, victims, "PodNotDeleted", func(pod *corev1.Pod) error { return p.delete(ctx, pod, "Pod", evidence) })
		},
	})
}
