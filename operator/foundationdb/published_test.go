package foundationdb_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/backups"
)

// published are the names that leave a trace in Kubernetes or in the database, so that a cluster which another operator
// of these kinds has made is taken over in place. They are written out here, as people and programs know them, and not
// by our constants. TestPublishedNames compares them with what is built, in both directions: a name that is built and
// stands in no row is refused too.
//
// What stands elsewhere: the hashes of pods in TestPublishedHashes, which name goes into which container in
// TestPodNames, the text of monitor files in testdata/monitor-*, columns of kinds in kube/api/fdb/v1beta2, bytes of
// values in fdb/lock_test.go, whole argument vectors in fdb/testdata/calls.txt.
var published = map[string][]string{
	"kind":       {"apps.foundationdb.org/v1beta2 FoundationDBCluster fdb", "apps.foundationdb.org/v1beta2 FoundationDBBackup fdbbackup", "apps.foundationdb.org/v1beta2 FoundationDBRestore fdbrestore"},
	"finalizer":  {"foundationdb.org/fdb-kubernetes-operator"},
	"object":     {"sample-config", "sample-storage-1", "sample-storage-1-data", "sample-cluster-controller-1", "sample", "sample-backup-agents"},
	"label":      {"foundationdb.org/fdb-cluster-name", "foundationdb.org/fdb-process-class", "foundationdb.org/fdb-process-group-id", "foundationdb.org/backup-for", "foundationdb.org/deployment-name"},
	"node label": {"foundationdb.org/no-schedule-allowed"},
	"annotation": {
		"foundationdb.org/last-applied-spec", "foundationdb.org/last-applied-config-map", "foundationdb.org/public-ip", "foundationdb.org/public-ip-source",
		"foundationdb.org/ip-family", "foundationdb.org/image-type", "foundationdb.org/current-node", "foundationdb.org/isolate-process-group",
	},
	"annotation of the launcher": {
		"foundationdb.org/launcher-current-configuration", "foundationdb.org/launcher-environment", "foundationdb.org/outdated-config-map-seen", "foundationdb.org/cluster-file-change",
	},
	"container": {"foundationdb", "foundationdb-kubernetes-sidecar", "foundationdb-kubernetes-init"},
	"image":     {"foundationdb/foundationdb", "foundationdb/foundationdb-kubernetes-sidecar", "foundationdb/fdb-kubernetes-monitor"},
	"volume":    {"data", "dynamic-conf", "config-map", "fdb-trace-logs", "shared-binaries", "logs"},
	"path":      {"/var/fdb/data", "/var/dynamic-conf", "/var/input-files", "/var/output-files", "/var/log/fdb-trace-logs", "/var/fdb/shared-binaries"},
	"variable": {
		"FDB_PUBLIC_IP", "FDB_POD_IP", "FDB_POD_NAME", "FDB_POD_NAMESPACE", "FDB_NODE_NAME", "FDB_MACHINE_ID", "FDB_ZONE_ID", "FDB_INSTANCE_ID", "FDB_DNS_NAME",
		"FDB_CLUSTER_FILE", "FDB_TLS_CA_FILE", "FDB_TLS_VERIFY_PEERS", "FDB_NETWORK_OPTION_TRACE_LOG_GROUP", "FDB_NETWORK_OPTION_TRACE_ENABLE", "STORAGE_SERVERS_PER_POD", "LOG_SERVERS_PER_POD",
	},
	"argument of a container": {
		"--input-dir", "--log-path", "--process-count", "--mode", "--output-dir", "--main-container-version", "--copy-binary", "--copy-file", "--input-monitor-conf",
		"--public-ip-family", "--bind-address", "--substitute-variable", "--tls", "--init-mode", "--require-not-empty",
		"--log", "--logdir", "--locality_zoneid", "--locality_machineid", "--locality_dcid",
	},
	"key of the config map": {
		"cluster-file", "running-version", "ca-file", "fdbmonitor-conf-cluster_controller", "fdbmonitor-conf-cluster_controller-json", "fdbmonitor-conf-log", "fdbmonitor-conf-log-json",
		"fdbmonitor-conf-log-density-2", "fdbmonitor-conf-storage-density-2", "fdbmonitor-conf-storage-json",
	},
	"file": {"fdb.cluster", "ca.pem", "fdbmonitor.conf", "config.json"},
	"argument of a server": {
		"cluster_file", "seed_cluster_file", "public_address", "class", "logdir", "loggroup", "datadir", "locality_process_id", "locality_instance_id", "locality_machineid", "locality_zoneid",
		"listen_address", "tls_verify_peers", "locality_dcid", "locality_data_hall", "locality_dns_name",
	},
	"setting of fdbmonitor": {"kill_on_configuration_change", "restart_delay", "command"},
	"condition of a group": {
		"IncorrectPodSpec", "IncorrectPodMetadata", "IncorrectConfigMap", "IncorrectCommandLine", "IncorrectSidecarImage", "PodFailing", "PodPending", "ResourcesTerminating", "MissingPod", "MissingPVC",
		"MissingService", "MissingProcesses", "SidecarUnreachable", "NodeTaintDetected", "NodeTaintReplacing", "ProcessIsMarkedAsExcluded", "ProcessHasIOError", "ProcessHasHighRunLoopBusy", "Ready",
	},
	"class": {
		"unset", "storage", "transaction", "resolution", "test", "proxy", "commit_proxy", "grv_proxy", "master", "stateless", "log", "cluster_controller", "router", "fast_restore",
		"data_distributor", "coordinator", "ratekeeper", "storage_cache", "backup", "general",
	},
	"key of the lock": {
		"global", "denyList", "upgrades", "maintenance", "pendingForRemoval", "pendingForExclusion", "pendingForInclusion", "pendingForRestart",
		"readyForExclusion", "readyForInclusion", "readyForRestart", "processAddresses",
	},
	"prefix of the lock": {"\xff\x02/org.foundationdb.kubernetes-operator"},
	"exclusion":          {"locality_instance_id:storage-1"},
	"argument of a tool": {
		"--exec", "-C", "--log", "--trace_format", "--log-dir", "--logdir", "--timeout", "--dest_cluster_file",
		"start", "-d", "-t", "-s", "-z", "--encryption-key-file", "--mutation-log-type", "--partitioned-log-experimental",
		"discontinue", "abort", "delete", "pause", "resume", "modify", "status", "--json", "-r", "-v", "-k",
	},
}

