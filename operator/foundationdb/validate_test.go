package foundationdb

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

func paths(list []Problem) string {
	var paths []string
	for _, p := range list {
		paths = append(paths, strings.TrimPrefix(p.Path, "spec."))
	}
	return strings.Join(paths, " ")
}

// TestValidate: both sides of each rule. The version is 7.3.69, running and desired, unless the text says another.
func TestValidate(t *testing.T) {
	ids := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("log-%d", i+1))
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	const regions = `databaseConfiguration: {usable_regions: 2, regions: [%s, {datacenters: [{id: dc9}]}]}`
	for text, want := range map[string]string{
		``: "",

		`version: 7.1.0`:               "version", // of a database that runs 7.3.69
		`version: 7.3.1`:               "",
		`version: 7.3.70`:              "",
		`version: 7.4.0`:               "",
		`version: 7.4.0-rc1`:           "",
		`version: 7.3.69-rc1`:          "version",
		`version: "7.3"`:               "version",
		`version: ""`:                  "version",
		`version: foundationdb-7.3.79`: "",

		`databaseConfiguration: {storage_engine: ssd-rocksdb-v1}`:                                                                                    "",
		`databaseConfiguration: {storage_engine: ssd-redwood-1}`:                                                                                     "",
		`databaseConfiguration: {storage_engine: rocks}`:                                                                                             "databaseConfiguration.storage_engine",
		`databaseConfiguration: {storage_engine: none}`:                                                                                              "databaseConfiguration.storage_engine",
		`databaseConfiguration: {perpetual_storage_wiggle_engine: none}`:                                                                             "",
		`databaseConfiguration: {perpetual_storage_wiggle_engine: rocks}`:                                                                            "databaseConfiguration.perpetual_storage_wiggle_engine",
		`databaseConfiguration: {redundancy_mode: quadruple}`:                                                                                        "databaseConfiguration.redundancy_mode",
		`databaseConfiguration: {perpetual_storage_wiggle_locality: "a;b"}`:                                                                          "databaseConfiguration.perpetual_storage_wiggle_locality",
		`databaseConfiguration: {storage_migration_type: "a b"}`:                                                                                     "databaseConfiguration.storage_migration_type",
		fmt.Sprintf(regions, `{datacenters: [{id: dc1, priority: 1}, {id: dc2, satellite: 1}], satellite_redundancy_mode: one_satellite_double}`):    "",
		fmt.Sprintf(regions, `{datacenters: [{id: dc1, priority: 1}, {id: dc2, satellite: 1}], satellite_redundancy_mode: one_satellite_quadruple}`): "databaseConfiguration.regions[0].satellite_redundancy_mode",
		fmt.Sprintf(regions, `{datacenters: [{id: dc1, priority: 1}, {id: dc2}]}`):                                                                   "databaseConfiguration.regions[0].datacenters",
		fmt.Sprintf(regions, `{datacenters: [{id: dc1, priority: 1}, {id: dc1, satellite: 1}]}`):                                                     "databaseConfiguration.regions[0].datacenters[1].id",
		fmt.Sprintf(regions, `{datacenters: [{id: "dc 1", priority: 1}]}`):                                                                           "databaseConfiguration.regions[0].datacenters[0].id",

		`coordinatorSelection: [{processClass: log}, {processClass: coordinator}, {processClass: storage}, {processClass: transaction}]`: "",
		`coordinatorSelection: [{processClass: log}, {processClass: stateless}]`:                                                         "coordinatorSelection[1].processClass",
		`coordinatorSelection: [{priority: 1}]`:                                                                                          "coordinatorSelection[0].processClass",
		`routing: {podIPFamily: 4}`:                                                                                                      "",
		`routing: {podIPFamily: 6}`:                                                                                                      "",
		`routing: {podIPFamily: 5}`:                                                                                                      "routing.podIPFamily",
		`routing: {podIPFamily: 0}`:                                                                                                      "routing.podIPFamily",
		`routing: {publicIPSource: service}`:                                                                                             "",
		`routing: {publicIPSource: node}`:                                                                                                "routing.publicIPSource",
		`routing: {dnsDomain: example.org}`:                                                                                              "",
		`routing: {dnsDomain: "example org"}`:                                                                                            "routing.dnsDomain",
		`imageType: both`:                                                                                                                "imageType",

		`processes: {log: {customParameters: [knob_a=1, "knob_b = 2"]}}`:                     "",
		`processes: {log: {customParameters: [knob_a=1, "knob_a =2", knob_b=1, datadir=x]}}`: "processes[log].customParameters[1] processes[log].customParameters[3]",
		`processes: {general: {customParameters: [datadir=/x]}}`:                             "processes[general].customParameters[0]",
		`processes: {general: {customParameters: [" restart-delay = 1"]}}`:                   "processes[general].customParameters[0]",
		`processes: {general: {customParameters: [kill_on_configuration_change=x]}}`:         "processes[general].customParameters[0]",
		`processes: {general: {customParameters: ["knob_a=1\nuser=root"]}}`:                  "processes[general].customParameters[0]",
		`processes: {general: {customParameters: ["knob_a=\0"]}}`:                            "processes[general].customParameters[0]",

		`processGroupIDPrefix: ` + strings.Repeat("x", 43): "",
		`processGroupIDPrefix: ` + strings.Repeat("x", 44): "processGroupIDPrefix",
		`processGroupIDPrefix: dc1.a-b_c`:                  "",
		`processGroupIDPrefix: dc1-`:                       "processGroupIDPrefix",
		`processGroupIDPrefix: "dc;1"`:                     "processGroupIDPrefix",

		`processGroupsToRemove: ` + ids(500):                             "",
		`processGroupsToRemove: ` + ids(501):                             "processGroupsToRemove",
		`processGroupsToRemoveWithoutExclusion: ` + ids(500):             "",
		`processGroupsToRemoveWithoutExclusion: ` + ids(501):             "processGroupsToRemoveWithoutExclusion",
		`processGroupsToRemove: [log-1, "*"]`:                            "processGroupsToRemove[1]",
		`processGroupsToRemoveWithoutExclusion: ["*", "storage-1;kill"]`: "processGroupsToRemoveWithoutExclusion[0] processGroupsToRemoveWithoutExclusion[1]",

		`{dataCenter: dc1, dataHall: hall/1}`:                                                                    "",
		`{dataCenter: "dc 1", dataHall: "h;1"}`:                                                                  "dataCenter dataHall",
		`faultDomain: {value: kc-1, valueFrom: $ZONE, zoneCount: 3}`:                                             "",
		`faultDomain: {valueFrom: "metadata.labels['zone']"}`:                                                    "",
		`faultDomain: {value: "kc'1", valueFrom: $ZONE;x, zoneCount: -1}`:                                        "faultDomain.value faultDomain.valueFrom faultDomain.zoneCount",
		`seedConnectionString: a:b@1.1.1.1:4501,[fd00::1]:4501:tls,x.y:4501`:                                     "",
		`seedConnectionString: a:b@c@d:4500`:                                                                     "seedConnectionString",
		`seedConnectionString: a:b`:                                                                              "seedConnectionString",
		`partialConnectionString: {databaseName: a_b, generationID: x9, coordinators: ["1.1.1.1:4501"]}`:         "",
		`partialConnectionString: {databaseName: a-b, generationID: x_9, coordinators: ["1.1.1.1:4501", "a b"]}`: "partialConnectionString.databaseName partialConnectionString.generationID partialConnectionString.coordinators[1]",

		`automationOptions: {deletionMode: All, removalMode: None, podUpdateStrategy: Delete, synchronizationMode: global}`: "",
		`automationOptions: {deletionMode: Rack, removalMode: Rack, podUpdateStrategy: Rack, synchronizationMode: Rack}`:    "automationOptions.deletionMode automationOptions.removalMode automationOptions.podUpdateStrategy automationOptions.synchronizationMode",
		`automationOptions: {replacements: {maxFaultDomainsWithTaintedProcessGroups: 20%}}`:                                 "",
		`automationOptions: {replacements: {maxFaultDomainsWithTaintedProcessGroups: 0}}`:                                   "",
		`automationOptions: {replacements: {maxFaultDomainsWithTaintedProcessGroups: some}}`:                                "automationOptions.replacements.maxFaultDomainsWithTaintedProcessGroups",

		`lockOptions: {lockDurationMinutes: 1}`:                   "",
		`lockOptions: {lockDurationMinutes: 0}`:                   "lockOptions.lockDurationMinutes",
		`{logGroup: a b}`:                                         "",
		`{logGroup: "a\nuser=root"}`:                              "logGroup",
		`mainContainer: {peerVerificationRules: "S.CN=a, I.O=b"}`: "",
		`mainContainer: {peerVerificationRules: "S.CN=a\nuser"}`:  "mainContainer.peerVerificationRules",
		`sidecarVariables: [HOST_RACK, "A;B"]`:                    "sidecarVariables[1]",

		// all at once
		`{version: 7.0.9, imageType: x, routing: {podIPFamily: 7}, logGroup: "\0"}`: "version version imageType routing.podIPFamily logGroup",
	} {
		c := clusterOf(t, ``)
		c.Spec = specOf(t, text)
		before := c.DeepCopy()
		problems := Validate(c)
		if got := paths(problems); got != want {
			t.Errorf("%.150s\n%v, expected %s", text, problems, want)
		}
		if slices.ContainsFunc(problems, func(p Problem) bool { return p.Reason == "" || p.String() != p.Path+": "+p.Reason }) {
			t.Errorf("%.150s\na problem without a reason: %v", text, problems)
		}
		equal(t, text, c, before)
	}
}

