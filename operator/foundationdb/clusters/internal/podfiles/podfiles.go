// Package podfiles says which pods have other files than those of the config map, and brings them there.
package podfiles

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/groups"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/servers"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// Outdated is a pod whose files are not those of the config map, or are not known to be.
type Outdated struct {
	Group *v1beta2.ProcessGroupStatus
	*groups.Member
	Hash  string // of the files it should have
	Conf  string // the monitor's
	Image v1beta2.ImageType
	Down  bool // the database is not available
}

// Find finds the pods whose files are to be refreshed: of groups that stay, and in an incompatible
// upgrade of marked ones too whose servers report, since they restart with the others; of marked ones that are silent and
// may hold data, which may be so because of the files that they have; before there is a database of all, since the first
// coordinators may be among them.
func Find(s servers.Servers, wanted *corev1.ConfigMap, member func(v1beta2.ProcessGroupID) *groups.Member) []Outdated {
	upgrade := foundationdb.UpgradesIncompatibly(s.Cluster)
	hashes := groups.ConfigHashes(wanted)
	var found []Outdated
	for i := range s.Cluster.Status.ProcessGroups {
		g := &s.Cluster.Status.ProcessGroups[i]
		m := member(g.ProcessGroupID)
		if m.Pod == nil || m.Pod.DeletionTimestamp != nil || m.Pod.Status.Phase != corev1.PodRunning || !refreshed(s, g, m.Pod, upgrade) {
			continue
		}
		class, image, count := fdb.Class(g.ProcessClass), foundationdb.ImageTypeOf(m.Pod), m.Servers()
		o := Outdated{Group: g, Member: m, Hash: hashes(class, image, count), Image: image}
		o.Down = s.Cluster.Status.Configured && !s.Cluster.Status.Health.Available
		o.Conf = wanted.Data[foundationdb.MonitorConfKey(class, image, count)]
		differs := m.Pod.Annotations[foundationdb.ConfigAnnotation] != o.Hash
		if image == v1beta2.ImageTypeUnified {
			differs = differs || !groups.LauncherHas(m.Pod, o.Conf)
		}
		if differs || upgrade && !m.Present {
			found = append(found, o)
		}
	}
	return found
}

// refreshed reports whether the pod of a group gets new files: one that goes does not, unless its servers restart with
// the others in an upgrade, or would start with a version that is not wanted any more, or stand still and may hold what
// the database needs to come back.
func refreshed(s servers.Servers, g *v1beta2.ProcessGroupStatus, pod *corev1.Pod, upgrade bool) bool {
	if !g.Marked() || !s.Cluster.Status.Configured {
		return true
	}
	runs := len(s.Processes[g.ProcessGroupID]) > 0
	ofOtherSidecar := pod.Annotations[foundationdb.ConfigAnnotation] == ""
	return (upgrade || ofOtherSidecar) && runs || !runs && !g.Excluded() && (!upgrade || !s.Cluster.Status.Health.Available)
}

// Annotations are those that the pod is to get. done: it has its files.
func (o Outdated) Annotations(done bool, now time.Time) map[string]string {
	annotations := map[string]string{}
	outdated := o.Pod.Annotations[foundationdb.ConfigAnnotation] != o.Hash
	if !done && (outdated || o.toldFor(now) > nudgeAgain || o.Down && o.programsCame(now)) {
		annotations[foundationdb.OutdatedConfigAnnotation] = strconv.FormatInt(now.Unix(), 10)
	}
	if outdated && (done || o.Image == v1beta2.ImageTypeUnified) {
		annotations[foundationdb.ConfigAnnotation] = o.Hash
	}
	return annotations
}

// nudgeAgain is when a pod that does not refresh its files is told so again.
const nudgeAgain = 5 * time.Minute

// copyTime is how long a sidecar that has started may take until its programs are there.
const copyTime = 10 * time.Second

// programsCame reports whether the sidecar has brought programs since the pod was told. A launcher that was told before
// that keeps its configuration, as the program of the new one was missing, and does not look again by itself. While the
// database works there is no hurry: a server that crashes once it has the files starts with the new version alone.
func (o Outdated) programsCame(now time.Time) bool {
	for _, c := range o.Pod.Status.ContainerStatuses {
		if c.Name == foundationdb.SidecarContainer && c.State.Running != nil {
			there := c.State.Running.StartedAt.Add(copyTime)
			return !now.Before(there) && now.Add(-o.toldFor(now)).Before(there)
		}
	}
	return false
}

// toldFor is how long ago the pod was told that its files are outdated.
func (o Outdated) toldFor(now time.Time) time.Duration {
	at, err := strconv.ParseInt(o.Pod.Annotations[foundationdb.OutdatedConfigAnnotation], 10, 64)
	if err != nil {
		return nudgeAgain + time.Second
	}
	return now.Sub(time.Unix(at, 0))
}

// Synced lets the sidecar copy its files, unless it has them, and reports whether it has.
func (o Outdated) Synced(ctx context.Context, sidecars port.Sidecars, clusterFile string) (bool, error) {
	has := func() (bool, error) {
		for file, text := range map[string]string{"fdbmonitor.conf": o.expanded(), "fdb.cluster": clusterFile} {
			hash, err := sidecars.Hash(ctx, o.Pod, file)
			if err != nil || hash != fmt.Sprintf("%x", sha256.Sum256([]byte(text))) {
				return false, err
			}
		}
		return true, nil
	}
	if ok, err := has(); ok || err != nil {
		return ok, err
	}
	if err := sidecars.Copy(ctx, o.Pod); err != nil {
		return false, err
	}
	return has()
}

// expanded is the monitor's file with the variables of the pod in it.
func (o Outdated) expanded() string { return foundationdb.Expanded(o.Conf, o.Variables) }