// ownNames are names that no published operator writes.
var ownNames = map[string]string{
	"annotation: pawl.dev/servers-per-pod":   "a claim tells how its data lie",
	"argument of a tool: --blob_credentials": "the file with secrets of a blob store, which are not written into arguments",
	"argument of a tool: --trace-log-group":  "the log group of the tools, which upgrades ignore",
	"argument of a tool: -w":                 "the restore is waited for by passes",
}

func TestPublishedNames(t *testing.T) {
	built := builtNames(t)
	for _, what := range slices.Sorted(maps.Keys(published)) {
		for _, name := range published[what] {
			if !built[what][name] {
				t.Errorf("%s: %q is published, and ours are %q", what, name, slices.Sorted(maps.Keys(built[what])))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(built[what])) {
			if !slices.Contains(published[what], name) && ownNames[what+": "+name] == "" {
				t.Errorf("%s: %q is built, and no published name", what, name)
			}
		}
	}
	for what := range built {
		if published[what] == nil {
			t.Errorf("no row has %s", what)
		}
	}
}

// TestPublishedNamesStandInTheSource reads the published source, where a person has it:
//
//	FDB_OPERATOR_SOURCE=<git directory of FoundationDB/fdb-kubernetes-operator> go test ./operator/foundationdb -run StandInTheSource
func TestPublishedNamesStandInTheSource(t *testing.T) {
	repository := os.Getenv("FDB_OPERATOR_SOURCE")
	if repository == "" {
		t.Skip("FDB_OPERATOR_SOURCE names no git directory of FoundationDB/fdb-kubernetes-operator")
	}
	for _, what := range slices.Sorted(maps.Keys(published)) {
		source, known := publishedIn[what]
		if !known {
			t.Errorf("nobody says where %s stands", what)
			continue
		}
		var text strings.Builder
		for _, file := range source.files {
			// #nosec G204 -- git, with files named here
			content, err := exec.CommandContext(t.Context(), "git", "-C", repository, "show", publishedTag+":"+file).Output()
			if err != nil {
				t.Fatalf("git show %s:%s: %v", publishedTag, file, err)
			}
			text.Write(content)
		}
		for _, name := range published[what] {
			for _, form := range source.forms(name) {
				if !regexp.MustCompile(form).MatchString(text.String()) {
					t.Errorf("%s: no %s in %s", what, form, strings.Join(source.files, ", "))
				}
			}
		}
	}
}

// publishedTag is the release whose names these are.
const publishedTag = "v2.33.0"

// publishedSource is where the names of one sort stand in the published source, and as what: a regular expression each.
type publishedSource struct {
	files []string
	forms func(name string) []string
}

// quoted is a name between quotation marks; argument one that begins a text, or the key of a locality.
func quoted(name string) []string { return []string{`"` + regexp.QuoteMeta(name) + `"`} }
func argument(name string) []string {
	return []string{`"(?:--)?` + name + `[="]|FDBLocality\w+ += "` + strings.TrimPrefix(name, "locality_") + `"`}
}
func word(name string) []string { return []string{`\b` + regexp.QuoteMeta(name) + `\b`} }

var publishedIn = map[string]publishedSource{
	"kind": {[]string{"api/v1beta2/groupversion_info.go", "api/v1beta2/foundationdbcluster_types.go", "api/v1beta2/foundationdbbackup_types.go", "api/v1beta2/foundationdbrestore_types.go"}, func(name string) []string {
		f := strings.Fields(name)
		group, version, _ := strings.Cut(f[0], "/")
		return []string{`Group: "` + group + `", Version: "` + version + `"`, `shortName=` + f[2] + `\n[^{]*type ` + f[1] + ` struct`}
	}},
	"finalizer": {[]string{constantsFile}, quoted},
	"object": {[]string{"internal/pod_helper.go", "internal/pod_models.go", "internal/configmap_helper.go"}, func(name string) []string {
		for _, end := range []string{"config", "data", "backup-agents"} {
			if strings.HasSuffix(name, "-"+end) {
				return []string{`%s-` + end + `"|"` + end + `"`}
			}
		}
		return nil // the name of a pod is put together from those of cluster and group
	}},
	"label":                      {[]string{labelsFile}, quoted},
	"node label":                 {[]string{labelsFile}, quoted},
	"annotation":                 {[]string{labelsFile}, quoted},
	"annotation of the launcher": {nil, func(string) []string { return nil }}, // foundationdb 7.3.69, fdbkubernetesmonitor/api/annotations.go
	"container":                  {[]string{constantsFile}, quoted},
	"image":                      {[]string{constantsFile}, quoted},
	"volume":                     {[]string{podFile}, quoted},
	"path":                       {[]string{podFile}, func(name string) []string { return []string{`"` + name + `["/]`} }},
	"variable": {[]string{"api/v1beta2/foundationdb_env_variables.go", "api/v1beta2/foundationdb_process_class.go", podFile}, func(name string) []string {
		if class, ok := strings.CutSuffix(name, "_SERVERS_PER_POD"); ok {
			return []string{`"_SERVERS_PER_POD"`, `= "` + strings.ToLower(class) + `"`}
		}
		return quoted(name)
	}},
	"argument of a container": {[]string{podFile}, func(name string) []string { return []string{`"` + name + `(?:["=])`} }},
	"key of the config map": {[]string{constantsFile, "internal/configmap_helper.go"}, func(name string) []string {
		if strings.HasPrefix(name, "fdbmonitor-conf-") {
			return []string{`fdbmonitor-conf-%s`, `-json`, `-density-%d`}
		}
		return quoted(name)
	}},
	"file":                  {[]string{podFile, "internal/configmap_helper.go"}, quoted},
	"argument of a server":  {[]string{"internal/monitor_conf.go", labelsFile}, argument},
	"setting of fdbmonitor": {[]string{"internal/monitor_conf.go", "internal/configmap_helper.go"}, word},
	"condition of a group": {[]string{"api/v1beta2/foundationdbcluster_types.go"}, func(name string) []string {
		return []string{`ProcessGroupConditionType = "` + name + `"`}
	}},
	"class": {[]string{"api/v1beta2/foundationdb_database_configuration.go", "api/v1beta2/foundationdb_process_class.go"}, func(name string) []string {
		return []string{`json:"` + name + `,omitempty"|ProcessClass = "` + name + `"`}
	}},
	"key of the lock": {[]string{"fdbclient/lock_client.go", "fdbclient/admin_client.go", "api/v1beta2/foundationdbcluster_types.go"}, func(name string) []string { return []string{`"` + name + `"|%s/` + name + `\b`} }},
	"prefix of the lock": {[]string{"api/v1beta2/foundationdbcluster_types.go"}, func(name string) []string {
		return []string{regexp.QuoteMeta(`\xff\x02`) + name[2:] + `"`}
	}},
	"exclusion": {[]string{labelsFile}, func(name string) []string {
		locality, _, _ := strings.Cut(name, ":")
		return quoted(locality)
	}},
	"argument of a tool": {[]string{"fdbclient/admin_client.go"}, quoted},
}

const (
	labelsFile    = "api/v1beta2/foundationdb_labels.go"
	constantsFile = "api/v1beta2/foundationdb_constants.go"
	podFile       = "internal/pod_models.go"
)

// nameSet is the names of each sort.
type nameSet map[string]map[string]bool

func (n nameSet) add(what string, names ...string) {
	if n[what] == nil {
		n[what] = map[string]bool{}
	}
	for _, name := range names {
		n[what][name] = true
	}
}

// builtNames are those of everything that the operator builds for a cluster that uses all that leaves a name.
func builtNames(t *testing.T) nameSet {
	t.Helper()
	n := nameSet{}
	n.kinds(t)
	n.cluster(t)
	n.agents(t)
	n.database()
	n.tools(t)
	n.add("finalizer", backups.Finalizer)
	n.add("annotation", foundationdb.ConfigAnnotation, foundationdb.NodeAnnotation, foundationdb.IsolateAnnotation)
	n.add("annotation of the launcher", foundationdb.LauncherConfigurationAnnotation, foundationdb.LauncherEnvironmentAnnotation, foundationdb.OutdatedConfigAnnotation, foundationdb.ClusterFileChangeAnnotation)
	n.constants(t, "condition of a group", "../../kube/api/fdb/v1beta2/status_types.go", `ProcessGroupConditionType = "(\w+)"`)
	n.constants(t, "class", "../../fdb/class.go", `(?m)^\tClass\w+ +Class = "(\w+)"`)
	return n
}

// constants adds the values of typed constants, which Go cannot list.
func (n nameSet) constants(t *testing.T, what, file, pattern string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
		n.add(what, m[1])
	}
}

