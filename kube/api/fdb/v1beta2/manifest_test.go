package v1beta2_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// TestManifests: manifests decode without an unknown field, and no field of them is lost when they are
// written again.
func TestManifests(t *testing.T) {
	const published = "../../../../../shared/data/fdb-samples" // the published samples, byte for byte
	folders := map[string]int{"../../../../examples/foundationdb": 8}
	if _, err := os.Stat(published); err != nil {
		t.Run("published", func(t *testing.T) { t.Skipf("the published samples are not there: %v", err) })
	} else {
		folders[published] = 7
	}
	for folder, want := range folders {
		var kinds []string
		err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" {
				return err
			}
			text, err := os.ReadFile(path)
			for i, document := range strings.Split(string(text), "\n---\n") {
				if strings.Contains("\n"+document, "\napiVersion: "+v1beta2.GroupVersion.String()+"\n") {
					kinds = append(kinds, survives(t, fmt.Sprintf("%s, document %d", path, i+1), document))
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(kinds) != want || !slices.Contains(kinds, "FoundationDBCluster") || !slices.Contains(kinds, "FoundationDBBackup") || !slices.Contains(kinds, "FoundationDBRestore") {
			t.Errorf("%s: %d objects of kinds %v, expected %d of all three", folder, len(kinds), kinds, want)
		}
	}
}

// survives checks one document and returns its kind.
func survives(t *testing.T, name, document string) string {
	var source map[string]any
	if err := yaml.Unmarshal([]byte(document), &source); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	scheme := runtime.NewScheme()
	if err := v1beta2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kind, _ := source["kind"].(string)
	object, err := scheme.New(v1beta2.GroupVersion.WithKind(kind))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	text, err := json.Marshal(object.DeepCopyObject())
	if err != nil {
		t.Fatal(err)
	}
	var written map[string]any
	if err := json.Unmarshal(text, &written); err != nil {
		t.Fatal(err)
	}
	lost(t, name, source, written)
	return kind
}

// lost reports what stands in the source and not in what was written.
func lost(t *testing.T, path string, source, written any) {
	switch source := source.(type) {
	case map[string]any:
		other, _ := written.(map[string]any)
		for key, value := range source {
			if isZero(value) && other[key] == nil {
				continue // a zero value may be left out
			}
			lost(t, path+"."+key, value, other[key])
		}
	case []any:
		other, _ := written.([]any)
		if len(other) != len(source) {
			t.Errorf("%s: %v became %v", path, source, written)
			return
		}
		for i := range source {
			lost(t, fmt.Sprintf("%s[%d]", path, i), source[i], other[i])
		}
	default:
		if !reflect.DeepEqual(source, written) {
			t.Errorf("%s: %v became %v", path, source, written)
		}
	}
}

func isZero(value any) bool {
	return value == nil || value == false || value == float64(0) || value == ""
}
