package foundationdb

import (
	"reflect"
	"testing"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// TestEffective: the golden texts have every default of section 2; a value that is given stays.
func TestEffective(t *testing.T) {
	golden(t, "effective.yaml", asText(t, Effective(v1beta2.FoundationDBClusterSpec{})))

	given := specOf(t, `
imageType: split
storageServersPerPod: 2
logServersPerPod: 3
minimumUptimeSecondsForBounce: 1
useExplicitListenAddress: false
replaceInstancesWhenResourcesChange: true
faultDomain: {key: foundationdb.org/none}
databaseConfiguration: {redundancy_mode: triple, storage_engine: memory, usable_regions: 2}
lockOptions: {lockDurationMinutes: 0}
labels: {filterOnOwnerReference: true, processGroupIDLabels: [id], processClassLabels: [class]}
routing: {publicIPSource: service, useDNSInClusterFile: false, dnsDomain: example.org}
mainContainer: {imageConfigs: [{baseImage: mirror/foundationdb}]}
sidecarContainer: {enableLivenessProbe: false, enableReadinessProbe: true, imageConfigs: [{baseImage: foundationdb/foundationdb-kubernetes-sidecar, tagSuffix: "-1"}]}
automationOptions:
  configureDatabase: false
  killProcesses: false
  cacheDatabaseStatusForReconciliation: false
  useLocalitiesForExclusion: false
  ignorePendingPodsDuration: 1
  ignoreTerminatingPodsSeconds: 0
  ignoreMissingProcessesSeconds: 0
  failedPodDurationSeconds: 0
  waitBetweenRemovalsSeconds: 0
  maxConcurrentReplacements: 0
  deletionMode: All
  removalMode: None
  podUpdateStrategy: Delete
  synchronizationMode: global
  ignoreLogGroupsForUpgrade: [mine]
  replacements: {enabled: false, faultDomainBasedReplacements: true, failureDetectionTimeSeconds: 0, taintReplacementTimeSeconds: 0, maxConcurrentReplacements: 0, maxFaultDomainsWithTaintedProcessGroups: 2}
  maintenanceModeOptions: {UseMaintenanceModeChecker: true, maintenanceModeTimeSeconds: 0}
buggify: {crashLoop: [storage-1, log-1], crashLoopContainers: [{containerName: other, targets: ["*"]}, {containerName: foundationdb, targets: [log-1]}]}
`)
	before := given.DeepCopy()
	golden(t, "effective-given.yaml", asText(t, Effective(given)))
	if !reflect.DeepEqual(&given, before) {
		t.Error("the spec was changed")
	}
	for name, s := range map[string]v1beta2.FoundationDBClusterSpec{"given": given, "empty": {}} {
		once := Effective(s)
		equal(t, name+", twice", Effective(once), once)
		equal(t, name+", roles", Roles(once), Roles(s))
		equal(t, name+", groups", Groups(once), Groups(s))
		equal(t, name+", locks", UsesLocks(once), UsesLocks(s))
	}
}

func TestEffectiveRouting(t *testing.T) {
	for text, want := range map[string][2]bool{ // dns localities, headless service
		``:                                      {true, true},
		`routing: {useDNSInClusterFile: false}`: {false, false},
		`routing: {useDNSInClusterFile: false, headlessService: true}`:         {false, true},
		`routing: {useDNSInClusterFile: false, defineDNSLocalityFields: true}`: {true, true},
		`routing: {defineDNSLocalityFields: false}`:                            {true, true}, // names need it
	} {
		r := Effective(specOf(t, text)).Routing
		equal(t, text, [2]bool{*r.DefineDNSLocalityFields, *r.HeadlessService}, want)
	}
}

func TestUsesLocks(t *testing.T) {
	for text, want := range map[string]bool{
		``:                            false,
		`faultDomain: {zoneCount: 1}`: false,
		`faultDomain: {zoneCount: 2}`: true,
		`databaseConfiguration: {regions: [{datacenters: [{id: a}]}]}`:                                   false,
		`databaseConfiguration: {regions: [{datacenters: [{id: a}]}, {datacenters: [{id: b}]}]}`:         true,
		`databaseConfiguration: {redundancy_mode: three_data_hall}`:                                      true,
		`{databaseConfiguration: {redundancy_mode: three_data_hall}, lockOptions: {disableLocks: true}}`: false,
		`lockOptions: {disableLocks: false}`:                                                             true,
		`lockOptions: {disableLocks: true}`:                                                              false,
	} {
		equal(t, text, UsesLocks(specOf(t, text)), want)
	}
}
