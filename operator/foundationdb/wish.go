package foundationdb

import (
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// Wish returns what coordinators the cluster should have. Groups that are marked for removal, or named by a removal
// list, are on their way out.
func Wish(c *v1beta2.FoundationDBCluster) fdb.CoordinatorWish {
	w := fdb.CoordinatorWish{
		Configuration: ConfigurationOf(c.Spec.DatabaseConfiguration),
		TLS:           c.Spec.MainContainer.EnableTLS,
		DNS:           or(c.Spec.Routing.UseDNSInClusterFile, true),
	}
	if version, err := fdb.ParseVersion(c.Spec.Version); err == nil {
		w.Version = version
	}
	for _, s := range c.Spec.CoordinatorSelection {
		w.Selection = append(w.Selection, fdb.ClassPriority{Class: fdb.Class(s.ProcessClass), Priority: s.Priority})
	}
	leaving := map[v1beta2.ProcessGroupID]bool{}
	add := func(id v1beta2.ProcessGroupID) {
		if !leaving[id] {
			leaving[id] = true
			w.Leaving = append(w.Leaving, string(id))
		}
	}
	for _, g := range c.Status.ProcessGroups {
		if g.Marked() {
			add(g.ProcessGroupID)
		}
	}
	for _, list := range [][]v1beta2.ProcessGroupID{c.Spec.ProcessGroupsToRemove, c.Spec.ProcessGroupsToRemoveWithoutExclusion} {
		for _, id := range list {
			add(id)
		}
	}
	return w
}