// TestValidateVersion: of a new cluster no version runs.
func TestValidateVersion(t *testing.T) {
	for text, want := range map[string]string{
		`version: 7.1.0`:     "",
		`version: 7.1.0-rc1`: "version",
		`version: 7.1.1-rc1`: "",
		`version: 7.0.0`:     "version",
		`version: 6.3.25`:    "version",
		`{version: 7.2.9, databaseConfiguration: {storage_engine: ssd-redwood-1}}`:                  "databaseConfiguration.storage_engine",
		`{version: 7.3.0, databaseConfiguration: {storage_engine: ssd-redwood-1}}`:                  "",
		`{version: 7.1.67, databaseConfiguration: {storage_engine: ssd-sharded-rocksdb}}`:           "databaseConfiguration.storage_engine",
		`{version: 7.2.0, databaseConfiguration: {storage_engine: ssd-sharded-rocksdb}}`:            "",
		`{version: 7.1.0, databaseConfiguration: {perpetual_storage_wiggle_engine: ssd-redwood-1}}`: "databaseConfiguration.perpetual_storage_wiggle_engine",
	} {
		c := &v1beta2.FoundationDBCluster{Spec: specOf(t, text)}
		if got := paths(Validate(c)); got != want {
			t.Errorf("%s\n%v, expected %s", text, Validate(c), want)
		}
	}
}

