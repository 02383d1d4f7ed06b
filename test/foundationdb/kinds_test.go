package foundationdb_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const published = "../../../shared/data/fdb-samples" // the published samples

// TestManifestsApply: the published samples, byte for byte, and our examples are applied with strict validation.
func TestManifestsApply(t *testing.T) {
	for _, pattern := range []string{"../../examples/foundationdb/*.yaml", published + "/*/*/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 0 {
			t.Run(pattern, func(t *testing.T) { t.Skip("nothing is there") })
		}
		for _, file := range files {
			t.Run(filepath.Join(filepath.Base(filepath.Dir(file)), filepath.Base(file)), func(t *testing.T) {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				namespace := suite.Plane(t).Namespace(t)
				for _, name := range []string{"kc1", "kc2", "kc3"} { // one namespace for each Kubernetes cluster
					if !strings.Contains(string(text), "\n  namespace: "+name+"\n") {
						continue
					}
					namespace = ""
					if out, err := kubectl(t, "", "", "create", "namespace", name); err != nil {
						t.Fatal(out)
					}
				}
				for range 2 { // the second time nothing changes
					out, err := kubectl(t, namespace, string(text), "apply", "--validate=strict", "-f", "-")
					// No API server takes the published ClusterRoleBinding: it does not name the account's namespace.
					broken := filepath.Base(file) == "unified_image_role.yaml" && strings.HasSuffix(strings.TrimSpace(out), `The ClusterRoleBinding "fdb-kubernetes" is invalid: subjects[0].namespace: Required value`)
					if err != nil && !broken {
						t.Fatal(out)
					}
				}
			})
		}
	}
}

// get returns a field of an object, as JSON.
func get(t *testing.T, namespace, kind, path string) any {
	t.Helper()
	out, err := kubectl(t, namespace, "", "get", kind, "x", "-o", "json")
	if err != nil {
		t.Fatal(out)
	}
	var value any
	if err := json.Unmarshal([]byte(out), &value); err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(path, ".") {
		fields, _ := value.(map[string]any)
		value = fields[name]
	}
	return value
}

const (
	cluster = "apiVersion: apps.foundationdb.org/v1beta2\nkind: FoundationDBCluster\nmetadata: {name: x}\nspec: "
	backup  = "apiVersion: apps.foundationdb.org/v1beta2\nkind: FoundationDBBackup\nmetadata: {name: x}\nspec: "
	restore = "apiVersion: apps.foundationdb.org/v1beta2\nkind: FoundationDBRestore\nmetadata: {name: x}\nspec: "
)

// TestUnknownFieldsStay: a field that this version does not know stays in the object, and is no reason to refuse it.
func TestUnknownFieldsStay(t *testing.T) {
	namespace := suite.Plane(t).Namespace(t)
	out, err := kubectl(t, namespace, cluster+`{version: 7.3.69, future: {a: 1}, routing: {future: 2}, automationOptions: {replacements: {future: 3}},
  processes: {general: {future: 4, podTemplate: {metadata: {labels: {a: b}, annotations: {c: d}}}}}, databaseConfiguration: {regions: [{future: 5}]}}`,
		"apply", "--validate=false", "-f", "-")
	if err != nil {
		t.Fatal(out)
	}
	for path, want := range map[string]any{
		"spec.future.a": 1.0, "spec.routing.future": 2.0, "spec.automationOptions.replacements.future": 3.0, "spec.processes.general.future": 4.0,
		"spec.processes.general.podTemplate.metadata.labels.a": "b", "spec.processes.general.podTemplate.metadata.annotations.c": "d",
		"spec.databaseConfiguration.regions": []any{map[string]any{"future": 5.0}},
	} {
		if got := get(t, namespace, "fdb", path); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, expected %v", path, got, want)
		}
	}
}

// TestServerDefaults: the API server fills these in; all others are the operator's.
func TestServerDefaults(t *testing.T) {
	namespace := suite.Plane(t).Namespace(t)
	for _, text := range []string{cluster + `{version: 7.3.69, automationOptions: {replacements: {}}}`, backup + `{version: 7.3.69, clusterName: x}`, restore + `{destinationClusterName: x, backupVersion: null}`} {
		if out, err := kubectl(t, namespace, text, "apply", "-f", "-"); err != nil {
			t.Fatal(out)
		}
	}
	for kind, want := range map[string]map[string]any{
		"fdb": {"version": "7.3.69", "imageType": "unified", "minimumUptimeSecondsForBounce": 600.0, "replaceInstancesWhenResourcesChange": false, "skip": false,
			"automationOptions": map[string]any{"deletionMode": "Zone", "removalMode": "Zone", "podUpdateStrategy": "ReplaceTransactionSystem", "synchronizationMode": "local",
				"replacements": map[string]any{"maxConcurrentReplacements": 1.0}}},
		"fdbbackup": {"version": "7.3.69", "clusterName": "x", "imageType": "split", "backupMode": "continuous", "backupType": "backup_agent", "deletionPolicy": "noop", "allowTagOverride": false},
	} {
		if got := get(t, namespace, kind, "spec"); !reflect.DeepEqual(got, any(want)) {
			t.Errorf("%s: %v, expected %v", kind, got, want)
		}
	}
	for kind, columns := range map[string]string{
		"fdb":        "NAME GENERATION RECONCILED AVAILABLE FULLREPLICATION VERSION AGE GROUPS WAITING RUNNING",
		"fdbbackup":  "NAME GENERATION RECONCILED RUNNING RESTORABLE PAUSED TAG AGE",
		"fdbrestore": "NAME STATE TAG STARTED COMPLETED AGE",
	} {
		out, err := kubectl(t, namespace, "", "get", kind, "-o", "wide")
		head, _, _ := strings.Cut(out, "\n")
		if got := strings.Join(strings.Fields(head), " "); err != nil || got != columns {
			t.Errorf("%s: %s", kind, out)
		}
	}
}

