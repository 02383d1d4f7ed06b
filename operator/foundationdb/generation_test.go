package foundationdb

import (
	"testing"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// settled is a cluster of generation 7 of which 6 was reconciled, and that needs nothing.
const settled = `
spec: {processCounts: {storage: 2, log: 1, stateless: -1}}
status:
  generations: {reconciled: 6, needsBounce: 6}
  configured: true
  databaseConfiguration: {redundancy_mode: double, storage_engine: ssd-2, usable_regions: 1, logs: 3, proxies: 3, resolvers: 1, log_spill: 2, excluded_servers: [{address: 1.1.1.1}]}
  requiredAddresses: {nonTLS: true}
  health: {available: true}
  locks: {lockDenyList: [other]}
  processGroups:
  - {processGroupID: storage-1, processClass: storage}
  - {processGroupID: storage-2, processClass: storage}
  - {processGroupID: log-1, processClass: log}
`

func TestGenerations(t *testing.T) {
	type generations = v1beta2.ClusterGenerationStatus
	group := func(c *v1beta2.FoundationDBCluster, conditions ...v1beta2.ProcessGroupConditionType) *v1beta2.ProcessGroupStatus {
		g := &c.Status.ProcessGroups[2]
		for _, kind := range conditions {
			g.ProcessGroupConditions = append(g.ProcessGroupConditions, v1beta2.ProcessGroupCondition{Type: kind, Timestamp: 1})
		}
		return g
	}
	mark := func(g *v1beta2.ProcessGroupStatus) { g.RemovalTimestamp = at(1) }
	type cluster = *v1beta2.FoundationDBCluster
	for name, x := range map[string]struct {
		change func(c cluster)
		facts  GenerationFacts
		want   generations
	}{
		"nothing":                           {func(cluster) {}, GenerationFacts{}, generations{}},
		"a class has too few":               {func(c cluster) { c.Spec.ProcessCounts["storage"] = 3 }, GenerationFacts{}, generations{NeedsGrow: 7}},
		"a class has too many":              {func(c cluster) { c.Spec.ProcessCounts["storage"] = 1 }, GenerationFacts{}, generations{NeedsShrink: 7}},
		"a class has groups and wants none": {func(c cluster) { c.Spec.ProcessCounts["log"] = -1 }, GenerationFacts{}, generations{NeedsShrink: 7}},
		"one grows and one shrinks": {func(c cluster) { c.Spec.ProcessCounts["storage"], c.Spec.ProcessCounts["log"] = 3, -1 }, GenerationFacts{},
			generations{NeedsGrow: 7, NeedsShrink: 7}},
		"marked, and not replaced": {func(c cluster) { mark(group(c)) }, GenerationFacts{}, generations{NeedsGrow: 7, NeedsShrink: 7}},
		"marked, and not wanted": {func(c cluster) { c.Spec.ProcessCounts["log"] = -1; mark(group(c)) }, GenerationFacts{},
			generations{NeedsShrink: 7}},
		"marked and terminating, not excluded": {func(c cluster) { c.Spec.ProcessCounts["log"] = -1; mark(group(c, "ResourcesTerminating")) }, GenerationFacts{},
			generations{NeedsShrink: 7}},
		"marked and excluded, not terminating": {func(c cluster) { c.Spec.ProcessCounts["log"] = -1; mark(group(c)); group(c).ExclusionTimestamp = at(2) }, GenerationFacts{},
			generations{NeedsShrink: 7}},
		"marked, excluded and terminating": {func(c cluster) {
			c.Spec.ProcessCounts["log"] = -1
			mark(group(c, "ResourcesTerminating", "IncorrectPodSpec"))
			group(c).ExclusionTimestamp = at(2)
		}, GenerationFacts{}, generations{HasPendingRemoval: 7}},
		"marked, exclusion skipped, terminating": {func(c cluster) {
			c.Spec.ProcessCounts["log"] = -1
			mark(group(c, "ResourcesTerminating"))
			group(c).ExclusionSkipped = true
		}, GenerationFacts{}, generations{HasPendingRemoval: 7}},
		"a command line":  {func(c cluster) { group(c, "IncorrectCommandLine") }, GenerationFacts{}, generations{NeedsBounce: 7, HasUnhealthyProcess: 7}},
		"a pod":           {func(c cluster) { group(c, "IncorrectPodSpec") }, GenerationFacts{}, generations{NeedsPodDeletion: 7, HasUnhealthyProcess: 7}},
		"another trouble": {func(c cluster) { group(c, "NodeTaintDetected") }, GenerationFacts{}, generations{HasUnhealthyProcess: 7}},
		"flaw 9, high run loop busy blocks reconciled": {func(c cluster) { group(c, "ProcessHasHighRunLoopBusy", "Ready") }, GenerationFacts{}, generations{}},
		"not configured":                      {func(c cluster) { c.Status.Configured = false }, GenerationFacts{}, generations{NeedsConfigurationChange: 7}},
		"another engine":                      {func(c cluster) { c.Spec.DatabaseConfiguration.StorageEngine = "ssd-rocksdb-v1" }, GenerationFacts{}, generations{NeedsConfigurationChange: 7}},
		"an alias of the engine":              {func(c cluster) { c.Spec.DatabaseConfiguration.StorageEngine = "ssd" }, GenerationFacts{}, generations{}},
		"a field that the spec leaves open":   {func(c cluster) { c.Status.DatabaseConfiguration.StorageMigrationType = "disabled" }, GenerationFacts{}, generations{}},
		"a configuration that was never read": {func(c cluster) { c.Status.DatabaseConfiguration = v1beta2.DatabaseConfiguration{} }, GenerationFacts{}, generations{NeedsConfigurationChange: 7}},
		"the live configuration counts":       {func(cluster) {}, GenerationFacts{DatabaseConfiguration: &fdb.Configuration{RedundancyMode: fdb.Triple}}, generations{NeedsConfigurationChange: 7}},
		"coordinators":                        {func(c cluster) { c.Status.NeedsNewCoordinators = true }, GenerationFacts{}, generations{NeedsCoordinatorChange: 7}},
		"the config map":                      {func(c cluster) { c.Status.HasIncorrectConfigMap = true }, GenerationFacts{}, generations{NeedsMonitorConfUpdate: 7}},
		"a service":                           {func(c cluster) { c.Status.HasIncorrectServiceConfig = true }, GenerationFacts{}, generations{NeedsServiceUpdate: 7}},
		"unavailable":                         {func(c cluster) { c.Status.Health = v1beta2.ClusterHealth{Healthy: true, FullReplication: true} }, GenerationFacts{}, generations{MissingDatabaseStatus: 7}},
		"data move":                           {func(c cluster) { c.Status.Health.Healthy = false }, GenerationFacts{}, generations{}},
		"TLS and non-TLS":                     {func(c cluster) { c.Status.RequiredAddresses.TLS = true }, GenerationFacts{}, generations{HasExtraListeners: 7}},
		"a denied owner":                      {func(c cluster) { c.Spec.LockOptions.DenyList = []v1beta2.LockDenyEntry{{ID: "dc1"}} }, GenerationFacts{}, generations{NeedsLockConfigurationChanges: 7}},
		"one that is denied":                  {func(c cluster) { c.Spec.LockOptions.DenyList = []v1beta2.LockDenyEntry{{ID: "other"}} }, GenerationFacts{}, generations{}},
		"one allowed again":                   {func(c cluster) { c.Spec.LockOptions.DenyList = []v1beta2.LockDenyEntry{{ID: "other", Allow: true}} }, GenerationFacts{}, generations{NeedsLockConfigurationChanges: 7}},
		"one that is allowed":                 {func(c cluster) { c.Spec.LockOptions.DenyList = []v1beta2.LockDenyEntry{{ID: "dc1", Allow: true}} }, GenerationFacts{}, generations{}},
		"the live list counts":                {func(c cluster) { c.Spec.LockOptions.DenyList = []v1beta2.LockDenyEntry{{ID: "other"}} }, GenerationFacts{LockDenyList: []string{}}, generations{NeedsLockConfigurationChanges: 7}},
	} {
		c := clusterOf(t, settled)
		x.change(c)
		before := c.DeepCopy()
		got, reconciled := Generations(c, x.facts)
		want := x.want
		settled := want == generations{} || want == generations{HasPendingRemoval: 7}
		want.Reconciled = 6
		if settled {
			want.Reconciled = 7
		}
		equal(t, name, got, want)
		equal(t, name+", reconciled", reconciled, settled)
		equal(t, name+", the object", c, before)
	}
}
