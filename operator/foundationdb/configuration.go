package foundationdb

import (
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// ConfigurationOf returns the configuration of a spec or a status.
func ConfigurationOf(d v1beta2.DatabaseConfiguration) fdb.Configuration {
	c := fdb.Configuration{
		RedundancyMode: fdb.Redundancy(d.RedundancyMode), StorageEngine: d.StorageEngine, UsableRegions: d.UsableRegions,
		RoleCounts: fdb.RoleCounts(d.RoleCounts), LogSpill: d.LogSpill, LogVersion: d.LogVersion,
		StorageMigrationType: d.StorageMigrationType, PerpetualStorageWiggle: d.PerpetualStorageWiggle,
		PerpetualStorageWiggleLocality: d.PerpetualStorageWiggleLocality, PerpetualStorageWiggleEngine: d.PerpetualStorageWiggleEngine,
	}
	for _, e := range d.ExcludedServers {
		c.ExcludedServers = append(c.ExcludedServers, fdb.ExcludedServer(e))
	}
	for _, r := range d.Regions {
		region := fdb.Region{SatelliteLogs: r.SatelliteLogs, SatelliteRedundancyMode: r.SatelliteRedundancyMode}
		for _, dc := range r.Datacenters {
			region.Datacenters = append(region.Datacenters, fdb.Datacenter(dc))
		}
		c.Regions = append(c.Regions, region)
	}
	return c
}

// ConfigurationIn returns the configuration as a status holds it.
func ConfigurationIn(c fdb.Configuration) v1beta2.DatabaseConfiguration {
	d := v1beta2.DatabaseConfiguration{
		RedundancyMode: string(c.RedundancyMode), StorageEngine: c.StorageEngine, UsableRegions: c.UsableRegions,
		RoleCounts: v1beta2.RoleCounts(c.RoleCounts), LogSpill: c.LogSpill, LogVersion: c.LogVersion,
		StorageMigrationType: c.StorageMigrationType, PerpetualStorageWiggle: c.PerpetualStorageWiggle,
		PerpetualStorageWiggleLocality: c.PerpetualStorageWiggleLocality, PerpetualStorageWiggleEngine: c.PerpetualStorageWiggleEngine,
	}
	for _, e := range c.ExcludedServers {
		d.ExcludedServers = append(d.ExcludedServers, v1beta2.ExcludedServer(e))
	}
	for _, r := range c.Regions {
		region := v1beta2.Region{SatelliteLogs: r.SatelliteLogs, SatelliteRedundancyMode: r.SatelliteRedundancyMode}
		for _, dc := range r.Datacenters {
			region.Datacenters = append(region.Datacenters, v1beta2.Datacenter(dc))
		}
		d.Regions = append(d.Regions, region)
	}
	return d
}

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
