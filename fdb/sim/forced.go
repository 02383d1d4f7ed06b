package sim

import (
	"slices"

	"github.com/pawl-dev/pawl/fdb"
)

// CopyCoordination gives a data folder the files of a coordinator, as somebody does who copies coordination-0.fdq and
// coordination-1.fdq. The server in it knows then what the other one knows.
func (c *Cluster) CopyCoordination(from, to string) {
	if f, t := c.folders[from], c.folders[to]; f != nil && t != nil {
		t.coordinates = f.coordinates
		c.say("the coordination files of %s are copied to %s", from, to)
	}
}

// force recovers a database in one data center, without the logs that are gone, and gives its region the only positive
// priority. A database that has recovered is left alone. Logs of both regions have the same here: what a remote region
// lags behind, and is lost with a real one, is not played. Sources: foundationdb 7.3.69,
// fdbcli/ForceRecoveryWithDataLossCommand.actor.cpp, its help, and fdbserver/ClusterRecovery.actor.cpp.
func (c *Cluster) force(dc string) {
	r := &c.recovery
	if r.state >= acceptingCommits || !slices.ContainsFunc(c.settings.regions, func(g fdb.Region) bool { return mainOf(g).ID == dc }) {
		return
	}
	next := c.settings.clone()
	next.counts["usable_regions"] = 1
	for i, region := range next.regions {
		region.Datacenters = slices.Clone(region.Datacenters)
		for j := range region.Datacenters {
			if region.Datacenters[j].Satellite == 0 {
				region.Datacenters[j].Priority = -1
				if region.Datacenters[j].ID == dc {
					region.Datacenters[j].Priority = 1
				}
			}
		}
		if mainOf(region).ID == dc { // the satellites are not waited for
			region = fdb.Region{Datacenters: []fdb.Datacenter{mainOf(region)}}
		}
		next.regions[i] = region
	}
	slices.SortStableFunc(next.regions, func(a, b fdb.Region) int { return mainOf(b).Priority - mainOf(a).Priority })
	r.generations = slices.DeleteFunc(r.generations, func(g generation) bool { return g.unreadable(c) != "" })
	c.settings = next
	c.data.configured()
	r.start(because(changed, "forced, in %s", dc))
	r.review(because(changed, "forced recovery"))
}
