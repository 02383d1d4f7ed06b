package groups

import (
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// Adopt makes groups of children that belong to none. A group is saved before its children are made, so
// a claim without a group is that of a database that was there before: it is never created again.
func Adopt(c *v1beta2.FoundationDBCluster, members map[v1beta2.ProcessGroupID]*Member) {
	there := map[v1beta2.ProcessGroupID]bool{}
	for i := range c.Status.ProcessGroups {
		there[c.Status.ProcessGroups[i].ProcessGroupID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(members)) {
		m := members[id]
		parsed, err := fdb.ParseGroupID(string(id))
		if there[id] || err != nil || m.Pod == nil && m.Claim == nil && m.Service == nil {
			continue
		}
		c.Status.ProcessGroups = append(c.Status.ProcessGroups, v1beta2.ProcessGroupStatus{
			ProcessGroupID: id, ProcessClass: v1beta2.ProcessClass(parsed.Class),
		})
		c.Status.Configured = c.Status.Configured || m.Claim != nil
	}
}

// ObservePods takes over into the status of a cluster how the pods are made.
func ObservePods(c *v1beta2.FoundationDBCluster, member func(v1beta2.ProcessGroupID) *Member) {
	s, spec := &c.Status, c.Spec
	images := map[v1beta2.ImageType]bool{spec.ImageType: true}
	storage, logs := map[int]bool{spec.StorageServersPerPod: true}, map[int]bool{spec.LogServersPerPod: true}
	s.HasListenIPsForAllPods = true
	for i := range s.ProcessGroups {
		m, class := member(s.ProcessGroups[i].ProcessGroupID), fdb.Class(s.ProcessGroups[i].ProcessClass)
		pod := m.Pod
		if pod == nil { // it comes back as its data ask for
			c := foundationdb.WithDataOf(c, class, m.Claim)
			images[c.Spec.ImageType], storage[c.Spec.StorageServersPerPod], logs[c.Spec.LogServersPerPod] = true, true, true
			continue
		}
		images[foundationdb.ImageTypeOf(pod)] = true
		switch {
		case class == fdb.ClassStorage:
			storage[m.Servers()] = true
		case class.LogLike():
			logs[m.Servers()] = true
		}
		s.HasListenIPsForAllPods = s.HasListenIPsForAllPods && foundationdb.HasListenIP(pod)
	}
	s.ImageTypes = slices.Sorted(maps.Keys(images))
	s.StorageServersPerDisk, s.LogServersPerDisk = slices.Sorted(maps.Keys(storage)), slices.Sorted(maps.Keys(logs))
}
