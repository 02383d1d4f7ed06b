package manifest

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// What is written for kubectl is taken as it is: a cluster, and the ConfigMap of its classes.
func TestManifestsForKubernetesAreTaken(t *testing.T) {
	all, err := ReadManifests([]string{"../../../../examples/sharedstorage"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}
	for _, m := range all {
		kinds[m.Object.Kind] = string(m.Object.Spec)
	}
	var classes struct{ Data map[string]string }
	if err := json.Unmarshal([]byte(kinds["ConfigMap"]), &classes); err != nil || !strings.Contains(classes.Data["small"], "cpu") || kinds["SharedStorageCluster"] == "" {
		t.Fatalf("%v: %v", err, kinds)
	}
	file := t.TempDir() + "/other.yaml"
	if err := os.WriteFile(file, []byte("kind: thing\nmetadata: {name: a}\ndata: {a: b}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadManifests([]string{file}, nil); err == nil || !strings.Contains(err.Error(), "only a ConfigMap") {
		t.Fatalf("data of another kind: %v", err)
	}
}