// kinds reads the definitions that are installed.
func (n nameSet) kinds(t *testing.T) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1beta2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, plural := range []string{"clusters", "backups", "restores"} {
		text, err := os.ReadFile("../../deploy/fdb/apps.foundationdb.org_foundationdb" + plural + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var d struct {
			Spec struct {
				Group    string
				Names    struct{ Kind, ShortNames any }
				Versions []struct{ Name string }
			}
		}
		if err := yaml.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		kind := fmt.Sprint(d.Spec.Names.Kind)
		if !scheme.Recognizes(v1beta2.GroupVersion.WithKind(kind)) {
			t.Errorf("the scheme has no %s", kind)
		}
		n.add("kind", fmt.Sprintf("%s/%s %s %s", d.Spec.Group, d.Spec.Versions[0].Name, kind, strings.Trim(fmt.Sprint(d.Spec.Names.ShortNames), "[]")))
	}
}

// everyName is a cluster whose children have all names.
const everyName = `
metadata: {name: sample, namespace: default}
spec:
  version: 7.3.69
  dataCenter: dc1
  dataHall: hall
  storageServersPerPod: 2
  logServersPerPod: 2
  trustedCAs: [one]
  sidecarVariables: [RACK]
  processCounts: {stateless: -1, cluster_controller: 1}
  mainContainer: {enableTls: true, peerVerificationRules: S.CN=a}
  sidecarContainer: {enableTls: true, peerVerificationRules: S.CN=b}
  routing: {publicIPSource: service, podIPFamily: 6}
  buggify: {noSchedule: [storage-1]}
status: {runningVersion: 7.3.69, connectionString: "a:b@1.1.1.1:4500:tls", imageTypes: [split, unified], storageServersPerDisk: [2], logServersPerDisk: [1], hasListenIPsForAllPods: true,
  requiredAddresses: {tls: true}}
`

