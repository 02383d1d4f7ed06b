package foundationdb

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-golden +got; -update writes it anew):\n%s", name, diff)
	}
}

// clusterOf reads a cluster from YAML; what the text does not say is that of a small cluster.
func clusterOf(t *testing.T, text string) *v1beta2.FoundationDBCluster {
	t.Helper()
	c := &v1beta2.FoundationDBCluster{}
	c.Name, c.Namespace, c.UID, c.Generation = "sample", "default", "1234", 7
	c.Spec.Version, c.Status.RunningVersion = "7.3.69", "7.3.69"
	if err := yaml.UnmarshalStrict([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func specOf(t *testing.T, text string) v1beta2.FoundationDBClusterSpec {
	t.Helper()
	s := v1beta2.FoundationDBClusterSpec{Version: "7.3.69"}
	if err := yaml.UnmarshalStrict([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// asText is the JSON of a value, as YAML, which reads well in golden files.
func asText(t *testing.T, value any) string {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.JSONToYAML(encoded)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func at(seconds int64) *metav1.Time { return &metav1.Time{Time: time.Unix(seconds, 0)} }
