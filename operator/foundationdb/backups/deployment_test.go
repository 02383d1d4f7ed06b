package backups

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares an object with a file of testdata.
func golden(t *testing.T, name string, got any) {
	t.Helper()
	text, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(text)); d != "" {
		t.Errorf("%s (-golden +got; -update writes it anew):\n%s", name, d)
	}
}

func backupOf(t *testing.T, text string) *v1beta2.FoundationDBBackup {
	t.Helper()
	b := &v1beta2.FoundationDBBackup{}
	b.Name, b.Namespace, b.UID = "orders", "default", "1234"
	b.Spec = v1beta2.FoundationDBBackupSpec{Version: "7.3.69", ClusterName: "orders"}
	if err := yaml.UnmarshalStrict([]byte(text), b); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAgents: the deployment of the agents, for both image types, with templates and with the TLS of the cluster.
func TestAgents(t *testing.T) {
	secured := &v1beta2.FoundationDBCluster{}
	secured.Spec.TrustedCAs, secured.Spec.MainContainer.PeerVerificationRules = []string{"CA"}, "S.CN=orders"
	for name, c := range map[string]struct {
		text    string
		cluster *v1beta2.FoundationDBCluster
	}{
		"split":   {text: "spec: {}"},
		"unified": {text: "spec: {imageType: unified, agentCount: 3, dataCenter: dc1}"},
		"secured": {text: "spec: {imageType: unified}", cluster: secured},
		"template": {text: `
spec:
  customParameters: [knob_a=1, "locality_zoneid = z"]
  backupDeploymentMetadata: {labels: {team: red}, annotations: {note: kept}}
  allowTagOverride: true
  mainContainer: {imageConfigs: [{version: 7.3.69, tag: seven}, {baseImage: mirror/fdb}]}
  podTemplateSpec:
    metadata: {labels: {app: agents}}
    spec:
      nodeSelector: {disk: fast}
      initContainers:
      - {name: first, image: busybox}
      - {name: foundationdb-kubernetes-init, image: "registry:5000/sidecar:mine", securityContext: {readOnlyRootFilesystem: false}}
      containers:
      - {name: other, image: other}
      - name: foundationdb
        env: [{name: FDB_ZONE_ID, value: mine}]
        resources: {requests: {cpu: 250m}}
        volumeMounts: [{name: logs, mountPath: /elsewhere}]
      volumes: [{name: logs, hostPath: {path: /logs}}]
`},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Agents(backupOf(t, c.text), c.cluster)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "agents-"+name+".yaml", d)
		})
	}
	if d, err := Agents(backupOf(t, "spec: {agentCount: 0}"), nil); d != nil || err != nil {
		t.Errorf("no agents: %v, %v", d, err)
	}
}

// TestAgentsHash: an unchanged backup that the published operator has made keeps its agents: the hash is the one of its
// own tests. Source: fdb-kubernetes-operator 2.33.0, internal/pod_models_test.go, "with a basic deployment".
func TestAgentsHash(t *testing.T) {
	b := &v1beta2.FoundationDBBackup{ObjectMeta: metav1.ObjectMeta{Name: "operator-test-1", Namespace: "my-ns"}}
	b.Spec = v1beta2.FoundationDBBackupSpec{
		Version: "7.1.57", ClusterName: "operator-test-1", AgentCount: new(3), ImageType: v1beta2.ImageTypeUnified,
		BlobStoreConfiguration: &v1beta2.BlobStoreConfiguration{AccountName: "test@test-service", BackupName: "test-backup"},
	}
	d, err := Agents(b, nil)
	if err != nil || d.Annotations[SpecAnnotation] != "5250c19ca170acf598f0e1437383ac279876e5d08db4d9dfd2b8121dac05e419" {
		t.Errorf("%s %v", d.Annotations[SpecAnnotation], err)
	}
}

