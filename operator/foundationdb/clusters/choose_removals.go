package clusters

import (
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/removal"
	"github.com/pawl-dev/pawl/outcome"
)

// chooseRemovals marks what a class has too much of. Groups that do not serve go first, then those
// without which the rest is spread best; one that is silent since a moment ago stays.
func chooseRemovals(p *pass) decision {
	if p.silent() {
		return decision{}
	}
	byClass := map[fdb.Class][]*v1beta2.ProcessGroupStatus{}
	for i := range p.cluster.Status.ProcessGroups {
		if g := &p.cluster.Status.ProcessGroups[i]; !g.Marked() {
			byClass[classOf(g)] = append(byClass[classOf(g)], g)
		}
	}
	wanted := foundationdb.Groups(p.cluster.Spec)
	var chosen []v1beta2.ProcessGroupID
	for _, class := range slices.Sorted(maps.Keys(byClass)) {
		chosen = append(chosen, removal.Surplus(byClass[class], max(0, wanted[class]), p.now)...)
	}
	if len(chosen) == 0 {
		return decision{}
	}
	return acts(outcome.Done(), marking("remove group", chosen, nil))
}
