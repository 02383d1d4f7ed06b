package clusters

import (
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/groups"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/removal"
	"github.com/pawl-dev/pawl/outcome"
)

const largestNumber = 99999 // of a group

// addProcessGroups adds the groups that are missing. They are saved before anything of them is made, so
// that what is made is never without a group.
func addProcessGroups(p *pass) decision {
	have := map[fdb.Class]int{}
	for i := range p.cluster.Status.ProcessGroups {
		if g := &p.cluster.Status.ProcessGroups[i]; !g.Marked() {
			have[classOf(g)]++
		}
	}
	wanted := foundationdb.Groups(p.cluster.Spec)
	var used map[fdb.GroupID]bool
	var added []v1beta2.ProcessGroupStatus
	for _, class := range slices.Sorted(maps.Keys(wanted)) {
		for range max(0, wanted[class]-have[class]) {
			if used == nil {
				used = taken(p)
			}
			id := newID(p.cluster.Spec.ProcessGroupIDPrefix, class, p.random, used)
			g := v1beta2.ProcessGroupStatus{ProcessGroupID: id, ProcessClass: v1beta2.ProcessClass(class)}
			groups.SetConditions(&g, foundationdb.FirstConditions(class), p.now)
			added = append(added, g)
		}
	}
	if len(added) == 0 {
		return decision{}
	}
	ids := texts(added, func(g v1beta2.ProcessGroupStatus) string { return string(g.ProcessGroupID) })
	return acts(outcome.Done(), saving("add group", ids, func(p *pass) {
		p.cluster.Status.ProcessGroups = append(p.cluster.Status.ProcessGroups, added...)
		p.order()
		p.count()
	}))
}

// taken are class and number of groups, of what is left of groups, and of those that the database excludes: by them the
// children are named, so that the prefix makes no difference.
func taken(p *pass) map[fdb.GroupID]bool {
	ids := slices.Concat(slices.Collect(maps.Keys(p.ours)), slices.Collect(maps.Keys(p.members)))
	for _, e := range p.exclusions().All() {
		if id, ok := removal.GroupOf(e); ok {
			ids = append(ids, id)
		}
	}
	all := make(map[fdb.GroupID]bool, len(ids))
	for _, text := range ids {
		if id, err := fdb.ParseGroupID(string(text)); err == nil {
			all[fdb.GroupID{Class: id.Class, Number: id.Number}] = true
		}
	}
	return all
}

// newID draws the id of a new group.
func newID(prefix string, class fdb.Class, random *rand.Rand, taken map[fdb.GroupID]bool) v1beta2.ProcessGroupID {
	for {
		id := fdb.GroupID{Class: class, Number: 1 + random.IntN(largestNumber)}
		if !taken[id] {
			taken[id] = true
			id.Prefix = prefix
			return v1beta2.ProcessGroupID(id.String())
		}
	}
}
