package foundationdb

import (
	"testing"

	"github.com/pawl-dev/pawl/fdb"
)

func TestWish(t *testing.T) {
	equal(t, "a plain cluster", Wish(clusterOf(t, ``)), fdb.CoordinatorWish{DNS: true, Version: fdb.Version{Major: 7, Minor: 3, Patch: 69}})
	equal(t, "everything", Wish(clusterOf(t, `
spec:
  version: 7.4.6
  databaseConfiguration: {redundancy_mode: triple, usable_regions: 2, regions: [{datacenters: [{id: dc1, priority: 1}]}]}
  mainContainer: {enableTls: true}
  routing: {useDNSInClusterFile: false}
  coordinatorSelection: [{processClass: log, priority: 10}, {processClass: coordinator}]
  processGroupsToRemove: [log-1, log-3]
  processGroupsToRemoveWithoutExclusion: [log-4]
status:
  processGroups:
  - {processGroupID: log-1, removalTimestamp: "2026-01-01T00:00:00Z"}
  - {processGroupID: log-2}
  - {processGroupID: storage-1, removalTimestamp: "2026-01-01T00:00:00Z"}
`)), fdb.CoordinatorWish{
		Configuration: fdb.Configuration{RedundancyMode: fdb.Triple, UsableRegions: 2, Regions: []fdb.Region{{Datacenters: []fdb.Datacenter{{ID: "dc1", Priority: 1}}}}},
		TLS:           true, Version: fdb.Version{Major: 7, Minor: 4, Patch: 6},
		Selection: []fdb.ClassPriority{{Class: fdb.ClassLog, Priority: 10}, {Class: fdb.ClassCoordinator}},
		Leaving:   []string{"log-1", "storage-1", "log-3", "log-4"},
	})
	equal(t, "an unreadable version", Wish(clusterOf(t, `spec: {version: new}`)), fdb.CoordinatorWish{DNS: true})
}