// cluster adds the children of a cluster, of both images.
func (n nameSet) cluster(t *testing.T) {
	t.Helper()
	for _, image := range []v1beta2.ImageType{v1beta2.ImageTypeUnified, v1beta2.ImageTypeSplit} {
		c := &v1beta2.FoundationDBCluster{}
		if err := yaml.UnmarshalStrict([]byte(everyName), c); err != nil {
			t.Fatal(err)
		}
		c.Spec.ImageType = image
		m, err := foundationdb.ConfigMap(c)
		if err != nil {
			t.Fatal(err)
		}
		n.add("object", m.Name)
		for key, text := range m.Data {
			n.add("key of the config map", key)
			n.monitor(t, key, text)
		}
		for _, id := range []fdb.GroupID{{Class: fdb.ClassStorage, Number: 1}, {Class: fdb.ClassLog, Number: 1}, {Class: fdb.ClassClusterController, Number: 1}} {
			pod, err := foundationdb.Pod(c, id, foundationdb.PodFacts{ServiceIP: "10.1.1.1"})
			if err != nil {
				t.Fatal(err)
			}
			claim, err := foundationdb.Claim(c, id)
			if err != nil {
				t.Fatal(err)
			}
			n.metadata(pod, id)
			if claim != nil {
				n.metadata(claim, id)
			}
			n.metadata(foundationdb.GroupService(c, id), id)
			n.pod(pod.Spec)
		}
		headless := foundationdb.HeadlessService(c)
		n.add("object", headless.Name)
	}
}