// TestImages: the image of the template is a repository; with a tag it needs allowTagOverride.
func TestImages(t *testing.T) {
	for given, want := range map[string][2]string{
		"":                       {"foundationdb/foundationdb:7.3.69", "foundationdb/foundationdb:7.3.69"},
		"mirror/fdb":             {"mirror/fdb:7.3.69", "mirror/fdb:7.3.69"},
		"registry:5000/fdb":      {"registry:5000/fdb:7.3.69", "registry:5000/fdb:7.3.69"},
		"registry:5000/fdb:mine": {"", "registry:5000/fdb:mine"},
		"fdb@sha256:12":          {"", "fdb@sha256:12"},
	} {
		for i, override := range []bool{false, true} {
			b := backupOf(t, "")
			b.Spec.AllowTagOverride = &override
			b.Spec.PodTemplateSpec = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "foundationdb", Image: given}}}}
			d, err := Agents(b, nil)
			switch {
			case want[i] == "":
				if fault.Of(err) != foundationdb.SpecInvalid {
					t.Errorf("%s, override=%t: %v", given, override, err)
				}
			case err != nil || d.Spec.Template.Spec.Containers[0].Image != want[i]:
				t.Errorf("%s, override=%t: %v %v", given, override, d, err)
			}
		}
	}
}

// TestSamplesBuild: each published sample of a backup, and our own, is accepted and has agents.
func TestSamplesBuild(t *testing.T) {
	for pattern, least := range map[string]int{"../../../examples/foundationdb/*.yaml": 1, "../../../../shared/data/fdb-samples/*/*/*.yaml": 2} {
		t.Run(pattern, func(t *testing.T) {
			paths, err := filepath.Glob(pattern)
			if err != nil || len(paths) == 0 {
				t.Skipf("there are no files %s: %v", pattern, err)
			}
			built := 0
			for _, path := range paths {
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				for document := range strings.SplitSeq(string(text), "\n---\n") {
					b := &v1beta2.FoundationDBBackup{}
					if err := yaml.Unmarshal([]byte(document), b); err != nil || b.Kind != "FoundationDBBackup" {
						continue
					}
					if err := refusal(b, foundationdb.TemplateLimits{}); err != nil {
						t.Errorf("%s: %v", path, err)
					}
					d, err := Agents(b, nil)
					if err != nil {
						t.Fatalf("%s: %v", path, err)
					}
					c := d.Spec.Template.Spec.Containers[0]
					if c.Image != "foundationdb/fdb-kubernetes-monitor:7.3.69" || !hasEnv(c.Env, "FDB_BLOB_CREDENTIALS") || !hasEnv(c.Env, "FDB_CLUSTER_FILE") || len(c.VolumeMounts) < 3 {
						t.Errorf("%s: %+v", path, c)
					}
					built++
				}
			}
			if built < least {
				t.Errorf("%d backups, not %d", built, least)
			}
		})
	}
}

// TestPatch: the patch brings any deployment to what is wanted, and removes what is not.
func TestPatch(t *testing.T) {
	old, err := Agents(backupOf(t, "spec: {podTemplateSpec: {spec: {nodeSelector: {disk: fast}, hostNetwork: true, volumes: [{name: v, emptyDir: {}}]}}}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	old.Labels["theirs"], old.Spec.Template.Spec.DNSPolicy = "kept", corev1.DNSDefault
	wanted, err := Agents(backupOf(t, "spec: {imageType: unified, agentCount: 7}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !outdated(old, wanted) {
		t.Error("it is not outdated")
	}
	w := newWorld(t)
	w.make(old)
	patch, err := patchOf(old, wanted)
	if err != nil {
		t.Fatal(err)
	}
	got := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: old.Namespace, Name: old.Name}}
	if err := w.As("").Objects.Patch(context.Background(), got, patch); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(encode(wanted.Spec), encode(got.Spec)); d != "" {
		t.Error(d)
	}
	if got.Labels["theirs"] != "kept" || outdated(got, wanted) {
		t.Errorf("%+v", got.ObjectMeta)
	}
}