// TestServerRefuses: both sides of what the API server refuses by itself, with the field in the message.
func TestServerRefuses(t *testing.T) {
	namespace := suite.Plane(t).Namespace(t)
	ids := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("log-1, ", n), ", ") + "]" }
	for text, want := range map[string]string{ // want: a part of the message; empty: accepted
		cluster + `{version: 7.3.69}`:      "",
		cluster + `{}`:                     "spec.version: Required",
		cluster + `{version: "7.3"}`:       "spec.version: Invalid",
		cluster + `{version: a7.3.69-rc1}`: "",
		cluster + `{version: 7.3.69, processGroupIDPrefix: ` + strings.Repeat("x", 43) + `}`:                 "",
		cluster + `{version: 7.3.69, processGroupIDPrefix: ` + strings.Repeat("x", 44) + `}`:                 "spec.processGroupIDPrefix: Too long",
		cluster + `{version: 7.3.69, processGroupsToRemove: ` + ids(500) + `}`:                               "",
		cluster + `{version: 7.3.69, processGroupsToRemove: ` + ids(501) + `}`:                               "spec.processGroupsToRemove: Too many",
		cluster + `{version: 7.3.69, processGroupsToRemoveWithoutExclusion: ` + ids(501) + `}`:               "spec.processGroupsToRemoveWithoutExclusion: Too many",
		cluster + `{version: 7.3.69, processGroupsToRemove: ["*"]}`:                                          "spec.processGroupsToRemove[0]: Invalid",
		cluster + `{version: 7.3.69, buggify: {blockRemoval: ["*"]}}`:                                        "",
		cluster + `{version: 7.3.69, processGroupsToRemove: [dc1.a-cluster_controller-7]}`:                   "",
		cluster + `{version: 7.3.69, routing: {podIPFamily: 6}}`:                                             "",
		cluster + `{version: 7.3.69, routing: {podIPFamily: 5}}`:                                             "spec.routing.podIPFamily: Unsupported",
		cluster + `{version: 7.3.69, coordinatorSelection: [{processClass: log, priority: 1}]}`:              "",
		cluster + `{version: 7.3.69, coordinatorSelection: [{processClass: stateless}]}`:                     "spec.coordinatorSelection[0].processClass: Unsupported",
		cluster + `{version: 7.3.69, imageType: both}`:                                                       "spec.imageType: Unsupported",
		cluster + `{version: 7.3.69, minimumUptimeSecondsForBounce: 0}`:                                      "spec.minimumUptimeSecondsForBounce: Invalid",
		cluster + `{version: 7.3.69, databaseConfiguration: {storage_engine: rocks}}`:                        "spec.databaseConfiguration.storage_engine: Unsupported",
		cluster + `{version: 7.3.69, databaseConfiguration: {redundancy_mode: five}}`:                        "spec.databaseConfiguration.redundancy_mode: Unsupported",
		cluster + `{version: 7.3.69, automationOptions: {deletionMode: Rack}}`:                               "spec.automationOptions.deletionMode: Unsupported",
		backup + `{version: 7.3.69}`:                                                                         "spec.clusterName: Required",
		backup + `{version: 7.3.69, clusterName: x, blobStoreConfiguration: {accountName: a}}`:               "spec.blobStoreConfiguration.accountName: Invalid",
		backup + `{version: 7.3.69, clusterName: x, blobStoreConfiguration: {accountName: a@b, bucket: ab}}`: "spec.blobStoreConfiguration.bucket: Invalid",
		backup + `{version: 7.3.69, clusterName: x, backupState: Gone}`:                                      "spec.backupState: Unsupported",
		restore + `{destinationClusterName: x, keyRanges: [{start: a, end: '\xff'}]}`:                        "",
		restore + `{destinationClusterName: x, keyRanges: [{start: "a;b", end: b}]}`:                         "spec.keyRanges[0].start: Invalid",
	} {
		out, err := kubectl(t, namespace, text, "apply", "--dry-run=server", "-f", "-")
		if (err == nil) != (want == "") || !strings.Contains(out, want) {
			t.Errorf("%.300s\n%s", text, out)
		}
	}
}

// TestTagImmutable: the tag of a backup cannot change, nor appear or vanish, unless it is the default.
func TestTagImmutable(t *testing.T) {
	namespace := suite.Plane(t).Namespace(t)
	for _, step := range []struct {
		tag string
		ok  bool
	}{{"", true}, {", tag: default", true}, {", tag: other", false}, {"", true}, {", tag: other", false}} {
		out, err := kubectl(t, namespace, backup+"{version: 7.3.69, clusterName: x"+step.tag+"}", "apply", "-f", "-")
		if (err == nil) != step.ok || !step.ok && !strings.Contains(out, "spec.tag: Invalid value") {
			t.Errorf("%q: %s", step.tag, out)
		}
	}
}