func (n nameSet) metadata(o metav1.Object, id fdb.GroupID) {
	if id.Class != fdb.ClassLog {
		n.add("object", o.GetName())
	}
	n.add("label", slices.Collect(maps.Keys(o.GetLabels()))...)
	n.add("annotation", slices.Collect(maps.Keys(o.GetAnnotations()))...)
}

func (n nameSet) pod(spec corev1.PodSpec) {
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, r := range term.MatchExpressions {
				n.add("node label", r.Key)
			}
		}
	}
	for _, v := range spec.Volumes {
		n.add("volume", v.Name)
		if v.ConfigMap != nil {
			for _, item := range v.ConfigMap.Items {
				n.add("file", item.Path)
			}
		}
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		n.add("container", c.Name)
		image, _, _ := strings.Cut(c.Image, ":")
		n.add("image", image)
		for _, v := range c.Env {
			n.add("variable", v.Name)
		}
		for _, m := range c.VolumeMounts {
			n.add("path", m.MountPath)
		}
		for _, a := range c.Args {
			if name, _, _ := strings.Cut(a, "="); strings.HasPrefix(name, "--") {
				n.add("argument of a container", name)
			}
		}
	}
}

// monitor adds what a file of the split or the unified image passes to a server.
func (n nameSet) monitor(t *testing.T, key, text string) {
	t.Helper()
	switch {
	case !strings.HasPrefix(key, "fdbmonitor-conf-"):
	case strings.HasSuffix(key, "-json"):
		var conf struct{ Arguments []any }
		if err := json.Unmarshal([]byte(text), &conf); err != nil {
			t.Fatal(err)
		}
		for _, a := range conf.Arguments {
			encoded, err := json.Marshal(a)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`"--(\w+)=`).FindAllStringSubmatch(string(encoded), -1) {
				n.add("argument of a server", m[1])
			}
		}
	default:
		for _, m := range regexp.MustCompile(`(?m)^(\w+) = `).FindAllStringSubmatch(text, -1) {
			what := "argument of a server"
			if slices.Contains([]string{"command", "kill_on_configuration_change", "restart_delay"}, m[1]) {
				what = "setting of fdbmonitor"
			}
			n.add(what, m[1])
		}
	}
}

