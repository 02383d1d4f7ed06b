package foundationdb

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

func TestConfigMap(t *testing.T) {
	for name, text := range map[string]string{
		"new": `spec: {processCounts: {stateless: -1, cluster_controller: 1}}`,
		"running": `
spec:
  version: 7.4.6
  trustedCAs: [one, two]
  processCounts: {stateless: -1}
  labels: {matchLabels: {app: sample}, resourceLabels: {team: storage}}
  configMap:
    metadata: {name: ignored, labels: {app: other, mine: "1"}, annotations: {note: kept}}
    data: {sidecar-conf: "{}", cluster-file: ignored}
status: {connectionString: "a:b@1.1.1.1:4501", imageTypes: [unified], processGroups: [{processGroupID: proxy-1, processClass: proxy}]}
`,
		"both-images": `
spec: {imageType: unified, storageServersPerPod: 2, processCounts: {stateless: -1}}
status: {connectionString: "a:b@1.1.1.1:4501", imageTypes: [split], storageServersPerDisk: [1], logServersPerDisk: [1, 3]}
`,
	} {
		m, err := ConfigMap(clusterOf(t, text))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "configmap-"+name+".yaml", asText(t, m))
	}
	if _, err := ConfigMap(clusterOf(t, `spec: {version: none}`)); fault.Of(err) != fdb.VersionInvalid {
		t.Errorf("an unreadable version: %v", err)
	}
}

// TestConfigHash: exactly the files of a pod count. The golden hash must not change from release to release: all pods
// would be brought up to date.
func TestConfigHash(t *testing.T) {
	m := &corev1.ConfigMap{Data: map[string]string{"running-version": "7.3.69", "cluster-file": "a:b@c:1", "fdbmonitor-conf-log": "log"}}
	for image, want := range map[v1beta2.ImageType]string{
		v1beta2.ImageTypeSplit:   "19a79a400ca41cc9b2ed0188c2411c0ccbe04af68ee6770e587d1492ecac42b6", // of {"cluster-file":"a:b@c:1","fdbmonitor-conf-log":"log","running-version":"7.3.69"}
		v1beta2.ImageTypeUnified: "3338f98a4b6415e563f75d612b6e53305cfee705a1c18299e4da7357433e5807", // of {"running-version":"7.3.69"}
	} {
		if got := ConfigHash(m, fdb.ClassLog, image, 1); got != want {
			t.Errorf("%s: %s, expected %s", image, got, want)
		}
	}
	for key, counts := range map[string][3]bool{ // of a split pod with 1 server, one with 2, a unified pod
		"running-version": {true, true, true}, "ca-file": {true, true, true}, "sidecar-conf": {true, true, true}, "cluster-file": {true, true, false},
		"fdbmonitor-conf-log": {true, false, false}, "fdbmonitor-conf-log-density-2": {false, true, false}, "fdbmonitor-conf-log-json": {false, false, true},
		"fdbmonitor-conf-storage": {}, "mine": {},
	} {
		var got [3]bool
		for i, hash := range []func(*corev1.ConfigMap) string{
			func(m *corev1.ConfigMap) string { return ConfigHash(m, fdb.ClassLog, v1beta2.ImageTypeSplit, 1) },
			func(m *corev1.ConfigMap) string { return ConfigHash(m, fdb.ClassLog, v1beta2.ImageTypeSplit, 2) },
			func(m *corev1.ConfigMap) string { return ConfigHash(m, fdb.ClassLog, v1beta2.ImageTypeUnified, 2) },
		} {
			changed := m.DeepCopy()
			changed.Data[key] += "x"
			got[i] = hash(m) != hash(changed)
		}
		equal(t, key, got, counts)
	}
}
