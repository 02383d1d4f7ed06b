package coordinators

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/probe"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/servers"
	"github.com/pawl-dev/pawl/operator/foundationdb/repair"
)

const (
	staleFileFor   = 3 * time.Minute  // servers that are silent for less may still come
	staleFileAgain = 15 * time.Minute // until the file of the same pod is looked at again
)

// Creator reports whether this object creates the database: the one that has made the connection string. Of those that
// were given it, the one whose pod is the first coordinator does: exactly one of several, and the maker too when it
// gets its own string as a seed.
func Creator(s servers.Servers) (first string, ours bool) {
	spec := s.Cluster.Spec
	if spec.SeedConnectionString == "" && len(spec.PartialConnectionString.Coordinators) == 0 {
		return "", true
	}
	c, err := fdb.ParseConnection(s.Cluster.Status.ConnectionString)
	if err != nil || len(c.Coordinators) == 0 {
		return "", false
	}
	at := c.Coordinators[0]
	for i := range s.Cluster.Status.ProcessGroups {
		id := s.Cluster.Status.ProcessGroups[i].ProcessGroupID
		if pod := s.Pod(id); pod != nil && (slices.Contains(foundationdb.PublicIPs(pod), at.Host) || at.Host == foundationdb.DNSNameOf(s.Cluster, id)) {
			return at.String(), true
		}
	}
	return at.String(), false
}

// Moved finds out whether a majority of the coordinators has other addresses, and where each of them is now.
func Moved(s servers.Servers) (repair.Moved, bool) {
	c := &s.Cluster.Status
	if c.Health.Available || !c.Configured || s.Status != nil && probe.Quorum(s.Status) {
		return repair.Moved{}, false
	}
	m, err := repair.MovedCoordinators(s.Cluster, s.Pod)
	return m, err == nil && m.Majority()
}

// Stale are the pods that run, although none of their servers reports to a database that is available: the coordinators in
// their cluster file may be gone. written is when their file was written.
func Stale(s servers.Servers, written map[types.UID]time.Time) []*corev1.Pod {
	if !s.Cluster.Status.Configured || !s.Cluster.Status.Health.Available || !probe.Quorum(s.Status) {
		return nil
	}
	var pods []*corev1.Pod
	for i := range s.Cluster.Status.ProcessGroups {
		g := &s.Cluster.Status.ProcessGroups[i]
		pod := s.Pod(g.ProcessGroupID)
		if g.Marked() || !fdb.Class(g.ProcessClass).Stateful() || !g.Lasts(v1beta2.MissingProcesses, staleFileFor, s.Now) || len(s.Processes[g.ProcessGroupID]) > 0 || !runs(pod) {
			continue
		}
		if at, done := written[pod.UID]; !done || s.Now.Sub(at) > staleFileAgain {
			pods = append(pods, pod)
		}
	}
	return pods
}

// runs reports whether the main container of a pod runs, also where it is not ready, as its servers do not serve.
func runs(pod *corev1.Pod) bool {
	return pod != nil && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil && !foundationdb.Isolated(pod)
}