// agents adds the deployment of a backup.
func (n nameSet) agents(t *testing.T) {
	t.Helper()
	for _, image := range []v1beta2.ImageType{v1beta2.ImageTypeUnified, v1beta2.ImageTypeSplit} {
		b := &v1beta2.FoundationDBBackup{}
		b.Name, b.Namespace = "sample", "default"
		b.Spec.Version, b.Spec.ClusterName, b.Spec.ImageType, b.Spec.DataCenter = "7.3.69", "sample", image, "dc1"
		c := &v1beta2.FoundationDBCluster{}
		if err := yaml.UnmarshalStrict([]byte(everyName), c); err != nil {
			t.Fatal(err)
		}
		d, err := backups.Agents(b, c)
		if err != nil {
			t.Fatal(err)
		}
		n.metadata(d, fdb.GroupID{})
		n.metadata(&d.Spec.Template, fdb.GroupID{Class: fdb.ClassLog})
		n.pod(d.Spec.Template.Spec)
	}
}

// database adds what is written into the database.
func (n nameSet) database() {
	keys := fdb.Keys("")
	list := []string{keys.Global(), keys.Denied("a"), keys.Upgrade("7.3.69", "a"), keys.Maintenance("a"), keys.ProcessAddresses("a", "b"), keys.Pending(fdb.Removal, "a", "b")}
	for _, a := range []fdb.Action{fdb.Exclusion, fdb.Inclusion, fdb.Restart} {
		list = append(list, keys.Pending(a, "a", "b"), keys.Ready(a, "a", "b"))
	}
	for _, key := range list {
		rest := strings.TrimPrefix(key, fdb.LockPrefix+"/")
		name, _, _ := strings.Cut(rest, "/")
		n.add("key of the lock", name)
		n.add("prefix of the lock", path.Dir(strings.TrimSuffix(key, rest)+"x"))
	}
	n.add("exclusion", fdb.GroupID{Class: fdb.ClassStorage, Number: 1}.Exclusion())
}

// tools adds the arguments of the tools, in all lines of versions.
func (n nameSet) tools(t *testing.T) {
	t.Helper()
	version := uint64(7)
	backup := fdb.Backup{Tag: "a", URL: "blobstore://a@b/c?bucket=d", SnapshotPeriodSeconds: 60, EncryptionKeyPath: "/e"}
	partitioned := backup
	partitioned.PartitionedLog = true
	for _, text := range []string{"7.1.67", "7.3.73", "7.4.7"} {
		v, err := fdb.ParseVersion(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []fdb.Call{
			fdb.ReadStatus(), fdb.Exclude([]string{"1.1.1.1"}, true), fdb.StartBackup(backup), fdb.StartBackup(partitioned), fdb.ModifyBackup(backup), fdb.DiscontinueBackup("a"), fdb.AbortBackup("a"),
			fdb.PauseBackups(), fdb.ResumeBackups(), fdb.ReadBackupStatus("a"), fdb.DeleteBackup(backup.URL),
			fdb.StartRestore(fdb.Restore{Tag: "a", URL: backup.URL, BackupVersion: &version, KeyRanges: []fdb.KeyRange{{Start: "a", End: "b"}}}), fdb.ReadRestoreStatus("a"),
		} {
			c.Version, c.ClusterFile, c.LogDir, c.TraceFormat = v, "/tmp/fdb.cluster", "/tmp", "json"
			argv, _ := c.Arguments()
			if argv == nil {
				t.Fatalf("%s: %v", c.Command, c.Check())
			}
			for i, a := range argv {
				if strings.HasPrefix(a, "-") || i == 0 && c.Tool() != fdb.ToolCLI {
					n.add("argument of a tool", a)
				}
			}
		}
	}
}
