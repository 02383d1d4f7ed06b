package foundationdb

import (
	"testing"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
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