// TestFlaw21SpecBecomesCommand: no value of the spec that reaches a command text may hold a second command.
func TestFlaw21SpecBecomesCommand(t *testing.T) {
	for _, evil := range []string{"a;kill", "a b", "a\nb", `a"b`, "a'b", `a\b`, "a\x00b", "a\tb"} {
		c := clusterOf(t, ``)
		s := &c.Spec
		s.DataCenter, s.DataHall, s.FaultDomain.Value, s.ProcessGroupIDPrefix = evil, evil, evil, evil
		s.SeedConnectionString = "a:b@" + evil + ":4500"
		s.PartialConnectionString.Coordinators = []string{evil}
		s.ProcessGroupsToRemove = []v1beta2.ProcessGroupID{v1beta2.ProcessGroupID(evil + "-log-1")}
		d := &s.DatabaseConfiguration
		d.RedundancyMode, d.StorageEngine, d.StorageMigrationType = evil, evil, evil
		d.PerpetualStorageWiggleLocality, d.PerpetualStorageWiggleEngine = evil, evil
		d.Regions = []v1beta2.Region{{Datacenters: []v1beta2.Datacenter{{ID: evil}}, SatelliteRedundancyMode: evil}}
		found := map[string]bool{}
		for _, p := range Validate(c) {
			found[p.Path] = true
		}
		for _, path := range []string{
			"dataCenter", "dataHall", "faultDomain.value", "processGroupIDPrefix", "seedConnectionString", "partialConnectionString.coordinators[0]", "processGroupsToRemove[0]",
			"databaseConfiguration.redundancy_mode", "databaseConfiguration.storage_engine", "databaseConfiguration.storage_migration_type",
			"databaseConfiguration.perpetual_storage_wiggle_locality", "databaseConfiguration.perpetual_storage_wiggle_engine",
			"databaseConfiguration.regions[0].datacenters[0].id", "databaseConfiguration.regions[0].satellite_redundancy_mode",
		} {
			if !found["spec."+path] {
				t.Errorf("%q is accepted as %s", evil, path)
			}
		}
	}
}

