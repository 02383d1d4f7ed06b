package clusters

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
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

// deleteTerminalPods deletes pods that have ended and never run again. AddPods makes them anew.
func deleteTerminalPods(p *pass) decision {
	least := p.limits.WithDefaults().TerminalPodAge
	var victims []*corev1.Pod
	var soonest time.Duration
	for i := range p.cluster.Status.ProcessGroups {
		pod := p.member(p.cluster.Status.ProcessGroups[i].ProcessGroupID).Pod
		if pod == nil || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
			continue
		}
		if left := least - p.now.Sub(ended(pod)); left > 0 {
			if soonest == 0 || left < soonest {
				soonest = left
			}
			continue
		}
		victims = append(victims, pod)
	}
	d := deletes("delete ended pod", victims, "it has ended and does not run again", outcome.Done())
	if len(victims) == 0 && soonest > 0 {
		return later(soonest, "PodsEnded", "pods that have ended are deleted after %s", least)
	}
	return d
}

// ended is when the last container of a pod ended, as far as that is known.
func ended(pod *corev1.Pod) time.Time {
	at := pod.CreationTimestamp.Time
	for _, s := range pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil && t.FinishedAt.After(at) {
			at = t.FinishedAt.Time
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.LastTransitionTime.After(at) {
			at = c.LastTransitionTime.Time
		}
	}
	return at
}

// removeIncompatibleProcesses deletes the pods of servers that speak another protocol than the database:
// they take no part in it, so no gate applies. While the database is not available what they hold may be
// all that there is, so they stay.
func removeIncompatibleProcesses(p *pass) decision {
	if p.options.KeepIncompatible || foundationdb.UpgradesIncompatibly(p.cluster) || p.desired != p.cluster.Spec.Version || !p.cluster.Status.Health.Available {
		return decision{}
	}
	var victims []*corev1.Pod
	for _, text := range p.status.Cluster.IncompatibleConnections {
		a, err := fdb.ParseAddress(text)
		if err != nil || p.servers().ReportsAt(a) {
			continue
		}
		if g := p.servers().GroupAt(a); g != nil {
			pod := p.member(g.ProcessGroupID).Pod
			if pod != nil && pod.DeletionTimestamp == nil && !slices.Contains(victims, pod) {
				victims = append(victims, pod)
			}
		}
	}
	return deletes("delete pod of another protocol", victims, "its servers cannot talk to the database, and none of them reports",
		outcome.Later(startAgain, "IncompatibleProcesses", "%d pods have servers of another protocol", len(victims)))
}
