package servers

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

const (
	missingPodWait = 90 * time.Second // a pod that is missing for less is coming
	youngPod       = time.Minute      // a pod that is younger may not be up yet
	silentFor      = 75 * time.Second // servers that are silent for less may be unknown to the status, by a clock that runs fast too
	// PendingWait: a pod that is pending for less may still become a coordinator.
	PendingWait = 5 * time.Minute
	staleFor    = 3 * time.Minute // a pod that is younger may be shown with the servers of the one before
)

// Unsettled says what is waited for until pods are where they should be, with a reason; empty: nothing.
func (s Servers) Unsettled() (reason, message string) {
	terminating := time.Duration(*s.Cluster.Spec.AutomationOptions.IgnoreTerminatingPodsSeconds) * time.Second
	for i := range s.Cluster.Status.ProcessGroups {
		g := &s.Cluster.Status.ProcessGroups[i]
		pod := s.Pod(g.ProcessGroupID)
		switch {
		case g.Marked() && (pod == nil || pod.DeletionTimestamp != nil): // it is not expected back
		case pod == nil:
			if !g.Lasts(v1beta2.MissingPod, missingPodWait, s.Now) {
				return "PodMissing", fmt.Sprintf("the pod of %s is not there", g.ProcessGroupID)
			}
		case pod.DeletionTimestamp != nil:
			if s.Now.Sub(pod.DeletionTimestamp.Time) < terminating {
				return "PodTerminates", fmt.Sprintf("the pod of %s goes", g.ProcessGroupID)
			}
		case s.young(g, pod) && !s.up(g, pod):
			return "PodStarts", fmt.Sprintf("the pod of %s is not up yet", g.ProcessGroupID)
		case s.staleUptime(g, pod):
			return fdb.StatusIncomplete, fmt.Sprintf("the status still shows the former servers of %s", g.ProcessGroupID)
		}
	}
	return "", ""
}

// young reports whether a pod may not be up yet: it was made a moment ago by the API server's clock, or its servers are
// silent since a moment ago by this program's. Either clock may be ahead, and a status needs a minute to tell that a
// server with data is gone.
func (s Servers) young(g *v1beta2.ProcessGroupStatus, pod *corev1.Pod) bool {
	return s.age(pod) < youngPod || g.Has(v1beta2.MissingProcesses) && !g.Lasts(v1beta2.MissingProcesses, silentFor, s.Now)
}

// up reports whether the servers of a pod report.
func (s Servers) up(g *v1beta2.ProcessGroupStatus, pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && len(s.Processes[g.ProcessGroupID]) >= foundationdb.ServersIn(pod)
}

// staleUptime reports whether a server of a young pod is said to be up for longer than the pod is there: it is
// the one of the pod before. The clocks of the API server and of this program may differ, so that is believed
// of young pods only.
func (s Servers) staleUptime(g *v1beta2.ProcessGroupStatus, pod *corev1.Pod) bool {
	age := s.age(pod)
	if age < 0 || age > staleFor {
		return false
	}
	return slices.ContainsFunc(s.Processes[g.ProcessGroupID], func(process *fdb.Process) bool {
		return process.UptimeSeconds != nil && *process.UptimeSeconds > age.Seconds()+5
	})
}

// UnavailableZones are the zones that have a pod which does not run, or goes.
func (s Servers) UnavailableZones() []string {
	var zones []string
	for i := range s.Cluster.Status.ProcessGroups {
		g := &s.Cluster.Status.ProcessGroups[i]
		pod := s.Pod(g.ProcessGroupID)
		if away := pod == nil || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning || Failing(pod); away && !slices.Contains(zones, g.FaultDomain) {
			zones = append(zones, g.FaultDomain)
		}
	}
	slices.Sort(zones)
	return zones
}

// Failing reports whether a pod has failed, or runs with a container that is not ready.
func Failing(pod *corev1.Pod) bool {
	switch pod.Status.Phase {
	case corev1.PodFailed:
		return true
	case corev1.PodRunning:
		return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return !s.Ready })
	}
	return false
}

// MayAppear reports whether the servers of a silent group may soon report at an address that nobody knows yet: its pod
// has just been made. Exclude would look for them at the former address, and find nothing there.
func (s Servers) MayAppear(g *v1beta2.ProcessGroupStatus) bool {
	pod := s.Pod(g.ProcessGroupID)
	return pod != nil && len(s.Processes[g.ProcessGroupID]) == 0 && len(foundationdb.PublicIPs(pod)) == 0 && s.age(pod) < PendingWait
}

// age is how long ago a pod was made.
func (s Servers) age(pod *corev1.Pod) time.Duration { return s.Now.Sub(pod.CreationTimestamp.Time) }