func TestWarnings(t *testing.T) {
	for text, want := range map[string]string{
		``: "",
		`spec: {lockOptions: {disableLocks: false}}`:                            "processGroupIDPrefix",
		`spec: {lockOptions: {disableLocks: false}, processGroupIDPrefix: dc1}`: "",
		`spec: {lockOptions: {denyList: [{id: dc1}]}}`:                          "lockOptions.denyList",
		`spec: {processGroupsToRemove: [log-1, log-2], processGroupsToRemoveWithoutExclusion: [log-3]}
status: {processGroups: [{processGroupID: log-1}]}`: "processGroupsToRemoveWithoutExclusion[0] processGroupsToRemove[1]",
		`{spec: {processGroupIDPrefix: b}, status: {processGroups: [{processGroupID: a-log-1}]}}`:                                           "processGroupIDPrefix",
		`{spec: {processGroupIDPrefix: b}, status: {processGroups: [{processGroupID: b-log-1}]}}`:                                           "",
		`{spec: {processGroupIDPrefix: b}, status: {processGroups: [{processGroupID: a-log-1, removalTimestamp: "2026-01-01T00:00:00Z"}]}}`: "",
		`spec: {processes: {general: {customParameters: [a=1]}, log: {customParameters: [b=1]}, storage: {}}}`:                              "processes[log].customParameters",
		`spec: {processes: {general: {}, log: {customParameters: [b=1]}}}`:                                                                  "",
	} {
		if got := Warnings(clusterOf(t, text)); paths(got) != want {
			t.Errorf("%s\n%v, expected %s", text, got, want)
		}
	}
}

func TestIgnored(t *testing.T) {
	equal(t, "nothing", Ignored(specOf(t, `automationOptions: {useLocalitiesForExclusion: true}`)), []string(nil))
	equal(t, "everything", Ignored(specOf(t, `
automationOptions: {databaseInteractionMode: mgmtAPI, useManagementAPI: false, useNonBlockingExcludes: true}
processCounts: {tester: 1, storge: 3, log: 3, nothing: 0}
`)), []string{
		"spec.automationOptions.databaseInteractionMode", "spec.automationOptions.useManagementAPI", "spec.automationOptions.useNonBlockingExcludes",
		"spec.processCounts.storge", "spec.processCounts.tester",
	})
	equal(t, "groups", len(Groups(specOf(t, `processCounts: {tester: 1, storge: 3, nothing: 0}`))), 3)
}

// TestExamples: the manifests that people have, and ours, are valid, and their children can be built.
func TestExamples(t *testing.T) {
	read := 0
	for _, pattern := range []string{"../../examples/foundationdb/*.yaml", "../../../shared/data/fdb-samples/*/*/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 0 {
			t.Run(pattern, func(t *testing.T) { t.Skip("nothing is there") })
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, document := range strings.Split(string(text), "\n---\n") {
				if !strings.Contains(document, "\nkind: FoundationDBCluster\n") {
					continue
				}
				c := &v1beta2.FoundationDBCluster{}
				if err := yaml.UnmarshalStrict([]byte(document), c); err != nil {
					t.Fatal(err)
				}
				read++
				if problems := Validate(c); problems != nil {
					t.Errorf("%s: %v", file, problems)
				}
				if ignored := Ignored(c.Spec); ignored != nil {
					t.Errorf("%s: ignored: %v", file, ignored)
				}
				if _, err := ConfigMap(c); err != nil {
					t.Errorf("%s: %v", file, err)
				}
				for class := range Groups(c.Spec) {
					id := fdb.GroupID{Prefix: c.Spec.ProcessGroupIDPrefix, Class: class, Number: 1}
					pod, err := Pod(c, id, PodFacts{})
					claim, err2 := Claim(c, id)
					if err != nil || err2 != nil || (claim != nil) != class.Stateful() {
						t.Errorf("%s: %s: %v, %v", file, id, err, err2)
						continue
					}
					if why, replace := Misconfigured(c, id, pod, claim, MisconfiguredOptions{}); replace {
						t.Errorf("%s: %s is replaced at once: %s", file, id, why)
					}
				}
			}
		}
	}
	if read < 6 {
		t.Errorf("%d clusters were read", read)
	}
}
