package clusters

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/outcome"
)

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
