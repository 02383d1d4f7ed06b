package upgrades

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/servers"
)

// left is a cluster whose coordinator runs 7.4.6, and whose storage server runs 7.3.69.
type left struct {
	s     servers.Servers
	group *v1beta2.ProcessGroupStatus
	pod   *corev1.Pod
}

func leftBehind() left {
	now := time.Unix(1_800_000_000, 0)
	c := &v1beta2.FoundationDBCluster{}
	c.Spec.Version, c.Status.RunningVersion = "7.4.6", "7.4.6"
	c.Status.ProcessGroups = []v1beta2.ProcessGroupStatus{{
		ProcessGroupID: "storage-1", ProcessClass: "storage",
		ProcessGroupConditions: []v1beta2.ProcessGroupCondition{{Type: v1beta2.MissingProcesses, Timestamp: now.Add(-time.Minute - time.Second).Unix()}},
	}}
	pod := &corev1.Pod{}
	pod.Spec.Containers = []corev1.Container{{Name: foundationdb.MainContainer, Image: "10.0.0.1:5000/foundationdb/fdb-kubernetes-monitor:7.3.69"}}
	pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	pod.Annotations = map[string]string{}
	pod.Status.PodIP = "10.1.0.2"
	status := &fdb.Status{}
	status.Client.DatabaseStatus.Available = new(bool)
	status.Client.Coordinators.QuorumReachable = new(true)
	status.Cluster.IncompatibleConnections = []string{"10.1.0.2:4501"}
	status.Cluster.Processes = fdb.Processes{{Version: "7.4.6", Class: "log", Address: fdb.Address{Host: "10.1.0.1", Port: 4501}}}
	return left{
		servers.Servers{
			Cluster: c, Status: status, Now: now,
			Processes: map[v1beta2.ProcessGroupID][]*fdb.Process{"log-1": {&status.Cluster.Processes[0]}},
			Pod:       func(v1beta2.ProcessGroupID) *corev1.Pod { return pod },
		},
		&c.Status.ProcessGroups[0], pod,
	}
}

func TestLeftBehind(t *testing.T) {
	for name, one := range map[string]struct {
		change func(left)
		want   int
	}{
		"the upgrade has begun with the coordinators": {func(left) {}, 1},
		"two servers of a pod": {func(l left) {
			l.s.Status.Cluster.IncompatibleConnections = append(l.s.Status.Cluster.IncompatibleConnections, "10.1.0.2:4503")
		}, 1},
		"a stateless server has no claim": {func(l left) {
			l.group.ProcessClass, l.pod.Spec.Volumes = "stateless", nil
		}, 1},
		"no server of the data center reports": {func(l left) {
			clear(l.s.Processes)
			l.group.ProcessGroupConditions = nil
		}, 1},
		"another patch is wanted":            {func(l left) { l.s.Cluster.Spec.Version = "7.4.7" }, 1},
		"no version runs":                    {func(l left) { l.s.Cluster.Status.RunningVersion = "" }, 0},
		"a tester alone":                     {func(l left) { l.s.Status.Cluster.Processes[0].Class = fdb.ClassTest }, 0},
		"data would go with the pod":         {func(l left) { l.pod.Spec.Volumes = nil }, 0},
		"the upgrade was taken back":         {func(l left) { l.s.Cluster.Spec.Version = "7.3.69" }, 0},
		"a newer version has opened it":      {func(l left) { l.s.Cluster.Spec.Version, l.s.Cluster.Status.RunningVersion = "7.1.67", "7.1.67" }, 0},
		"the pod is of the same version":     {func(l left) { l.pod.Spec.Containers[0].Image = "fdb:7.4.6" }, 0},
		"the tag tells no version":           {func(l left) { l.pod.Spec.Containers[0].Image = "10.0.0.1:5000/fdb:latest" }, 0},
		"no tag":                             {func(l left) { l.pod.Spec.Containers[0].Image = "10.0.0.1:5000/fdb" }, 0},
		"no server of the new version":       {func(l left) { l.s.Status.Cluster.Processes[0].Version = "7.3.69" }, 0},
		"no majority speaks the new version": {func(l left) { l.s.Status.Client.Coordinators.QuorumReachable = new(bool) }, 0},
		"nobody says that it is unavailable": {func(l left) { l.s.Status.Client.DatabaseStatus.Available = nil }, 0},
		"it is missed for less":              {func(l left) { l.group.ProcessGroupConditions[0].Timestamp++ }, 0},
		"it reports": {func(l left) {
			l.s.Status.Cluster.Processes[0].Address.Host = "10.1.0.2"
		}, 0},
		"nothing of it connects":       {func(l left) { l.s.Status.Cluster.IncompatibleConnections = nil }, 0},
		"an address that is none":      {func(l left) { l.s.Status.Cluster.IncompatibleConnections = []string{"?"} }, 0},
		"somebody looks at the pod":    {func(l left) { l.pod.Annotations[foundationdb.IsolateAnnotation] = "true" }, 0},
		"the pod goes already":         {func(l left) { l.pod.DeletionTimestamp = &metav1.Time{Time: l.s.Now} }, 0},
		"it would not come back":       {func(l left) { l.group.ExclusionTimestamp = &metav1.Time{Time: l.s.Now} }, 0},
		"servers are not started":      {func(l left) { l.s.Cluster.Spec.Buggify.EmptyMonitorConf = true }, 0},
		"it is the pod of another one": {func(l left) { l.pod.Status.PodIP = "10.1.0.3" }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := leftBehind()
			one.change(l)
			if got := LeftBehind(l.s, time.Minute); len(got) != one.want {
				t.Errorf("%d pods, want %d", len(got), one.want)
			}
		})
	}
}
