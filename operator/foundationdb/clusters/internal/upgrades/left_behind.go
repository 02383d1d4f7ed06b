package upgrades

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/probe"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/servers"
)

// LeftBehind are the pods whose servers still speak the protocol from before an upgrade, while a majority of the
// coordinators speaks that of the spec's version already, so that no tool reaches these servers any more. It happens where
// the coordinators crash once they have the files of the upgrade and before its restart. A pod that is deleted comes back
// with its claim and the new version. missed is for how long their servers must have been silent.
//
// A pod is none of them unless its tag names an older version: what a newer one has opened, an older one cannot read.
// Nor is one whose data would go with it.
func LeftBehind(s servers.Servers, missed time.Duration) []*corev1.Pod {
	version, err := fdb.ParseVersion(s.Cluster.Spec.Version)
	if err != nil || s.Status == nil || s.Status.Client.DatabaseStatus.Available == nil || !probe.Quorum(s.Status) || s.Cluster.Spec.Buggify.EmptyMonitorConf {
		return nil
	}
	if running, err := fdb.ParseVersion(s.Cluster.Status.RunningVersion); err != nil || !running.ProtocolCompatible(version) || !reports(s.Status, version) {
		return nil
	}
	var pods []*corev1.Pod
	for _, text := range s.Status.Cluster.IncompatibleConnections {
		a, err := fdb.ParseAddress(text)
		if err != nil || s.ReportsAt(a) {
			continue
		}
		g := silentAt(s, a, missed)
		if g == nil || g.Excluded() {
			continue
		}
		pod := s.Pod(g.ProcessGroupID)
		if pod.DeletionTimestamp == nil && !foundationdb.Isolated(pod) && keepsData(pod, fdb.Class(g.ProcessClass)) && older(pod, version) && !slices.Contains(pods, pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// silentAt is the group of which the pod has an address, and a server has been missed for so long; nil: none. Nobody says
// which are missed in a data center of which no server reports.
func silentAt(s servers.Servers, a fdb.Address, missed time.Duration) *v1beta2.ProcessGroupStatus {
	if len(s.Processes) > 0 {
		if g := s.GroupAt(a); g != nil && g.Lasts(v1beta2.MissingProcesses, missed, s.Now) {
			return g
		}
		return nil
	}
	for i := range s.Cluster.Status.ProcessGroups {
		g := &s.Cluster.Status.ProcessGroups[i]
		if pod := s.Pod(g.ProcessGroupID); pod != nil && slices.Contains(foundationdb.PublicIPs(pod), a.Host) {
			return g
		}
	}
	return nil
}

// reports reports whether a server of the database, also one of another cluster, talks to those of a version.
func reports(s *fdb.Status, version fdb.Version) bool {
	return slices.ContainsFunc(s.Cluster.Processes, func(p fdb.Process) bool {
		runs, err := fdb.ParseVersion(p.Version)
		return err == nil && runs.ProtocolCompatible(version) && p.Class != fdb.ClassTest
	})
}

// older reports whether the tag of a pod's main container says that it is of a version older than another one, to which it
// cannot talk.
func older(pod *corev1.Pod, version fdb.Version) bool {
	image := foundationdb.ContainerImage(pod, foundationdb.MainContainer)
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	made, err := fdb.ParseVersion(tag)
	return err == nil && made.Compare(version) < 0 && !made.ProtocolCompatible(version)
}

// keepsData reports whether what the servers of a pod have written outlives it.
func keepsData(pod *corev1.Pod, class fdb.Class) bool {
	return !class.Stateful() || slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
}
